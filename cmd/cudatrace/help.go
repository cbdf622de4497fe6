package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/record/errno"
)

const helpName = "help"

func helpCommand() *cli.Command {
	return &cli.Command{
		Name:      helpName,
		Aliases:   []string{"h"},
		Usage:     "list the commands, or describe one",
		ArgsUsage: "[COMMAND]",
		UsageText: "cudatrace help [COMMAND]\n\nExample: cudatrace help record",
		Action: func(c *cli.Context) error {
			name := c.Args().First()
			switch {
			case c.NArg() > 1:
				return usagef("", "help: one command at a time")
			case name == "":
				return cli.ShowAppHelp(c)
			case c.App.Command(name) == nil:
				return noCommand(name)
			}
			return cli.ShowCommandHelp(c.Lineage()[1], name)
		},
	}
}

// standardFlagLine makes "--gpu cupti|none\tcupti|none: where GPU work is seen (default: ...)".
var standardFlagLine = cli.FlagStringer

// flagLine is a flag's line of a help text. It does not repeat the values that stand behind the
// flag's name, and leaves out defaults that tell nothing.
func flagLine(f cli.Flag) string {
	name, text, _ := strings.Cut(standardFlagLine(f), "\t")
	if values := name[strings.LastIndexByte(name, ' ')+1:]; strings.Contains(values, "|") {
		text = strings.TrimPrefix(text, values+": ")
	}
	for _, nothing := range []string{" (default: false)", " (default: 0s)"} {
		text = strings.TrimSuffix(text, nothing)
	}
	return name + "\t" + text
}

func noCommand(name string) error {
	return usageError{fmt.Sprintf("no command %q; see 'cudatrace help'", name)}
}

// A stdoutWriter is standard output. It keeps the first failure, since not everything that
// writes to it looks at its own.
type stdoutWriter struct {
	w   io.Writer
	err error
}

func (o *stdoutWriter) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// failure is err, or that of writing where it is the same or nothing else went wrong.
func (o *stdoutWriter) failure(err error) error {
	if o.err == nil || err != nil && !errors.Is(err, o.err) {
		return err
	}
	return fmt.Errorf("standard output cannot be written: %s", errno.Words(o.err))
}
