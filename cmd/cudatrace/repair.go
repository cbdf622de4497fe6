package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/outfile"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

const repairName = "repair"

func repairCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      repairName,
		Usage:     "recover the intact records of a damaged log",
		ArgsUsage: "LOG",
		UsageText: "cudatrace repair LOG [-o OUT] [--format text|json]\n\n" +
			"Example: cudatrace repair app.cudatrace.partial-4711 -o app.cudatrace",
		Description: "Copies every intact block of a log that was cut off, damaged, or left behind by a recorder that " +
			"was killed. OUT says that it was repaired. LOG itself is not changed.",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name: "output", Aliases: []string{"o"},
				Usage: "write the repaired log to `OUT` (default: the log's name with .repaired" + record.LogSuffix +
					", with a number if it is taken)",
			},
			formatFlag(""),
		},
		Action: func(c *cli.Context) error {
			asJSON, err := wantsObject(c, repairName)
			if err != nil {
				return err
			}
			if c.Args().First() == stdio {
				return usagef(repairName, "repair: LOG must be a file, not standard input")
			}
			input, err := oneLog(c)
			if err != nil {
				return err
			}
			log, out := input.Name, c.String("output")
			switch {
			case out == stdio:
				return usagef(repairName, "repair: -o must name a file, not standard output")
			case out == "":
				out = strings.TrimSuffix(log, record.LogSuffix) + ".repaired" + record.LogSuffix
			}
			done, path, err := repairFile(log, out, c.IsSet("output"))
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(con, repairedObject(log, path, done))
			}
			repaired(con, log, path, done)
			return nil
		},
	}
}

// repairFile writes the intact records of a damaged log to a log at out, or next to it if nobody named
// out and it is taken, and returns where. An intact log is not written.
func repairFile(log, out string, named bool) (done *tracelog.Repair, path string, err error) {
	r, err := tracelog.Open(log)
	if err != nil {
		return nil, "", notLog(log, err)
	}
	defer r.Close()
	target, err := outfile.At(out, outfile.Options{Named: named})
	if err != nil {
		return nil, "", err
	}
	defer target.Close()
	if target.IsFile(log) { // a later repair may recover more of it, and it may still be growing
		return nil, "", fmt.Errorf("cannot write %s: it is the damaged log itself (choose another name)", out)
	}
	f, err := target.Create()
	if err != nil {
		return nil, "", err
	}
	done, err = tracelog.RepairTo(f, out, r)
	if err != nil || done.Damage.Count == 0 {
		return done, "", errors.Join(err, f.Discard())
	}
	where, err := f.Commit()
	if err == nil {
		err = target.Failure(f.Close())
	}
	if err != nil {
		return nil, "", errors.Join(err, f.Discard())
	}
	return done, where.Path, nil
}

// repairedObject is the JSON of a repair.
func repairedObject(log, out string, done *tracelog.Repair) repairedJSON {
	r := repairedJSON{
		Version: jsonVersion, Log: log, Output: out, Faults: done.Damage.Count, Damage: []string{},
		Records: done.Records, Blocks: done.Blocks, Dropped: done.Dropped, Missing: done.Missing,
	}
	for _, err := range done.Damage.Errors {
		r.Damage = append(r.Damage, err.Error())
	}
	return r
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
