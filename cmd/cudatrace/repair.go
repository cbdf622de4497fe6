package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

func repairCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "repair",
		Usage:     "make a log without damage of what is intact in a damaged one",
		ArgsUsage: "LOG",
		UsageText: "cudatrace repair LOG [-o OUT]\n\nExample: cudatrace repair app.cudatrace.partial-4711 -o app.cudatrace",
		Description: "For a log that was cut off, damaged, or left behind by a recorder that was killed. LOG stays as\n" +
			"it is. Every intact block of it goes to OUT, which says that it was repaired.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`OUT` is the repaired log (default: the log's name with .repaired" + record.LogSuffix + ")"},
		},
		Action: func(c *cli.Context) error {
			log, err := oneLog(c)
			if err != nil {
				return err
			}
			out := c.String("output")
			switch out {
			case "-":
				return usagef("repair", "repair: OUT has to be a file")
			case "":
				out = strings.TrimSuffix(log, record.LogSuffix) + ".repaired" + record.LogSuffix
			}
			done, err := tracelog.RepairFile(log, out)
			if err != nil {
				return err
			}
			return repaired(stdout, stderr, log, out, done)
		},
	}
}

// repaired says what was kept and what was dropped.
func repaired(stdout, stderr io.Writer, log, out string, done *tracelog.Repair) error {
	if done.Damage.Count == 0 {
		fmt.Fprintf(stderr, "cudatrace: %s is intact: there is nothing to repair\n", log)
		return nil
	}
	for _, err := range done.Damage.Errors {
		fmt.Fprintf(stderr, "cudatrace: %v\n", err)
	}
	if more := done.Damage.Count - len(done.Damage.Errors); more > 0 {
		fmt.Fprintf(stderr, "cudatrace: and %s more faults\n", group(uint64(more)))
	}
	dropped := "nothing was dropped"
	if done.Dropped > 0 {
		dropped = group(uint64(done.Dropped)) + " bytes were dropped"
	}
	if done.Missing > 0 {
		dropped += ", " + group(done.Missing) + " records with them"
	}
	_, err := fmt.Fprintf(stdout, "%s: %s records in %s blocks; %s\n", out, group(done.Records), group(uint64(done.Blocks)), dropped)
	return err
}
