package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/cmd/cudatrace/top"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/outfile"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/ranks"
	"github.com/cudatrace/cudatrace/record/ring"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

func recordCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      recordName,
		Usage:     "run a program, or attach to a running one, and record its calls and GPU work",
		ArgsUsage: "PROGRAM [ARG...]",
		UsageText: "cudatrace record [OPTION...] [--] PROGRAM [ARG...]\n" +
			"cudatrace record [OPTION...] -p PID [-p PID...]\n\n" +
			"Example: cudatrace record -o run1 python3 train.py --epochs 1\n" +
			"Example: cudatrace record -p 4711 -d 10s\n" +
			"Example: cudatrace record --last 30s --trigger call-failed ./serve",
		Description: "Runs PROGRAM with its own input, output and exit code. Writes NAME.cudatrace (the log) and " +
			"NAME.pftrace (the trace, for https://ui.perfetto.dev). Records every process that PROGRAM starts. " +
			"Probes need root, or CAP_BPF and CAP_PERFMON; without these rights calls come from CUPTI.\n" +
			"A TIME is in seconds or has a unit: 10, 500ms, 1m. BYTES may have one: 500K, 64M, 1GiB.",
		Flags:  recordFlags(),
		Action: func(c *cli.Context) error { return runRecord(c, con) },
	}
}

// sampleFlag is the option for samples of threads.
const sampleFlag = "sample"

const (
	noMetadataFlag = "no-metadata"
	runFlag        = "run"
	ranksFlag      = "ranks"
)

// maxRun bounds the name of a run, in bytes.
const maxRun = 200

// liveFlag is the option for a live view beside the recording.
const liveFlag = "live"

// The groups of options in the help of record.
const (
	commonGroup = "Common options"
	whatGroup   = "What to record"
	whenGroup   = "When to record"
	limitGroup  = "How much"
)

func recordFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{
			Category: commonGroup, Name: "output", Aliases: []string{"o"},
			Usage: "write `NAME`.cudatrace and NAME.pftrace; %h, %p, %r, %j, %n, %t, %q{VARIABLE} stand for host, PID, rank, " +
				"job, program, time, a variable (default: the name of the program or its script, and its rank, in the current " +
				"folder, with a number if it is taken)",
		},
		&cli.StringFlag{
			Category: commonGroup, Name: "duration", Aliases: []string{"d"},
			Usage: "stop recording `TIME` after the first CUDA call or, with --delay, after the delay; the program runs on",
		},
		&cli.StringSliceFlag{
			Category: commonGroup, Name: "pid", Aliases: []string{"p"},
			Usage: "attach to the running process `PID` and record its calls, and its GPU work if 'cudatrace run --armed' " +
				"started it (repeatable)",
		},
		apiFlag(commonGroup),
	}, globFlags(whatGroup), []cli.Flag{
		&cli.StringFlag{
			Category: whatGroup, Name: ranksFlag, Usage: "record only these ranks of a distributed program, a `LIST` such as " +
				"0,8-15,last, and processes without a rank",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: "calls", Value: string(record.CallsAuto),
			Usage: "`auto|uprobe|cupti|none`: source of calls; auto is uprobe where rights allow it, else cupti; none keeps " +
				"only the calls that create GPU work",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: "gpu", Value: string(record.GPUCUPTI),
			Usage: "`cupti|none`: source of GPU work; none records calls alone",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: "python", Value: string(record.PythonAuto),
			Usage: "`auto|off`: record the Python lines that led to each call that creates GPU work, allocates, frees or " +
				"waits, and to each sample; auto: where the interpreter is CPython 3.9 to 3.15 (docs/calls.md)",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: "memory", Value: string(record.MemoryCalls),
			Usage: "`calls|none`: source of figures of memory where calls are not probed: CUPTI's callbacks (docs/calls.md)",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: "pytorch", Value: string(record.PyTorchAuto),
			Usage: "`auto|on|off|spans|memory`: record the PyTorch operators in which calls are made; auto: for the first " +
				"5 s and a second of every 10, since it slows a program by 5 to 8 % meanwhile (docs/pytorch.md); spans, also " +
				"behind a comma: begin and end of each operator, too; memory, likewise: what PyTorch's cache holds, with the " +
				"Python lines, by a probe (docs/stats.md)",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: sampleFlag, Value: strconv.Itoa(record.SampleRate),
			Usage: "`HZ|off`: record when threads that make calls run and are blocked, and HZ times a second what they run or " +
				"wait for (docs/threads.md)",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: gpuMetricsFlag, Value: "on",
			Usage: "`on|off|HZ`: sample clocks, power, memory and the use of the units of GPUs (docs/gpu-metrics.md); HZ, 100 " +
				"to 10000, or 1000 for no value: also the GPU's counters, so many times a second, by CUPTI's PM sampling",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: gpuMetricsFlag + "-set",
			Usage: "PM sampling of the metrics `NAME,...` instead of the default set; 'cudatrace probes --gpu-metrics' " +
				"lists names",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: "gpu-metrics-devices", Value: string(record.DevicesUsed),
			Usage: "`used|all`: sample the GPUs that recorded processes use, or all",
		},
		&cli.StringFlag{
			Category: whatGroup, Name: runFlag, Usage: "`NAME` of the run, for the log: it tells the logs of one run from " +
				"those of others (default: TORCHELASTIC_RUN_ID, or the ID of the Slurm, PBS, LSF or Flux job)",
		},
		&cli.BoolFlag{
			Category: whatGroup, Name: noMetadataFlag,
			Usage: "record no arguments, folders, environment variables and git revision; docs/metadata.md lists what is " +
				"recorded otherwise",
		},
		&cli.StringFlag{Category: whenGroup, Name: "delay", Usage: "start recording `TIME` after the first CUDA call"},
		&cli.BoolFlag{Category: whenGroup, Name: "from-start", Usage: "count -d and --delay from the program's start"},
		&cli.BoolFlag{
			Category: whenGroup, Name: "detach",
			Usage: "with -p: at the end, take CUPTI out of the process, so that its calls are as fast again as before; stops " +
				"its threads for some ms (docs/on-demand.md)",
		},
		&cli.StringFlag{
			Category: whenGroup, Name: "last", Usage: "keep only the last `TIME` of the recording, 1s to 24h: a file is " +
				"written at the end, on SIGUSR2, when a process crashes, and on --trigger",
		},
		&cli.StringSliceFlag{
			Category: whenGroup, Name: "trigger",
			Usage: "with --last, write a file when `CONDITION` holds: call-failed, 'call>TIME', 'kernel>TIME' or " +
				"'step>FACTOR' (repeatable)",
		},
		&cli.StringFlag{
			Category: whenGroup, Name: "steps", Usage: "record only the steps `FIRST-LAST`: NVTX ranges by the number at the " +
				"end of their name, or counted from 0",
		},
		&cli.StringFlag{
			Category: whenGroup, Name: "step", Usage: "NVTX `RANGES` that are the steps of --steps (default: step), and of " +
				"'step>FACTOR', one that takes more than FACTOR times the median: " + rangesHelp,
		},
		&cli.StringFlag{
			Category: whenGroup, Name: "cool-down",
			Usage: "with --trigger, write no second file within `TIME` (default: that of --last)",
		},
		&cli.StringFlag{
			Category: whenGroup, Name: "capture-range", Value: "none",
			Usage: "`cudaProfilerApi|nvtx:RANGES|none`: record only between cudaProfilerStart and cudaProfilerStop, or in " +
				"NVTX ranges (RANGES is " + rangesHelp + "), or everything",
		},
		&cli.StringFlag{
			Category: whenGroup, Name: "wait", Value: string(record.WaitCUDA),
			Usage: "`cuda|program`: record until every process that uses CUDA has ended, or until PROGRAM has",
		},
		&cli.IntFlag{
			Category: limitGroup, Name: "max-files", Value: 10, Usage: "with --last, write at most `N` files before the end",
		},
		&cli.StringFlag{
			Category: limitGroup, Name: "disk-limit", Value: "1G",
			Usage: "with --last, hold at most `BYTES` on disk, 32M or more",
		},
		&cli.StringFlag{
			Category: limitGroup, Name: "memory-limit", Value: "64M",
			Usage: "take at most `BYTES` of memory in each process, 1M or more",
		},
		&cli.StringFlag{
			Category: limitGroup, Name: callBufferFlag,
			Usage: "hold at most `BYTES` of unwritten calls in kernel memory, 64K to 1G (default: 16M, and 64M where launches " +
				"have probes)",
		},
		&cli.BoolFlag{Category: outputGroup, Name: "quiet", Aliases: []string{"q"}, Usage: "print problems only, no summary"},
		formatFlag(outputGroup),
		&cli.BoolFlag{Category: outputGroup, Name: "no-convert", Usage: "write only the log, no trace"},
		&cli.BoolFlag{Category: outputGroup, Name: liveFlag, Usage: "show meanwhile what 'cudatrace top' shows"},
		&cli.BoolFlag{
			Category: outputGroup, Name: "open", Usage: "then open the trace in Perfetto's UI, as 'cudatrace open' does",
		},
		&cli.StringFlag{
			Category: outputGroup, Name: "flush-interval", Value: "1s",
			Usage: "write each record to disk within `TIME`, 10ms to 1m",
		},
	})
}

