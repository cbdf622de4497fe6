package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

func dumpCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "dump",
		Usage:     "print the records of a log, a line each",
		ArgsUsage: "LOG",
		UsageText: "cudatrace dump LOG [--format text|ndjson] [FILTER...]\n\nExample: cudatrace dump app.cudatrace --kind call,kernel --from 1.5s --to 2s",
		Description: "Records come in the order in which they stand in the log: block by block, not by time.\n" +
			"What a filter rules out is not read. Calls have no device and no stream: --device and --stream\n" +
			"leave them in. docs/ndjson.md documents the JSON.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Value: "text", Usage: "`FORMAT` is text or ndjson, a JSON object a line"},
			&cli.StringFlag{Name: "kind", Usage: "only records of these `KINDS`: call, api, kernel, memcpy, ... separated by commas"},
			&cli.StringFlag{Name: "pid", Usage: "only records of these processes; `PIDS` are separated by commas"},
			&cli.StringFlag{Name: "tid", Usage: "only records of these threads; `TIDS` are separated by commas"},
			&cli.StringFlag{Name: "device", Usage: "only work on these `DEVICES`"},
			&cli.StringFlag{Name: "stream", Usage: "only work on these `STREAMS`"},
			&cli.StringFlag{Name: "from", Usage: "only events that end after `TIME`: 1.5s into the recording, or ns of CLOCK_MONOTONIC as in the text"},
			&cli.StringFlag{Name: "to", Usage: "only events that begin before `TIME`"},
		},
		Action: func(c *cli.Context) error {
			log, err := oneLog(c)
			if err != nil {
				return err
			}
			format := c.String("format")
			if format != "text" && format != "ndjson" {
				return usagef("dump", "dump: format %q is neither text nor ndjson", format)
			}
			filter, err := dumpFilter(c, log)
			if err != nil {
				return err
			}
			r, err := tracelog.Open(log)
			if err != nil {
				return err
			}
			defer r.Close()
			if err := logtext.Dump(stdout, r, logtext.Options{Filter: filter, JSON: format == "ndjson"}); err != nil {
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

// dumpFilter is what the options say is wanted.
func dumpFilter(c *cli.Context, log string) (f tracelog.Filter, err error) {
	for _, flag := range []string{"kind", "pid", "tid", "device", "stream", "from", "to"} {
		if c.IsSet(flag) && len(words(strings.TrimSpace(c.String(flag)))) == 0 {
			return f, usagef("dump", "dump: --%s has no value", flag)
		}
	}
	for _, name := range words(c.String("kind")) {
		kind, ok := tracelog.KindByName(name)
		if !ok {
			return f, usagef("dump", "dump: %q is no kind of record", name)
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
		return f, usagef("dump", "dump: --from %s lies behind --to %s", c.String("from"), c.String("to"))
	}
	return f, err
}

// words takes apart a list that is separated by commas.
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
		return 0, usagef("dump", "dump: --%s %q is no time (write 1.5s, 200ms, or ns of CLOCK_MONOTONIC)", option, value)
	}
	begin, err := tracelog.Begin(log)
	return max(begin+uint64(d), 1), err
}
