package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record"
)

const recordName = "record"

func recordCommand(stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:      recordName,
		Usage:     "run a program and record what it does with CUDA",
		ArgsUsage: "PROGRAM [ARG...]",
		UsageText: "cudatrace record [-o NAME] [--no-convert] [-q] [--] PROGRAM [ARG...]\n\n" +
			"Example: cudatrace record -o run1 python3 train.py --epochs 1",
		Description: "Runs PROGRAM with its own input, output and exit code, and writes NAME.cudatrace (the log)\n" +
			"and NAME.pftrace (the trace, for https://ui.perfetto.dev). Every process that PROGRAM starts is\n" +
			"recorded too. Needs root or CAP_BPF and CAP_PERFMON to probe calls.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`NAME` of the files, without suffix (default: the program's name, in the current folder)"},
			&cli.BoolFlag{Name: "no-convert", Usage: "write the log only"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no summary; say only what went wrong"},
		},
		Action: func(c *cli.Context) error { return runRecord(c, stderr) },
	}
}

func runRecord(c *cli.Context, stderr io.Writer) error {
	if !c.Args().Present() {
		return usagef(recordName, "record: which program?")
	}
	say := speaker(stderr)
	base := record.BaseName(c.String("output"), c.Args().First())
	res, err := record.Run(record.Options{
		Program: c.Args().First(), Args: c.Args().Tail(), Output: base, Version: version(), Say: say,
	})
	var start *record.StartError
	switch {
	case errors.As(err, &start):
		say(start.Error())
		return exitCode(start.Code)
	case err != nil:
		return err
	}
	report(stderr, say, c, base, res)
	if res.ExitCode != 0 {
		return exitCode(res.ExitCode)
	}
	return nil
}

// speaker prints lines of ours, whole, whoever says them.
func speaker(w io.Writer) func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "cudatrace: %s\n", line)
	}
}

// report makes the trace and prints the summary. Nothing that goes wrong here
// changes the exit code: that is the program's.
func report(stderr io.Writer, say func(string), c *cli.Context, base string, res record.Result) {
	log := res.Log
	if log == "" {
		log = res.Partial
	}
	if log == "" {
		if !c.Bool("quiet") {
			say(fmt.Sprintf("%s did not use CUDA; nothing was recorded", filepath.Base(c.Args().First())))
		}
		return
	}
	files := []string{log}
	var sum convert.Summary
	var err error
	if trace := base + record.TraceSuffix; c.Bool("no-convert") {
		sum, err = convert.SummarizeFile(log)
	} else if sum, err = convert.File(log, trace); err == nil {
		record.Own(trace)
		files = []string{trace, log}
	}
	if err != nil {
		say(fmt.Sprintf("%v; the log is %s", err, log))
		return
	}
	if !c.Bool("quiet") {
		printSummary(stderr, sum, files)
	} else if !sum.Complete {
		for _, why := range sum.Reasons {
			say("not complete: " + why)
		}
	}
}