// topFlags are the options of record that top takes.
var topFlags = []string{"output", "pid", "api", "probe", "no-probe", "calls", "gpu", "python",
	sampleFlag, gpuMetricsFlag, gpuMetricsFlag + "-set", "gpu-metrics-devices", runFlag, noMetadataFlag,
	"capture-range", "memory-limit", callBufferFlag, "flush-interval", "wait"}

func topCommand(con *console.Console) *cli.Command {
	flags := slices.DeleteFunc(recordFlags(), func(f cli.Flag) bool { return !slices.Contains(topFlags, f.Names()[0]) })
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.StringFlag:
			if f.Name == "output" {
				f.Usage = "keep the log as `NAME`.cudatrace"
			}
		case *cli.StringSliceFlag:
			if f.Name == "pid" {
				f.Usage = "record the calls of the running process `PID`, until it ends or you quit"
			}
		}
	}
	return top.Command(con, top.Host{
		Usage: commandUsage(top.Name), Write: writef,
		Exit:  func(code int) error { return exitCode(code) },
		Flags: flags, Nothing: sayNothing,
		Options: func(c *cli.Context) (record.Options, error) {
			o, err := recordOptions(c)
			if wrong := (usageError{}); errors.As(err, &wrong) {
				wrong.msg = strings.NewReplacer("record: ", "top: ", "help record", "help top").Replace(wrong.msg)
				err = wrong
			}
			return o, err
		},
	})
}

func runRecord(c *cli.Context, con *console.Console) error {
	o, err := recordOptions(c)
	if err != nil {
		return err
	}
	if _, err := wantsObject(c, recordName); err != nil {
		return err
	}
	o.Say = con.Say
	finish := func() {}
	if c.Bool(liveFlag) {
		finish = showLive(con, &o)
	}
	signals := interrupts()
	o.Written = func(o record.Options, res record.Result) { conclude(con, c, o, res, nil) }
	var res record.Result
	if len(o.PIDs) > 0 {
		res, err = record.Attach(o)
	} else {
		res, err = record.Run(o)
	}
	finish()
	if err != nil {
		return asProgram(err)
	}
	if res.Runs() && !c.Bool("quiet") {
		con.Sayf("the recording has ended; %s runs on", filepath.Base(o.Program))
	}
	trace := conclude(con, c, o, res, signals)
	if trace != "" && c.Bool("open") {
		if err := openRecorded(con, trace); err != nil {
			notOpened(con, trace, err)
		}
	}
	res.Wait()
	if res.ExitCode != 0 {
		return exitCode(res.ExitCode)
	}
	return nil
}

// showLive shows a recording while it runs. The function that it returns ends the view.
func showLive(con *console.Console, o *record.Options) (finish func()) {
	pid := 0
	if len(o.PIDs) > 0 {
		pid = o.PIDs[0]
	}
	beside := top.NewBeside(con, filepath.Base(o.Program), pid, false, false, false)
	o.Say, o.Opened = beside.Say, beside.Start
	return beside.Finish
}

