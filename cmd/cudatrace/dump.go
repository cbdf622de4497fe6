package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

func dumpCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:        "dump",
		Usage:       "print every record of a log, a line each",
		ArgsUsage:   "LOG",
		UsageText:   "cudatrace dump LOG\n\nExample: cudatrace dump app.cudatrace | grep func=cudaMalloc",
		Description: "Records come in the order in which they stand in the log: block by block, not by time.",
		Action: func(c *cli.Context) error {
			log, err := oneLog(c)
			if err != nil {
				return err
			}
			r, err := tracelog.Open(log)
			if err != nil {
				return err
			}
			defer r.Close()
			if err := tracelog.Dump(stdout, r); err != nil {
				return err
			}
			if d := r.Damage(); d.Count > 0 {
				fmt.Fprintf(stderr, "cudatrace: %s is not complete: %s\n", log, d)
				return exitCode(exitFailure)
			}
			return nil
		},
	}
}
