package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

func repairCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      "repair",
		Usage:     "recover the intact records of a damaged log",
		ArgsUsage: "LOG",
		UsageText: "cudatrace repair LOG [-o OUT]\n\nExample: cudatrace repair app.cudatrace.partial-4711 -o app.cudatrace",
		Description: "Copies every intact block of a log that was cut off, damaged, or left behind by a recorder that " +
			"was killed. OUT says that it was repaired. LOG itself is not changed.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the repaired log to `OUT` (default: the log's name with .repaired" + record.LogSuffix + ")"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().First() == stdio {
				return usagef("repair", "repair: LOG must be a file, not standard input")
			}
			input, err := oneLog(c)
			if err != nil {
				return err
			}
			log, out := input.Name, c.String("output")
			switch {
			case out == stdio:
				return usagef("repair", "repair: -o must name a file, not standard output")
			case out == "":
				out = strings.TrimSuffix(log, record.LogSuffix) + ".repaired" + record.LogSuffix
			}
			done, err := tracelog.RepairFile(log, out)
			if err != nil {
				return err
			}
			repaired(con, log, out, done)
			return nil
		},
	}
}

// repaired says how much was kept and how much was dropped.
func repaired(con *console.Console, log, out string, done *tracelog.Repair) {
	if done.Damage.Count == 0 {
		con.Sayf("%s is intact: there is nothing to repair", log)
		return
	}
	for _, err := range done.Damage.Errors {
		con.Error(err)
	}
	if more := done.Damage.Count - len(done.Damage.Errors); more > 0 {
		con.Sayf("and %s", figures.Count(more, "more fault", "more faults"))
	}
	dropped := "nothing was dropped"
	if done.Dropped > 0 {
		dropped = figures.Count(done.Dropped, "byte was", "bytes were") + " dropped"
	}
	if done.Missing > 0 {
		dropped += ", and with them " + figures.Count(done.Missing, "record", "records")
	}
	con.Print("%s: %s in %s; %s", out,
		figures.Count(done.Records, "record", "records"), figures.Count(done.Blocks, "block", "blocks"), dropped)
}