// recordOptions reads the command line.
func recordOptions(c *cli.Context) (record.Options, error) {
	o := record.Options{
		Program: c.Args().First(), Args: c.Args().Tail(), Version: version(), Words: givenOptions(c),
		Run: c.String(runFlag), NoMetadata: c.Bool(noMetadataFlag), FromStart: c.Bool("from-start"), Detach: c.Bool("detach"),
	}
	if err := recordTimes(c, &o); err != nil {
		return o, usagef(recordName, "record: %v", err)
	}
	var err error
	if c.IsSet(ranksFlag) {
		if o.Ranks, err = ranks.ParseList(c.String(ranksFlag)); err != nil {
			return o, usagef(recordName, "record: --ranks: %v", err)
		}
	}
	if o.PIDs, err = pids(c); err != nil {
		return o, usagef(recordName, "record: %v", err)
	}
	switch {
	case len(o.PIDs) == 0 && o.Program == "":
		return o, usagef(recordName, "record: no program and no -p PID given")
	case c.String("output") == stdio:
		return o, usagef(recordName, "record: -o must name files, not standard output: that is the program's")
	case len(o.Run) > maxRun, c.IsSet(runFlag) && o.Run == "":
		return o, usagef(recordName, "record: the name of --run must have 1 to %d bytes", maxRun)
	case len(o.PIDs) > 0 && o.Program != "":
		return o, usagef(recordName, "record: give a program or -p PID, not both")
	case c.String("calls") == string(record.CallsNone) && c.String("gpu") == string(record.GPUNone):
		return o, usagef(recordName, "record: --calls none and --gpu none leave nothing to record")
	case len(o.PIDs) > 0 && c.IsSet(ranksFlag):
		return o, usagef(recordName, "record: -p records the processes that it names: --ranks does not apply")
	case len(o.PIDs) > 0 && isSet(c, "gpu", "wait"):
		return o, usagef(recordName, "record: -p records calls, and GPU work of what 'cudatrace run --armed' started: "+
			"--gpu and --wait do not apply")
	case c.Bool("detach") && len(o.PIDs) == 0:
		return o, usagef(recordName, "record: --detach takes CUPTI out of a process that runs on: it needs -p PID")
	case c.Bool("from-start") && !isSet(c, "duration", "delay"):
		return o, usagef(recordName, "record: --from-start says from when -d and --delay count: give one of them")
	case c.Bool("from-start") && len(o.PIDs) > 0:
		return o, usagef(recordName, "record: with -p, -d and --delay count from when recording is ready: --from-start "+
			"does not apply")
	case c.Bool("open") && c.Bool("no-convert"):
		return o, usagef(recordName, "record: --no-convert makes no trace: --open does not apply")
	case c.String("calls") == string(record.CallsNone) &&
		(c.IsSet("api") || len(globsOf(c, "probe"))+len(globsOf(c, "no-probe")) > 0):
		return o, usagef(recordName, "record: --calls none records no calls to choose from: --api, --probe and --no-probe "+
			"do not apply")
	}
	if len(o.PIDs) > 0 {
		o.Program = record.AttachName(o.PIDs[0])
	}
	if err := o.SetOutput(c.String("output")); err != nil {
		return o, usagef(recordName, "record: %v", err)
	}
	if err := cmp.Or(recordRange(c, &o), recordSteps(c, &o)); err != nil {
		return o, err
	}
	if err := recordLimits(c, &o); err != nil {
		return o, err
	}
	if err := recordNewest(c, &o); err != nil {
		return o, usagef(recordName, "record: %v", err)
	}
	return o, recordSources(c, &o)
}

// recordRange reads the part of the program's run that is recorded.
func recordRange(c *cli.Context, o *record.Options) (err error) {
	value := c.String("capture-range")
	name, nvtx := strings.CutPrefix(value, "nvtx:")
	switch {
	case nvtx && len(o.PIDs) > 0:
		return usagef(recordName, "record: -p records from its own start: --capture-range nvtx: needs a program to run")
	case nvtx && c.String("gpu") == string(record.GPUNone):
		return usagef(recordName, "record: --capture-range nvtx: needs CUPTI, which --gpu none leaves out")
	case nvtx:
		if o.CaptureNVTX, err = pattern.ParseRanges(name); err == nil {
			err = record.CheckCapture(o.CaptureNVTX)
		}
		if err != nil {
			return usagef(recordName, "record: --capture-range %q: %v", value, err)
		}
	case value == "cudaProfilerApi":
		o.CaptureRange = true
	case value != "none":
		return usagef(recordName, "record: --capture-range must be cudaProfilerApi, nvtx:RANGES or none, not %q", value)
	}
	return nil
}

// stepName is the name of the NVTX ranges that are steps, where none is given.
const stepName = "step"

