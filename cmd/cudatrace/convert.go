package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record"
)

func convertCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Usage:     "make a Perfetto trace from a log",
		ArgsUsage: "LOG",
		UsageText: "cudatrace convert LOG [-o OUT]\n\nExample: cudatrace convert app.cudatrace -o app.pftrace",
		Description: "Works on any machine, without root, GPU or eBPF. A log that was cut off is converted up to\n" +
			"the cut.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`OUT` is the trace's file, - for standard output (default: the log's name with .pftrace)"},
		},
		Action: func(c *cli.Context) error {
			log, err := oneLog(c)
			if err != nil {
				return err
			}
			out := c.String("output")
			if out == "" {
				out = strings.TrimSuffix(log, record.LogSuffix) + record.TraceSuffix
			}
			var sum convert.Summary
			if out == "-" {
				sum, err = convert.FileTo(log, stdout)
			} else {
				sum, err = convert.File(log, out)
			}
			if err != nil {
				return err
			}
			return verdict(stderr, log, sum)
		},
	}
}

// oneLog is the command's only argument.
func oneLog(c *cli.Context) (string, error) {
	switch c.NArg() {
	case 0:
		return "", usagef(c.Command.Name, "%s: which log?", c.Command.Name)
	case 1:
		return c.Args().First(), nil
	default:
		return "", usagef(c.Command.Name, "%s: one log at a time", c.Command.Name)
	}
}

// verdict says what is missing from a log. A log that is itself damaged is a
// failure, although what is intact was used.
func verdict(stderr io.Writer, log string, sum convert.Summary) error {
	for _, why := range sum.Reasons {
		fmt.Fprintf(stderr, "cudatrace: %s is not complete: %s\n", log, why)
	}
	if sum.Damaged {
		return exitCode(exitFailure)
	}
	return nil
}
