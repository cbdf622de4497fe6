package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/record"
)

const convertName = "convert"

func convertCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:      convertName,
		Usage:     "make a Perfetto or Chrome trace from one or more logs",
		ArgsUsage: "LOG...",
		UsageText: "cudatrace convert LOG [-o OUT] [OPTION...]\n" +
			"cudatrace convert LOG LOG... -o OUT\n\n" +
			"Example: cudatrace convert app.cudatrace -o app.pftrace\n" +
			"Example: cudatrace convert app.cudatrace --from last\\ 5s --min-duration 10us -o end.pftrace\n" +
			"Example: cudatrace convert rank*.cudatrace -o all.pftrace\n" +
			"Example: cudatrace convert app.cudatrace --format chrome --step-range 'step*'",
		Description: "Runs on any machine, without root, GPU or eBPF. A log that was cut off is converted up to\n" +
			"the cut. Several logs become one trace: each process keeps its host and PID, and the logs' clocks\n" +
			"are aligned. A time counts from the start of each log. A list is separated by commas: 7,13.\n" +
			"Chrome JSON has one file a process, NAME.pt.trace.json.gz; several are in a folder, NAME.pt.trace.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the trace to `OUT`, - for standard output (default: the log's name with .pftrace or .pt.trace.json.gz)"},
			&cli.StringFlag{Name: "format", Value: string(convert.Perfetto), Usage: "`perfetto|chrome`: a trace for https://ui.perfetto.dev, or JSON as PyTorch's profiler writes it, for the tools that read that"},
			&cli.StringFlag{Name: "step-range", Usage: "with --format chrome, show NVTX ranges whose name matches `GLOB` as ProfilerStep#N, which some tools need"},
			&cli.StringFlag{Name: "compress", Value: string(output.Gzip), Usage: "`gzip|none`: compression of the trace; https://ui.perfetto.dev opens both"},
		}, filterFlags()...),
		Action: func(c *cli.Context) error { return runConvert(c, stdout, stderr) },
	}
}

func runConvert(c *cli.Context, stdout, stderr io.Writer) error {
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
		out = strings.TrimSuffix(logs[0], record.LogSuffix) + traceSuffix(c)
	}
	o, err := formatOptions(c, stderr)
	if err != nil {
		return err
	}
	if o.Filter, err = filterOptions(c); err != nil {
		return err
	}
	if err := filterSize(c, &o); err != nil {
		return err
	}
	bar := newProgress(stderr)
	o.Progress = bar.show
	var all []convert.Summary
	if out == "-" {
		if o.MaxBytes > 0 {
			return usagef(convertName, "convert: --max-size needs a file: name one with -o")
		}
		all, err = convert.FilesTo(logs, stdout, o)
	} else {
		all, err = convert.Files(logs, out, o)
	}
	bar.done()
	if err != nil {
		return err
	}
	return verdicts(stderr, logs, all)
}

// formatOptions are the options of the trace's form.
func formatOptions(c *cli.Context, stderr io.Writer) (convert.TraceOptions, error) {
	o := convert.TraceOptions{Format: convert.Format(c.String("format")), Compress: output.Compression(c.String("compress")), StepRange: c.String("step-range")}
	switch {
	case o.Compress != output.Gzip && o.Compress != output.None:
		return o, usagef(convertName, "convert: --compress must be gzip or none, not %q", o.Compress)
	case o.Format != convert.Perfetto && o.Format != convert.Chrome:
		return o, usagef(convertName, "convert: --format must be perfetto or chrome, not %q", o.Format)
	case c.IsSet("step-range") && o.Format != convert.Chrome:
		return o, usagef(convertName, "convert: --step-range needs --format chrome")
	case c.IsSet("step-range") && o.StepRange == "":
		return o, usagef(convertName, "convert: --step-range needs a value")
	}
	o.Several = func(folder string, files int) {
		fmt.Fprintf(stderr, "cudatrace: %d processes: a file for each is in %s\n", files, folder)
	}
	return o, checkGlob(convertName, "step-range", o.StepRange)
}

// traceSuffix is the suffix of a trace that the user gave no name.
func traceSuffix(c *cli.Context) string {
	if convert.Format(c.String("format")) == convert.Chrome {
		return convert.ChromeSuffix(output.Compression(c.String("compress")))
	}
	return record.TraceSuffix
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
func verdicts(stderr io.Writer, logs []string, all []convert.Summary) error {
	var failed error
	for i, sum := range all {
		if sum.Aligned != "" {
			fmt.Fprintf(stderr, "cudatrace: %s: %s\n", logs[i], printable(sum.Aligned))
		}
		if words := leftOut(sum.LeftOut); words != "" {
			fmt.Fprintf(stderr, "cudatrace: %s: %s\n", logs[i], words)
		}
		if err := verdict(stderr, logs[i], sum); err != nil {
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
func verdict(stderr io.Writer, log string, sum convert.Summary) error {
	for _, why := range sum.Reasons {
		fmt.Fprintf(stderr, "cudatrace: %s is not complete: %s\n", log, why)
	}
	if sum.Damaged {
		return exitCode(exitFailure)
	}
	return nil
}