// recordSteps reads which steps are recorded: numbers of the ranges of --step or --capture-range.
func recordSteps(c *cli.Context, o *record.Options) (err error) {
	if !c.IsSet("steps") {
		return nil
	}
	first, last, err := stepNumbers(c)
	switch named := !o.CaptureNVTX.None(); {
	case err != nil:
	case len(o.PIDs) > 0:
		err = errors.New("-p records from its own start: --steps needs a program to run")
	case c.String("gpu") == string(record.GPUNone):
		err = errors.New("--steps needs CUPTI, which --gpu none leaves out")
	case c.IsSet("last"):
		err = errors.New("--steps records some steps, --last the newest time: give one of them")
	case o.CaptureRange, named && c.IsSet("step"):
		err = errors.New("--steps are NVTX ranges: name them with --step RANGES or --capture-range nvtx:RANGES, not both")
	case last-first >= record.MostSteps:
		err = fmt.Errorf("--steps %d-%d: at most %s steps are recorded", first, last, figures.Group(record.MostSteps))
	case c.IsSet("step"):
		o.CaptureNVTX, err = rangesOption(c, "step")
	case !named:
		o.CaptureNVTX, err = pattern.ParseRanges(stepName)
	}
	if err == nil {
		err = record.CheckCapture(o.CaptureNVTX)
	}
	if err != nil {
		return usagef(recordName, "record: %v", err)
	}
	o.CaptureSteps = pattern.Numbers{First: uint64(first), Count: uint32(last - first + 1)}
	return nil
}

// aboutOutput are the options that say nothing of what is recorded.
var aboutOutput = []string{"output", "quiet", "format", "no-convert", liveFlag}

// givenOptions are the options of the command line that say what is recorded, with their long names.
func givenOptions(c *cli.Context) string {
	var given []string
	for _, f := range recordFlags() {
		name := f.Names()[0]
		if !c.IsSet(name) || slices.Contains(aboutOutput, name) {
			continue
		}
		switch f.(type) {
		case *cli.BoolFlag:
			given = append(given, "--"+name)
		case *cli.StringSliceFlag:
			for _, value := range c.StringSlice(name) {
				given = append(given, "--"+name, value)
			}
		default:
			given = append(given, "--"+name, c.String(name))
		}
	}
	return strings.Join(given, " ")
}

// recordTimes reads when to record, and how long a record may take to the disk.
func recordTimes(c *cli.Context, o *record.Options) (err error) {
	for option, to := range map[string]*time.Duration{"delay": &o.Delay, "duration": &o.Duration,
		"flush-interval": &o.FlushInterval} {
		if *to, err = optionTime(c, option, timeExamples); err != nil {
			return err
		}
	}
	if o.FlushInterval < 10*time.Millisecond || o.FlushInterval > time.Minute {
		return errors.New("--flush-interval must be between 10ms and 1m")
	}
	return nil
}

// ofLast are the options that mean something with --last only.
var ofLast = []string{"trigger", "cool-down", "max-files", "disk-limit"}

// recordNewest reads how much of the recording is kept, and when files are written.
func recordNewest(c *cli.Context, o *record.Options) (err error) {
	if !c.IsSet("last") {
		switch {
		case isSet(c, ofLast...):
			return errors.New("--trigger, --cool-down, --max-files and --disk-limit need --last TIME")
		case c.IsSet("step") && !c.IsSet("steps"):
			return errors.New("--step names the steps of --steps, or of --trigger 'step>FACTOR', which needs --last TIME")
		}
		return nil
	}
	if o.Last, err = optionTime(c, "last", timeExamples); err != nil {
		return err
	}
	if o.Last < time.Second || o.Last > 24*time.Hour {
		return errors.New("--last must be between 1s and 24h")
	}
	if o.CoolDown = o.Last; c.IsSet("cool-down") {
		if o.CoolDown, err = optionTime(c, "cool-down", timeExamples); err != nil {
			return err
		}
	}
	if o.MaxFiles = c.Int("max-files"); o.MaxFiles < 0 || o.MaxFiles > 1e6 {
		return errors.New("--max-files must be between 0 and 1000000")
	}
	if o.DiskLimit, err = parseSize("disk-limit", c.String("disk-limit"), 32<<20, 1<<50); err != nil {
		return err
	}
	return recordTriggers(c, o)
}

