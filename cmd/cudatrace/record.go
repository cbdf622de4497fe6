package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record"
)

const recordName = "record"

func recordCommand(stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:      recordName,
		Usage:     "run a program, or attach to a running one, and record what it does with CUDA",
		ArgsUsage: "PROGRAM [ARG...]",
		UsageText: "cudatrace record [OPTION...] [--] PROGRAM [ARG...]\n" +
			"cudatrace record [OPTION...] -p PID [-p PID...]\n\n" +
			"Example: cudatrace record -o run1 python3 train.py --epochs 1\n" +
			"Example: cudatrace record -p 4711 -d 10s",
		Description: "Runs PROGRAM with its own input, output and exit code, and writes NAME.cudatrace (the log)\n" +
			"and NAME.pftrace (the trace, for https://ui.perfetto.dev). Every process that PROGRAM starts is\n" +
			"recorded too. Probing calls needs root, or CAP_BPF and CAP_PERFMON; without, calls come from CUPTI.",
		Flags:  recordFlags(),
		Action: func(c *cli.Context) error { return runRecord(c, stderr) },
	}
}

const (
	callBufferFlag    = "call-buffer"
	oldCallBufferFlag = "ring-buffer" // the name of earlier releases
)

func recordFlags() []cli.Flag {
	return append(functionFlags(),
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`NAME` of the files, without suffix (default: the program's name, in the current folder)"},
		&cli.BoolFlag{Name: "no-convert", Usage: "write the log only"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print no summary, only what went wrong"},
		&cli.StringFlag{Name: "calls", Value: string(record.CallsAuto), Usage: "`auto|uprobe|cupti|none`: where calls are seen; cupti needs no root, none leaves only the calls that create GPU work"},
		&cli.StringFlag{Name: "gpu", Value: string(record.GPUCUPTI), Usage: "`cupti|none`: where GPU work is seen"},
		&cli.StringFlag{Name: "graphs", Value: string(record.GraphNodes), Usage: "`nodes|whole`: record each node of a CUDA graph, or one slice a launch, which costs less"},
		&cli.StringFlag{Name: "waits", Value: string(record.WaitsCalls), Usage: "`calls|cupti`: how wait arrows are derived; cupti costs more and is surer with several GPUs or reused handles"},
		&cli.IntSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "attach to the running process `PID`; calls only"},
		&cli.DurationFlag{Name: "duration", Aliases: []string{"d"}, Usage: "stop recording after `TIME` (10s, 500ms); the program goes on"},
		&cli.DurationFlag{Name: "delay", Usage: "begin to record after `TIME`"},
		&cli.StringFlag{Name: "wait", Value: string(record.WaitCUDA), Usage: "`cuda|program`: record until every process that PROGRAM started and that uses CUDA has ended, or until PROGRAM has"},
		&cli.DurationFlag{Name: "flush-interval", Value: record.DefaultFlushInterval, Usage: "write each record to disk within `TIME`"},
		&cli.StringFlag{Name: "memory-limit", Value: "64M", Usage: "`BYTES` that recording may take inside each process (1M or more; K, M, G)"},
		&cli.StringFlag{Name: callBufferFlag, Value: "64M", Usage: "`BYTES` of kernel memory that hold probed calls until they are written (64K to 1G)"},
		&cli.StringFlag{Name: oldCallBufferFlag, Hidden: true},
		&cli.StringFlag{Name: "capture-range", Value: "none", Usage: "`cudaProfilerApi|none`: record only between cudaProfilerStart and cudaProfilerStop, or all"},
	)
}

func runRecord(c *cli.Context, stderr io.Writer) error {
	o, err := recordOptions(c)
	if err != nil {
		return err
	}
	o.Say = speaker(stderr)
	var res record.Result
	if len(o.PIDs) > 0 {
		res, err = record.Attach(o)
	} else {
		res, err = record.Run(o)
	}
	var start *record.StartError
	switch {
	case errors.As(err, &start):
		o.Say(start.Error())
		return exitCode(start.Code)
	case err != nil:
		return err
	}
	report(stderr, c, o, res)
	if res.ExitCode != 0 {
		return exitCode(res.ExitCode)
	}
	return nil
}

// recordOptions reads the command line.
func recordOptions(c *cli.Context) (record.Options, error) {
	o := record.Options{
		Program: c.Args().First(), Args: c.Args().Tail(), PIDs: c.IntSlice("pid"), Version: version(),
		Delay: c.Duration("delay"), Duration: c.Duration("duration"),
	}
	switch {
	case len(o.PIDs) == 0 && o.Program == "":
		return o, usagef(recordName, "record: no program given")
	case len(o.PIDs) > 0 && o.Program != "":
		return o, usagef(recordName, "record: either a program or -p, not both")
	case c.String("calls") == string(record.CallsNone) && c.String("gpu") == string(record.GPUNone):
		return o, usagef(recordName, "record: --calls none and --gpu none leave nothing to record")
	case len(o.PIDs) > 0 && isSet(c, "gpu", "graphs", "waits", "memory-limit", "wait"):
		return o, usagef(recordName, "record: of a running process calls are recorded, not GPU work: --gpu, --graphs, --waits, --memory-limit and --wait have no meaning with -p")
	case c.String("calls") == string(record.CallsNone) && isSet(c, "api", "probe", "no-probe"):
		return o, usagef(recordName, "record: --api, --probe and --no-probe choose calls, which --calls none leaves out")
	case o.Delay < 0 || o.Duration < 0:
		return o, usagef(recordName, "record: a time can't be negative")
	}
	if len(o.PIDs) > 0 {
		o.Program = record.AttachName(o.PIDs[0])
	}
	o.Output = record.BaseName(c.String("output"), o.Program)
	switch r := c.String("capture-range"); r {
	case "cudaProfilerApi":
		o.CaptureRange = true
	case "none":
	default:
		return o, usagef(recordName, "record: capture range %q is neither cudaProfilerApi nor none", r)
	}
	if err := recordLimits(c, &o); err != nil {
		return o, err
	}
	return o, recordSources(c, &o)
}

func isSet(c *cli.Context, flags ...string) bool {
	return slices.ContainsFunc(flags, c.IsSet)
}

// recordLimits reads what recording may take and how long.
func recordLimits(c *cli.Context, o *record.Options) error {
	var errs [3]error
	var memory, buffer uint64
	o.Wait, errs[0] = record.ParseWaitFor(c.String("wait"))
	memory, errs[1] = parseSize("memory-limit", c.String("memory-limit"), 1<<20, 1<<40)
	flag := callBufferFlag
	if c.IsSet(oldCallBufferFlag) && !c.IsSet(callBufferFlag) {
		flag = oldCallBufferFlag
	}
	buffer, errs[2] = parseSize(flag, c.String(flag), 64<<10, 1<<30)
	o.FlushInterval, o.MemoryLimit, o.CallBufferBytes = c.Duration("flush-interval"), memory, int(buffer)
	if o.FlushInterval < 10*time.Millisecond || o.FlushInterval > time.Minute {
		return usagef(recordName, "record: --flush-interval must be between 10ms and 1m")
	}
	if err := cmp.Or(errs[:]...); err != nil {
		return usagef(recordName, "record: %v", err)
	}
	return nil
}

// recordSources reads what is to be observed and how.
func recordSources(c *cli.Context, o *record.Options) error {
	var errs [5]error
	o.Waits, errs[4] = record.ParseWaitSource(c.String("waits"))
	o.Calls, errs[0] = record.ParseCallSource(c.String("calls"))
	o.GPU, errs[1] = record.ParseGPUSource(c.String("gpu"))
	o.Graphs, errs[2] = record.ParseGraphMode(c.String("graphs"))
	o.Functions, errs[3] = chosenFunctions(c)
	o.Driver = c.String("api") == apiMinimal
	if err := cmp.Or(errs[:]...); err != nil {
		return usagef(recordName, "record: %v", err)
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
func report(stderr io.Writer, c *cli.Context, o record.Options, res record.Result) {
	base, say := o.Output, o.Say
	if res.Lost {
		return // it was said
	}
	log := res.Log
	if log == "" {
		log = res.Partial
	}
	if log == "" {
		if !c.Bool("quiet") {
			what := "did not use CUDA"
			if res.Early {
				what = "had not used CUDA when recording ended"
			}
			say(fmt.Sprintf("%s %s; nothing was recorded", filepath.Base(o.Program), what))
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
