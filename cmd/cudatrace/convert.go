package main

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/record"
)

const convertName = "convert"

func convertCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      convertName,
		Usage:     "make a Perfetto trace from one or more logs",
		ArgsUsage: "LOG...",
		UsageText: "cudatrace convert LOG [-o OUT] [OPTION...]\n" +
			"cudatrace convert LOG LOG... -o OUT\n\n" +
			"Example: cudatrace convert app.cudatrace -o app.pftrace\n" +
			"Example: cudatrace convert app.cudatrace --from 'last 5s' -o end.pftrace\n" +
			"Example: cudatrace convert rank*.cudatrace -o all.pftrace",
		Description: "Runs on any machine, without root, GPU or eBPF. A log that was cut off is converted up to " +
			"the cut. Several logs become one trace: each process keeps its host and PID, and the logs' clocks " +
			"are aligned.\n" +
			"A TIME counts from the start of each log, in seconds or with a unit: 1.5, 200ms. A list is " +
			"separated by commas: 7,13.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Category: outputGroup, Name: "output", Aliases: []string{"o"}, Usage: "write the trace to `OUT`, - for standard output (default: the log's name with .pftrace)"},
			&cli.StringFlag{Category: outputGroup, Name: "compress", Value: string(output.Gzip), Usage: "`gzip|none`: compression of the trace; https://ui.perfetto.dev opens both"},
		}, filterFlags()...),
		Action: func(c *cli.Context) error { return runConvert(c, con) },
	}
}

func runConvert(c *cli.Context, con *console.Console) error {
	logs := c.Args().Slice()
	out := c.String("output")
	switch {
	case len(logs) == 0:
		return usagef(convertName, "convert: no log given")
	case len(logs) > 1 && out == "":
		return usagef(convertName, "convert: several logs need -o OUT")
	case sameLog(logs) != "":
		return usagef(convertName, "convert: %s is given twice", sameLog(logs))
	case out == "":
		out = strings.TrimSuffix(logs[0], record.LogSuffix) + record.TraceSuffix
	}
	o := convert.TraceOptions{Compress: output.Compression(c.String("compress"))}
	if o.Compress != output.Gzip && o.Compress != output.None {
		return usagef(convertName, "convert: --compress must be gzip or none, not %q", o.Compress)
	}
	var err error
	if o.Filter, err = filterOptions(c); err != nil {
		return err
	}
	if err := filterSize(c, &o); err != nil {
		return err
	}
	bar := newProgress(con)
	o.Progress = bar.show
	var all []convert.Summary
	if out == "-" {
		if o.MaxBytes > 0 {
			return usagef(convertName, "convert: --max-size needs a file: name one with -o")
		}
		stdout, ok := con.Binary()
		if !ok {
			return usagef(convertName, "convert: the trace is binary and standard output is a terminal: name a file with -o, or use a pipe")
		}
		all, err = convert.FilesTo(logs, stdout, o)
	} else {
		all, err = convert.Files(logs, out, o)
	}
	bar.done()
	if err != nil {
		return err
	}
	return verdicts(con, logs, all)
}

// sameLog is the first log that is given a second time, under any name; "" without one.
func sameLog(logs []string) string {
	var before []os.FileInfo
	for _, log := range logs {
		info, err := os.Stat(log)
		if err != nil {
			continue // reading it says why
		}
		if slices.ContainsFunc(before, func(b os.FileInfo) bool { return os.SameFile(b, info) }) {
			return log
		}
		before = append(before, info)
	}
	return ""
}

// verdicts says of each log what was left out of the trace and what the log lacks.
func verdicts(con *console.Console, logs []string, all []convert.Summary) error {
	var failed error
	for i, sum := range all {
		if sum.Aligned != "" {
			con.Sayf("%s: %s", logs[i], sum.Aligned)
		}
		if words := leftOut(sum.LeftOut); words != "" {
			con.Sayf("%s: %s", logs[i], words)
		}
		if err := verdict(con, logs[i], sum); err != nil {
			failed = err
		}
	}
	return failed
}

// oneLog is the command's only argument.
func oneLog(c *cli.Context) (string, error) {
	switch c.NArg() {
	case 0:
		return "", usagef(c.Command.Name, "%s: no log given", c.Command.Name)
	case 1:
		return c.Args().First(), nil
	default:
		return "", usagef(c.Command.Name, "%s: takes one log", c.Command.Name)
	}
}

// verdict says what is missing from a log. A damaged log is a failure, although its intact
// records were used.
func verdict(con *console.Console, log string, sum convert.Summary) error {
	for _, why := range sum.Reasons {
		con.Sayf("%s is not complete: %s", log, why)
	}
	if sum.Damaged {
		return exitCode(exitFailure)
	}
	return nil
}