// recordTriggers reads the conditions under which files are written.
func recordTriggers(c *cli.Context, o *record.Options) error {
	noWork := c.String("gpu") == string(record.GPUNone)
	needsSteps := false
	for _, word := range c.StringSlice("trigger") {
		condition, err := triggerCondition(word)
		switch {
		case err != nil:
			return fmt.Errorf("--trigger %w", err)
		case noWork && (condition.On == ring.LongKernels || condition.On == ring.SlowSteps):
			return fmt.Errorf("--trigger %q needs CUPTI, which --gpu none leaves out", word)
		}
		needsSteps = needsSteps || condition.On == ring.SlowSteps
		o.Conditions = append(o.Conditions, condition)
	}
	if needsSteps != c.IsSet("step") {
		return errors.New("--trigger 'step>FACTOR' and --step RANGES need each other")
	}
	if needsSteps {
		steps, err := rangesOption(c, "step")
		if err != nil {
			return err
		}
		o.Steps = steps
	}
	return nil
}

// pids reads the processes to attach to.
func pids(c *cli.Context) (list []int, err error) {
	for _, word := range c.StringSlice("pid") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("--pid %q is not the number of a process", word)
		}
		list = append(list, int(n))
	}
	return list, nil
}

// recordLimits reads the limits of memory.
func recordLimits(c *cli.Context, o *record.Options) error {
	var errs [3]error
	var memory, buffer uint64
	o.Wait, errs[0] = oneOf(c, "wait", record.WaitCUDA, record.WaitProgram)
	memory, errs[1] = parseSize("memory-limit", c.String("memory-limit"), 1<<20, 1<<40)
	if c.IsSet(callBufferFlag) {
		buffer, errs[2] = parseSize(callBufferFlag, c.String(callBufferFlag), 64<<10, 1<<30)
	}
	o.MemoryLimit, o.CallBufferBytes = memory, int(buffer)
	if err := cmp.Or(errs[:]...); err != nil {
		return usagef(recordName, "record: %v", err)
	}
	return nil
}

// recordSources reads where calls and GPU work come from.
func recordSources(c *cli.Context, o *record.Options) error {
	var errs [11]error
	o.Calls, errs[0] = oneOf(c, "calls", record.CallsAuto, record.CallsUprobe, record.CallsCUPTI, record.CallsNone)
	o.GPU, errs[1] = oneOf(c, "gpu", record.GPUCUPTI, record.GPUNone)
	o.Functions, errs[2] = chosenFunctions(c)
	o.GPUMetrics, errs[3] = gpuMetrics(c)
	o.MetricDevices, errs[4] = oneOf(c, "gpu-metrics-devices", record.DevicesUsed, record.DevicesAll)
	o.Python, errs[5] = oneOf(c, "python", record.PythonAuto, record.PythonOff)
	o.SampleRate, errs[6] = sampleRate(c)
	o.OfFiles, errs[7] = fileFunctions(c, "probe")
	o.WithoutOfFiles, errs[8] = fileFunctions(c, "no-probe")
	o.PythonAsked = c.IsSet("python")
	if c.String("pytorch") != "" { // top has no such option, nor the next
		errs[9] = pytorch(c, o)
		o.Memory, errs[10] = oneOf(c, "memory", record.MemoryCalls, record.MemoryNone)
	}
	if err := cmp.Or(errs[:]...); err != nil {
		return usagef(recordName, "record: %v", err)
	}
	if len(o.WithoutOfFiles) > 0 && len(o.OfFiles) == 0 {
		return usagef(recordName, "record: --no-probe %s leaves out functions that no --probe FILE:GLOB names",
			o.WithoutOfFiles[0])
	}
	return nil
}

// pytorch reads what is recorded of PyTorch: when its operators are, whether with their times, and whether its memory is.
func pytorch(c *cli.Context, o *record.Options) error {
	const name = "pytorch"
	if c.String(name) == "" && !c.IsSet(name) { // top has no such option
		o.PyTorch = record.PyTorchOff
		return nil
	}
	o.PyTorch = ""
	for _, word := range strings.Split(c.String(name), ",") {
		switch source := record.PyTorchSource(word); source {
		case "spans":
			o.PyTorchSpans = true
		case "memory":
			o.PyTorchMemory = true
		case record.PyTorchAuto, record.PyTorchOn, record.PyTorchOff:
			if o.PyTorch != "" {
				return fmt.Errorf("--%s has both %s and %s", name, o.PyTorch, source)
			}
			o.PyTorch = source
		default:
			return fmt.Errorf("--%s must be a list of auto, on or off, spans, and memory, not %q", name, c.String(name))
		}
	}
	switch {
	case o.PyTorchSpans && o.PyTorch == record.PyTorchOff:
		return fmt.Errorf("--%s has both off and spans: these are of operators", name)
	case o.PyTorch == "" && o.PyTorchSpans:
		o.PyTorch = record.PyTorchOn
	case o.PyTorch == "":
		o.PyTorch = record.PyTorchAuto
	}
	return nil
}

