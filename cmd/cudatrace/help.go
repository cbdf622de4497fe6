package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

const helpName = "help"

func helpCommand() *cli.Command {
	return &cli.Command{
		Name:      helpName,
		Aliases:   []string{"h"},
		Usage:     "list the commands, or explain one",
		ArgsUsage: "[COMMAND]",
		UsageText: "cudatrace help [COMMAND]\n\nExample: cudatrace help record",
		Action: func(c *cli.Context) error {
			name := c.Args().First()
			switch {
			case c.NArg() > 1:
				return usagef("", "help: takes one command")
			case name == "":
				return cli.ShowAppHelp(c)
			case c.App.Command(name) == nil:
				return noCommand(name)
			}
			return cli.ShowCommandHelp(c.Lineage()[1], name)
		},
	}
}

// standardFlagLine makes "--gpu cupti|none\tcupti|none: source of GPU work (default: "cupti")", and
// "--pid PID [ --pid PID ]\t..." of a flag that may be repeated.
var standardFlagLine = cli.FlagStringer

// flagLine is a flag's line of a help text. It shows the values of a flag once, and a default only
// where it tells something.
func flagLine(f cli.Flag) string {
	name, text, _ := strings.Cut(standardFlagLine(f), "\t")
	name, _, _ = strings.Cut(name, " [")
	if values := name[strings.LastIndexByte(name, ' ')+1:]; strings.Contains(values, "|") {
		text = strings.TrimPrefix(text, values+": ")
	}
	if text, value, ok := strings.Cut(text, ` (default: "`); ok {
		return name + "\t" + strings.TrimSuffix(text+" (default: "+strings.TrimSuffix(value, `")`)+")", " (default: default)")
	}
	for _, nothing := range []string{" (default: false)", " (default: 0s)"} {
		text = strings.TrimSuffix(text, nothing)
	}
	return name + "\t" + text
}

func noCommand(name string) error {
	return usageError{fmt.Sprintf("unknown command %q; see 'cudatrace help'", name)}
}
