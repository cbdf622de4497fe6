package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

const dumpName = "dump"

func dumpCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      dumpName,
		Usage:     "print the records of a log, one per line",
		ArgsUsage: "LOG",
		UsageText: "cudatrace dump LOG [--format text|ndjson] [FILTER...]\n\n" +
			"Example: cudatrace dump app.cudatrace --kind call,kernel --from 1.5 --to 2",
		Description: "Prints records in the order of the log: block by block, not by time. A time counts from the " +
			"beginning of the recording. Of functions, threads, streams and so on, only those are shown that " +
			"belong to a shown record.\n" +
			"A TIME is in seconds or has a unit: 1.5, 200ms; with --raw or ndjson a number is in ns of " +
			"CLOCK_MONOTONIC. A list is separated by commas: 7,13. A LOG of - is standard input. Calls have no " +
			"device and no stream, so --device and --stream keep them.\n" +
			"The kinds of record are " + strings.Join(logtext.KindNames(), ", ") + ". docs/ndjson.md documents the JSON.",
		Flags:  append(dumpFlags(), dumpFilters()...),
		Action: func(c *cli.Context) error { return runDump(c, con) },
	}
}

func dumpFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Category: outputGroup, Name: "format", Value: "text",
			Usage: "`text|ndjson`: ndjson is one JSON object per line, with raw values and all definitions",
		},
		&cli.BoolFlag{
			Category: outputGroup, Name: "all", Usage: "also show functions, threads, streams and so on to which no shown " +
				"record belongs",
		},
		&cli.BoolFlag{
			Category: outputGroup, Name: "raw", Usage: "show values as the log has them: times in ns of CLOCK_MONOTONIC, " +
				"mangled names, numbers",
		},
	}
}

func dumpFilters() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Category: partGroup, Name: "kind", Usage: "only records of these `KINDS`: call,kernel,memcpy"},
		&cli.StringFlag{Category: partGroup, Name: "pid", Usage: "only records of the processes with these `PIDS`"},
		&cli.StringFlag{Category: partGroup, Name: "tid", Usage: "only records of the threads with these `TIDS`"},
		&cli.StringFlag{Category: partGroup, Name: "device", Usage: "only GPU work on these `DEVICES`"},
		&cli.StringFlag{Category: partGroup, Name: "stream", Usage: "only GPU work on these `STREAMS`"},
		&cli.StringFlag{Category: partGroup, Name: "from", Usage: "only events that end after `TIME`"},
		&cli.StringFlag{Category: partGroup, Name: "to", Usage: "only events that begin before `TIME`"},
	}
}

func runDump(c *cli.Context, con *console.Console) error {
	log, err := oneLog(c)
	if err != nil {
		return err
	}
	o, err := dumpOptions(c, log)
	if err != nil {
		return err
	}
	r, err := log.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	filters := chosen(c, dumpFilters())
	matched := filters == ""
	o.Wants = noting(&matched, &o.Filter)
	if err := logtext.Dump(con.Text(), r, o); err != nil {
		return err
	}
	if d := r.Damage(); d.Count > 0 {
		con.Sayf("%s is not complete: %s", log.Name, d)
		return exitCode(exitFailure)
	}
	if n := r.Refused(); n > 0 {
		con.Sayf("%s is not shown whole: %s left out, with times that cannot be", log.Name,
			figures.Count(n, "record was", "records were"))
		return exitCode(exitFailure)
	}
	if !matched {
		return fmt.Errorf("nothing in %s matches %s", log.Name, filters)
	}
	return nil
}

// noting notes whether a record is shown that a person asked for: one of the named kinds, else an event, with --tid a
// call or a range, with --device and --stream GPU work.
func noting(matched *bool, f *tracelog.Filter) func(*tracelog.Block, int) bool {
	return func(b *tracelog.Block, _ int) bool {
		l := schema.LayoutOf(b.Kind)
		*matched = *matched || len(f.Kinds) > 0 || l != nil && l.Role == schema.Event && chosenBy(f, b.Kind)
		return true
	}
}