// sampleRate reads how often threads are sampled, 0 for never.
func sampleRate(c *cli.Context) (rate int, err error) {
	value := c.String(sampleFlag)
	if value == "off" {
		return 0, nil
	}
	if rate, err = strconv.Atoi(value); err != nil {
		return 0, fmt.Errorf("--%s must be a rate in Hz or off, not %q", sampleFlag, value)
	}
	if err = record.CheckSampleRate(rate); err != nil {
		err = fmt.Errorf("--%s %w", sampleFlag, err)
	}
	return rate, err
}

// gpuMetrics reads whether GPUs are sampled, and how.
func gpuMetrics(c *cli.Context) (g record.GPUMetrics, err error) {
	value, set, option := c.String(gpuMetricsFlag), gpuMetricsFlag+"-set", gpuMetricsFlag
	switch rate, wrong := strconv.Atoi(value); {
	case value == "on" || value == "off":
		g.Off = value == "off"
	case wrong != nil:
		return g, fmt.Errorf("--%s must be on, off or a rate in Hz, not %q", option, value)
	default:
		g.Rate = rate
		err = g.Check()
	}
	if c.IsSet(set) && err == nil {
		if g.Off {
			return g, fmt.Errorf("--%s needs metrics, which --%s off leaves out", set, gpuMetricsFlag)
		}
		option, g.Rate, g.Metrics = set, cmp.Or(g.Rate, record.GPUMetricsRate), strings.Split(c.String(set), ",")
		err = g.Check()
	}
	if err != nil {
		err = fmt.Errorf("--%s %w", option, err)
	}
	return g, err
}

// triggerCondition reads a condition of --trigger: call-failed, call>TIME, kernel>TIME or step>FACTOR.
func triggerCondition(text string) (c ring.Condition, err error) {
	name, limit, limited := strings.Cut(text, ">")
	on, known := map[string]ring.Subject{"call-failed": ring.FailedCalls, "call": ring.LongCalls,
		"kernel": ring.LongKernels, "step": ring.SlowSteps}[name]
	c.On = on
	switch {
	case !known:
		return c, fmt.Errorf("must be call-failed, call>TIME, kernel>TIME or step>FACTOR, not %q", text)
	case on == ring.FailedCalls && limited:
		return c, fmt.Errorf("%q: call-failed has no limit", text)
	case on == ring.FailedCalls:
		return c, nil
	case limit == "":
		return c, fmt.Errorf("%q lacks a limit: write '%s>...' in quotes, as > is the shell's", text, name)
	case on == ring.SlowSteps:
		if c.Factor, err = strconv.ParseFloat(limit, 64); err != nil || !(c.Factor > 1 && c.Factor <= 1e6) {
			return c, fmt.Errorf("%q: the factor must be a number above 1, such as 2 or 1.5", text)
		}
		return c, nil
	}
	if c.Limit, err = parseTime("trigger", limit, "10us, 1.5ms or 2 (seconds)"); err == nil && c.Limit <= 0 {
		err = errors.New("the time must be more than 0")
	}
	if err != nil {
		return c, fmt.Errorf("%q: %w", text, err)
	}
	return c, nil
}

// notOpened says why a browser has not got the trace of a recording. This does not change the exit code.
func notOpened(con *console.Console, trace string, err error) {
	if code := exitCode(0); errors.As(err, &code) {
		return // a person ended it
	}
	con.Sayf("%v; the trace is whole; to open it: %s", err, figures.Shell("cudatrace", openName, trace))
}

