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
		Usage:     "run a program, or attach to a running one, and record its calls and GPU work",
		ArgsUsage: "PROGRAM [ARG...]",
		UsageText: "cudatrace record [OPTION...] [--] PROGRAM [ARG...]\n" +
			"cudatrace record [OPTION...] -p PID [-p PID...]\n\n" +
			"Example: cudatrace record -o run1 python3 train.py --epochs 1\n" +
			"Example: cudatrace record -p 4711 -d 10s",
		Description: "Runs PROGRAM with its own input, output and exit code. Writes NAME.cudatrace (the log) and\n" +
			"NAME.pftrace (the trace, for https://ui.perfetto.dev). Records every process that PROGRAM starts.\n" +
			"Probes need root, or CAP_BPF and CAP_PERFMON; without these rights calls come from CUPTI.\n" +
			"A TIME has a unit: 500ms, 10s, 1m. BYTES may have one: 64K, 64M, 1G.",
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
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write `NAME`.cudatrace and NAME.pftrace (default: the program's name, in the current folder)"},
		&cli.BoolFlag{Name: "no-convert", Usage: "write only the log, no trace"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print problems only, no summary"},
		&cli.StringFlag{Name: "calls", Value: string(record.CallsAuto), Usage: "`auto|uprobe|cupti|none`: source of calls; auto is uprobe where rights allow it, else cupti; none keeps only the calls that create GPU work"},
		&cli.StringFlag{Name: "gpu", Value: string(record.GPUCUPTI), Usage: "`cupti|none`: source of GPU work; none records calls alone"},
		&cli.StringFlag{Name: "graphs", Value: string(record.GraphNodes), Usage: "`nodes|whole`: record each node of a CUDA graph, or one slice per launch at lower cost"},
		&cli.BoolFlag{Name: "runtime-calls", Usage: "record calls that create GPU work at the runtime, too, at higher cost; without it their runtime function comes from the stack"},
		&cli.StringFlag{Name: "waits", Value: string(record.WaitsCalls), Usage: "`calls|cupti`: source of wait arrows; cupti costs more, but is more reliable with several GPUs or reused handles"},
		&cli.IntSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "attach to the running process `PID` and record its calls (repeatable)"},
		&cli.DurationFlag{Name: "duration", Aliases: []string{"d"}, Usage: "stop recording after `TIME`; the program runs on"},
		&cli.DurationFlag{Name: "delay", Usage: "start recording after `TIME`"},
		&cli.StringFlag{Name: "wait", Value: string(record.WaitCUDA), Usage: "`cuda|program`: record until every process that uses CUDA has ended, or until PROGRAM has"},
		&cli.DurationFlag{Name: "flush-interval", Value: record.DefaultFlushInterval, Usage: "write each record to disk within `TIME`, 10ms to 1m"},
		&cli.StringFlag{Name: "memory-limit", Value: "64M", Usage: "take at most `BYTES` of memory in each process, 1M or more"},
		&cli.StringFlag{Name: callBufferFlag, Value: "64M", Usage: "hold at most `BYTES` of unwritten calls in kernel memory, 64K to 1G"},
		&cli.StringFlag{Name: oldCallBufferFlag, Hidden: true},
		&cli.StringFlag{Name: "capture-range", Value: "none", Usage: "`cudaProfilerApi|none`: record only between cudaProfilerStart and cudaProfilerStop, or everything"},
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
		return o, usagef(recordName, "record: give a program or -p PID, not both")
	case c.String("calls") == string(record.CallsNone) && c.String("gpu") == string(record.GPUNone):
		return o, usagef(recordName, "record: --calls none and --gpu none leave nothing to record")
	case len(o.PIDs) > 0 && isSet(c, "gpu", "graphs", "waits", "memory-limit", "wait"):
		return o, usagef(recordName, "record: -p records calls, not GPU work: --gpu, --graphs, --waits, --memory-limit and --wait do not apply")
	case c.String("calls") == string(record.CallsNone) && isSet(c, "api", "probe", "no-probe"):
		return o, usagef(recordName, "record: --calls none records no calls to choose from: --api, --probe and --no-probe do not apply")
	case o.Delay < 0 || o.Duration < 0:
		return o, usagef(recordName, "record: --delay and --duration must not be negative")
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
		return o, usagef(recordName, "record: --capture-range must be cudaProfilerApi or none, not %q", r)
	}
	if err := recordLimits(c, &o); err != nil {
		return o, err
	}
	return o, recordSources(c, &o)
}

func isSet(c *cli.Context, flags ...string) bool {
	return slices.ContainsFunc(flags, c.IsSet)
}

// recordLimits reads the limits of memory and time.
func recordLimits(c *cli.Context, o *record.Options) error {
	var errs [3]error
	var memory, buffer uint64
	o.Wait, errs[0] = flagValue(c, "wait", record.ParseWaitFor)
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

// recordSources reads where calls, GPU work and waits come from.
func recordSources(c *cli.Context, o *record.Options) error {
	var errs [5]error
	o.Calls, errs[0] = flagValue(c, "calls", record.ParseCallSource)
	o.GPU, errs[1] = flagValue(c, "gpu", record.ParseGPUSource)
	o.Graphs, errs[2] = flagValue(c, "graphs", record.ParseGraphMode)
	o.Functions, errs[3] = chosenFunctions(c)
	o.Waits, errs[4] = flagValue(c, "waits", record.ParseWaitSource)
	o.Runtime = c.Bool("runtime-calls")
	if err := cmp.Or(errs[:]...); err != nil {
		return usagef(recordName, "record: %v", err)
	}
	return nil
}

// flagValue reads the value of a flag that has a list of values.
func flagValue[T any](c *cli.Context, flag string, parse func(string) (T, error)) (T, error) {
	v, err := parse(c.String(flag))
	if err != nil {
		err = fmt.Errorf("--%s %w", flag, err)
	}
	return v, err
}

// speaker returns a function that prints one whole line of ours, on any goroutine.
func speaker(w io.Writer) func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "cudatrace: %s\n", line)
	}
}

// report makes the trace and prints the summary. A failure here does not change the exit code,
// which is the program's.
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
		if res.Unseen != "" {
			say("nothing was recorded: " + res.Unseen)
		} else if !c.Bool("quiet") {
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
		say(fmt.Sprintf("%v; the log is intact: %s", err, log))
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