// chosenBy reports whether records of a kind are what a filter chooses. Those without a thread, device or stream
// are shown whatever the filter says of these; other records than calls and ranges may not know their thread.
// With a limit of time, every event is one that was asked for.
func chosenBy(f *tracelog.Filter, k tracelog.Kind) bool {
	l := schema.LayoutOf(k)
	if f.From > 0 || f.To > 0 {
		return true
	}
	threads := k == tracelog.KindCall || k == tracelog.KindAPI || k == tracelog.KindMarker || k == tracelog.KindNCCLCall
	return (len(f.TIDs) == 0 || threads) && (len(f.Devices) == 0 || l.Device >= 0) &&
		(len(f.Streams) == 0 || l.Stream >= 0)
}

// dumpOptions reads the command line.
func dumpOptions(c *cli.Context, log convert.Log) (o logtext.Options, err error) {
	format := c.String("format")
	if format != "text" && format != "ndjson" {
		return o, usagef(dumpName, "dump: --format must be text or ndjson, not %q", format)
	}
	o.JSON = format == "ndjson"
	begin, err := beginOf(log)
	if err != nil {
		return o, err
	}
	if o.Filter, err = dumpFilter(c, begin, o.JSON || c.Bool("raw")); err != nil {
		return o, err
	}
	if !c.Bool("raw") {
		o.View = dumpView(begin)
	}
	if !o.JSON && !c.Bool("all") && len(o.Filter.Kinds) == 0 {
		o.Only, err = references(log, o)
	}
	return o, err
}

// beginOf is the time at which a log's recording began.
func beginOf(log convert.Log) (uint64, error) {
	r, err := log.Open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return tracelog.Begin(r)
}

// references are the things to which the shown records of a log refer.
func references(log convert.Log, o logtext.Options) (*logtext.References, error) {
	r, err := log.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return logtext.Refer(r, o)
}

// dumpFilter is the filter that the options ask for. In the raw form a number is a time in ns.
func dumpFilter(c *cli.Context, begin uint64, raw bool) (f tracelog.Filter, err error) {
	for _, flag := range dumpFilters() {
		if name := flag.Names()[0]; c.IsSet(name) && len(words(strings.TrimSpace(c.String(name)))) == 0 {
			return f, usagef(dumpName, "dump: --%s needs a value", name)
		}
	}
	if f.Kinds, err = kindList(c.String("kind")); err != nil {
		return f, usagef(dumpName, "dump: %v", err)
	}
	for name, to := range map[string]*[]uint32{"pid": &f.PIDs, "tid": &f.TIDs, "device": &f.Devices,
		"stream": &f.Streams} {
		if *to, err = numbers(dumpName, name, c.String(name)); err != nil {
			return f, err
		}
	}
	for name, to := range map[string]*uint64{"from": &f.From, "to": &f.To} {
		if *to, err = dumpTime(name, c.String(name), begin, raw); err != nil {
			return f, usagef(dumpName, "dump: %v", err)
		}
	}
	if f.To > 0 && f.From > f.To {
		return f, usagef(dumpName, "dump: --from %s is later than --to %s", c.String("from"), c.String("to"))
	}
	return f, nil
}

// kindList reads a list of kinds of record.
func kindList(list string) (all []tracelog.Kind, err error) {
	for _, name := range words(list) {
		kind, ok := tracelog.KindByName(strings.TrimSpace(name))
		if ok {
			all = append(all, kind)
			continue
		}
		known := logtext.KindNames()
		meant := ""
		if near := pattern.Nearest(name, known); near != "" {
			meant = " (did you mean " + near + "?)"
		}
		return nil, fmt.Errorf("--kind %q is unknown%s; the kinds are %s", name, meant, strings.Join(known, ", "))
	}
	return all, nil
}

// dumpTime is a time of an option in ns of CLOCK_MONOTONIC, 0 without the option.
func dumpTime(option, value string, begin uint64, raw bool) (uint64, error) {
	if value == "" {
		return 0, nil
	}
	if ns, err := strconv.ParseUint(value, 10, 64); raw && err == nil {
		return max(ns, 1), nil
	}
	d, err := parseTime(option, value, "1.5 (seconds) or 200ms")
	if err != nil {
		if _, noNumber := strconv.ParseUint(value, 10, 64); noNumber == nil {
			err = errors.New(err.Error() + "; --raw takes ns of CLOCK_MONOTONIC")
		}
		return 0, err
	}
	return max(begin+uint64(d), 1), nil
}