// conclude makes the trace, returns its path, "" without one, and prints the summary. A failure here
// does not change the exit code, which is the program's.
func conclude(con *console.Console, c *cli.Context, o record.Options, res record.Result,
	signals <-chan os.Signal) (path string) {
	if res.Lost {
		return "" // it was said
	}
	asJSON := c.String("format") == formatJSON
	if res.Log == "" {
		switch said := res.Unseen != "" || !c.Bool("quiet"); {
		case said && asJSON:
			sayNothing(func(why string) { sayRecorded(con, o, res, recordedJSON{Nothing: why}) }, o, res)
		case said:
			sayNothing(o.Say, o, res)
		}
		return ""
	}
	if wanted := res.Output + record.LogSuffix; o.OutputNamed && !res.Partial && res.Log != wanted {
		o.Say(fmt.Sprintf("another recording has written %s or its trace meanwhile; this log is %s", wanted, res.Log))
	}
	files := []madeFile{{res.Log, res.Replaced}}
	if res.Unwritten > 0 && res.Partial {
		o.Say(fmt.Sprintf("the log is cut: it ends without %s that could not be written; %s",
			figures.Count(res.Unwritten, "record", "records"), remedyOf[tracelog.LostLogWrite]))
	}
	summaryOnly := c.Bool("no-convert")
	made, trace, err := finishTrace(res, summaryOnly, signals)
	// on a full disk there is a summary all the same
	if failure := conversionFailure(""); errors.As(err, &failure) && !summaryOnly {
		base := filepath.Base(strings.TrimSuffix(res.Log, record.LogSuffix))
		o.Say(fmt.Sprintf("%v; to make it where there is room: %s", err,
			figures.Shell("cudatrace", convertName, res.Log, "-o", "FOLDER/"+base+record.TraceSuffix)))
		summaryOnly = true
		made, trace, err = finishTrace(res, summaryOnly, signals)
	}
	if err != nil {
		remedy := "to make the trace: " + figures.Shell("cudatrace", convertName, res.Log)
		if summaryOnly {
			remedy = "to summarize it: " + figures.Shell("cudatrace", infoName, res.Log)
		}
		o.Say(fmt.Sprintf("%v; %s: %s; %s", err, wholeness(&res), res.Log, remedy))
		return ""
	}
	if res.Partial { // the log has no end that could say it
		made.Summary.Lost[tracelog.LostLogWrite] += res.Unwritten
	}
	if trace.path != "" {
		files = append([]madeFile{trace}, files...)
	}
	switch {
	case !c.Bool("quiet") && asJSON:
		sayRecorded(con, o, res, recordedObject(made, res.Log, trace.path))
	case !c.Bool("quiet"):
		printSummary(con, made.Summary, made.First, files)
	case !made.Summary.Complete:
		for _, why := range made.Summary.Reasons {
			o.Say("not complete: " + why)
		}
	}
	return trace.path
}

// wholeness reports whether the log has everything that was to be written.
func wholeness(res *record.Result) string {
	if res.Unwritten > 0 {
		return "the log lacks " + figures.Count(res.Unwritten, "record", "records") + " that could not be written"
	}
	return "the log is whole"
}

// sayNothing says why nothing was recorded.
func sayNothing(say func(string), o record.Options, res record.Result) {
	program, watched := filepath.Base(o.Program), ""
	if res.Unknown != "" {
		watched = "; whether a process did unrecorded is not known: " + res.Unknown
	}
	switch {
	case res.Unseen != "":
		say("nothing was recorded: " + res.Unseen)
	case res.Early:
		say(program + " had not used CUDA when recording ended; nothing was recorded" + watched)
	case res.Others != "":
		say("nothing was recorded: " + res.Others)
	case endWords(res.Ended, "") != "":
		say(program + " " + endWords(res.Ended, " and") + " was not seen to use CUDA; nothing was recorded" + watched)
	default:
		say(program + " was not seen to use CUDA; nothing was recorded" + watched)
	}
}

// finishTrace makes the trace of a recording, or its summary alone.
func finishTrace(res record.Result, summaryOnly bool, signals <-chan os.Signal) (made conversionResult, trace madeFile,
	err error) {
	if summaryOnly {
		made, err = convertRecording(res.File, nil, signals)
		return made, trace, err
	}
	f, err := res.Trace.Create()
	if err != nil {
		return made, trace, err
	}
	made, err = convertRecording(res.File, f, signals)
	var done outfile.Done
	if err == nil {
		done, err = f.Commit()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		_ = f.Discard() // the first failure is the one to report
	}
	return made, madeFile{done.Path, done.Replaced}, err
}
