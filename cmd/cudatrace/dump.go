package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

func dumpCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      "dump",
		Usage:     "print the records of a log, one per line",
		ArgsUsage: "LOG",
		UsageText: "cudatrace dump LOG [--format text|ndjson] [FILTER...]\n\nExample: cudatrace dump app.cudatrace --kind call,kernel --from 1.5s --to 2s",
		Description: "Prints records in the order of the log: block by block, not by time. Calls have no device and\n" +
			"no stream, so --device and --stream keep them. A list is separated by commas: 7,13.\n" +
			"docs/ndjson.md documents the JSON and lists the kinds of record.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Value: "text", Usage: "`text|ndjson`: ndjson is one JSON object per line"},
			&cli.StringFlag{Name: "kind", Usage: "only records of these `KINDS`: call,kernel,memcpy and so on"},
			&cli.StringFlag{Name: "pid", Usage: "only records of the processes with these `PIDS`"},
			&cli.StringFlag{Name: "tid", Usage: "only records of the threads with these `TIDS`"},
			&cli.StringFlag{Name: "device", Usage: "only GPU work on these `DEVICES`"},
			&cli.StringFlag{Name: "stream", Usage: "only GPU work on these `STREAMS`"},
			callerFlag("and the GPU work that they caused; records of other kinds stay"),
			&cli.StringFlag{Name: "from", Usage: "only events that end after `TIME`: 1.5s into the recording, or ns of CLOCK_MONOTONIC"},
			&cli.StringFlag{Name: "to", Usage: "only events that begin before `TIME`"},
		},
		Action: func(c *cli.Context) error {
			log, err := oneLog(c)
			if err != nil {
				return err
			}
			format := c.String("format")
			if format != "text" && format != "ndjson" {
				return usagef("dump", "dump: --format must be text or ndjson, not %q", format)
			}
			o := logtext.Options{JSON: format == "ndjson"}
			if o.Filter, err = dumpFilter(c, log); err != nil {
				return err
			}
			if glob := c.String("caller"); glob != "" {
				from, err := newCalledFrom(log, glob)
				if err != nil {
					return err
				}
				o.Wants = from.wants
			}
			r, err := tracelog.Open(log)
			if err != nil {
				return err
			}
			defer r.Close()
			if err := logtext.Dump(con.Text(), r, o); err != nil {
				return err
			}
			if d := r.Damage(); d.Count > 0 {
				con.Sayf("%s is not complete: %s", log, d)
				return exitCode(exitFailure)
			}
			return nil
		},
	}
}

// dumpFilter is the filter that the options ask for.
func dumpFilter(c *cli.Context, log string) (f tracelog.Filter, err error) {
	for _, flag := range []string{"kind", "pid", "tid", "device", "stream", "caller", "from", "to"} {
		if c.IsSet(flag) && len(words(strings.TrimSpace(c.String(flag)))) == 0 {
			return f, usagef("dump", "dump: --%s needs a value", flag)
		}
	}
	if err := checkGlob("dump", "caller", c.String("caller")); err != nil {
		return f, err
	}
	for _, name := range words(c.String("kind")) {
		kind, ok := tracelog.KindByName(name)
		if !ok {
			return f, usagef("dump", "dump: unknown kind of record %q", name)
		}
		f.Kinds = append(f.Kinds, kind)
	}
	for name, to := range map[string]*[]uint32{"pid": &f.PIDs, "tid": &f.TIDs, "device": &f.Devices, "stream": &f.Streams} {
		if *to, err = numbers("dump", name, c.String(name)); err != nil {
			return f, err
		}
	}
	if f.From, err = dumpTime(c, "from", log); err != nil {
		return f, err
	}
	if f.To, err = dumpTime(c, "to", log); err == nil && f.To > 0 && f.From > f.To {
		return f, usagef("dump", "dump: --from %s is later than --to %s", c.String("from"), c.String("to"))
	}
	return f, err
}

// words splits a list at its commas.
func words(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

// dumpTime is a time of an option in ns of CLOCK_MONOTONIC, 0 without the option.
func dumpTime(c *cli.Context, option, log string) (uint64, error) {
	value := c.String(option)
	if value == "" {
		return 0, nil
	}
	if ns, err := strconv.ParseUint(value, 10, 64); err == nil {
		return max(ns, 1), nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, usagef("dump", "dump: --%s %q is not a time: write 1.5s, 200ms, or ns of CLOCK_MONOTONIC", option, value)
	}
	begin, err := tracelog.Begin(log)
	return max(begin+uint64(d), 1), err
}
