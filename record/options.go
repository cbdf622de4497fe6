package record

import (
	"cmp"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/gpumetrics"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/outfile"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/ranks"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Options say what to record and where to.
type Options struct {
	Program string   // as a person names it: a path, or a name to find in PATH
	Args    []string // without the program
	PIDs    []int    // processes to attach to, instead of a program
	Prints  *os.File // where the program's standard output and standard error go; nil for our own
	Output  string   // path of the files without suffix; see SetOutput
	// OutputNamed says that a person named Output. Otherwise files that have such names are left alone.
	OutputNamed bool
	// OutputOf, unless it is nil, returns the path that takes the place of Output when the program has its PID.
	OutputOf   func(pid int) string
	Version    string // of cudatrace, for the log
	Words      string // these options, as a command line has them, for the log
	Run        string // name of the run, for the log; "" without one
	NoMetadata bool   // the log leaves out arguments, folders, environment variables and the commit

	Ranks     ranks.List          // of the processes that are recorded
	Functions []*cudaapi.Function // whose calls are recorded
	// OfFiles are functions of any library or program whose entries and returns are recorded, but for WithoutOfFiles.
	OfFiles, WithoutOfFiles []pattern.Functions

	Calls CallSource
	GPU   GPUSource
	// Memory says what tells of allocated memory where calls are not probed; "" means MemoryNone.
	Memory  MemorySource
	Python  PythonSource  // of calls and samples; "" means PythonOff
	PyTorch PyTorchSource // "" means PyTorchOff

	// PyTorchSpans has the begin and the end of each operator recorded, where operators are.
	PyTorchSpans bool

	// PyTorchMemory has the blocks recorded that PyTorch's allocator hands out and takes back.
	PyTorchMemory bool

	// PythonAsked has a line say why calls have no Python frames, whatever the reason. Otherwise there is one only of an
	// interpreter that is not known.
	PythonAsked bool

	SampleRate int // of samples of the threads that make calls, in Hz; 0: neither their states nor samples are recorded

	GPUMetrics    GPUMetrics    // the zero value means GPUMetricsOn
	MetricDevices MetricDevices // "" means DevicesUsed

	Delay        time.Duration   // before recording begins
	Duration     time.Duration   // of the recording; 0: until the program ends
	Detach       bool            // take CUPTI out of the processes of PIDs in the end; their threads are stopped for it
	FromStart    bool            // Delay counts from the program's start, not from the first CUDA call
	Newest                       // the newest part is recorded, if Last is not 0
	CaptureRange bool            // record between cudaProfilerStart and cudaProfilerStop only
	CaptureNVTX  pattern.Ranges  // record within these NVTX ranges only
	CaptureSteps pattern.Numbers // of these ranges; the zero value for all

	FlushInterval time.Duration // a record is on disk within this time; 0 means DefaultFlushInterval
	// largest memory that recording takes inside a process, bytes; 0 means the default of package cupti
	MemoryLimit     uint64
	CallBufferBytes int     // kernel memory for probed calls; 0: by what is probed
	Wait            WaitFor // when recording ends; "" means WaitCUDA

	// Opened, unless it is nil, is called once with the log, open for reading and writing, before the
	// program starts. The log grows until Run or Attach returns; then it has its end.
	Opened func(log *os.File)
	// Stop ends the recording when it is closed, as Duration does; the program runs on.
	Stop <-chan struct{}

	// Say shows a person one line while the recording runs. Several goroutines call it.
	Say func(line string)
}

// MostSteps bounds Options.CaptureSteps.
const MostSteps = cupti.MostSteps

// CheckCapture returns why recording cannot be limited to NVTX ranges.
func CheckCapture(r pattern.Ranges) error { return cupti.CheckRanges(r) }

// A CallSource is the source of calls.
type CallSource string

// The call sources.
const (
	CallsAuto   CallSource = "auto"   // uprobes, or CUPTI without the right to use them
	CallsUprobe CallSource = "uprobe" // uprobes or nothing
	CallsCUPTI  CallSource = "cupti"  // CUPTI's API records: no eBPF, no root
	CallsNone   CallSource = "none"   // GPU work and, from CUPTI, the calls that create it
)

// DefaultFlushInterval is the default of Options.FlushInterval.
const DefaultFlushInterval = time.Second

// WaitFor says when recording ends.
type WaitFor string

// The ends of a recording.
const (
	WaitCUDA    WaitFor = "cuda"    // until every process of the program's tree that uses CUDA has ended
	WaitProgram WaitFor = "program" // until the program has ended
)

// A GPUSource is the source of GPU work.
type GPUSource string

// The sources of GPU work.
const (
	GPUCUPTI GPUSource = "cupti"
	GPUNone  GPUSource = "none" // calls alone
)

// GPUMetrics reports whether clocks, power and the use of a GPU's units are sampled, and how.
type GPUMetrics struct {
	Off     bool
	Rate    int      // of PM sampling, in Hz; 0 is none: what any user may read, and no other tool is disturbed by
	Metrics []string // of PM sampling; nil for the default set
}

// GPUMetricsRate is the rate of PM sampling where none is named.
const GPUMetricsRate = gpumetrics.RateDefault

// Check returns why there can be no such PM sampling, as far as its rate and the names of metrics tell.
func (g *GPUMetrics) Check() error {
	return cmp.Or(gpumetrics.CheckRate(g.Rate), gpumetrics.CheckMetrics(g.Metrics))
}

// MetricDevices says which GPUs are sampled.
type MetricDevices string

// Which GPUs are sampled.
const (
	DevicesUsed MetricDevices = "used" // those on which a recorded process has a context
	DevicesAll  MetricDevices = "all"
)

func (o *Options) complete() {
	if o.FlushInterval == 0 {
		o.FlushInterval = DefaultFlushInterval
	}
	if o.Wait == "" {
		o.Wait = WaitCUDA
	}
}

// Result says how a recording went.
type Result struct {
	Output string // path that the files were to have, without suffix
	Log    string // path of the log; "" when nothing used CUDA
	Unseen string // why nothing was recorded of a program that may have used CUDA
	// why processes of a program that was not seen to use CUDA may have used it; "" if none can have
	Unknown   string
	Others    string          // which ranks used CUDA and are not recorded; "" for none
	Partial   bool            // the log has a partial name, since it could not be finished
	Replaced  bool            // another log stood there
	Unwritten uint64          // records that could not be written to the log
	File      *os.File        // the log, open
	Trace     *outfile.Target // where its trace belongs
	Lost      bool            // the log is gone: its folder was removed
	Ended     string          // how the program ended, "exit code 3"; "" while it is not known
	Early     bool            // recording ended before the program did
	ExitCode  int             // the program's own, 128+N after signal N; 0 for attached processes; known after Wait

	program *program // that may run on; nil if it has ended, or was left alone
	signals chan os.Signal
}

// Runs reports whether the program runs on after its recording.
func (r *Result) Runs() bool { return r.program != nil && !isClosed(r.program.ended) }

// Wait waits for the end of a program that may run on, and sets ExitCode.
func (r *Result) Wait() {
	if r.program == nil {
		return
	}
	<-r.program.ended
	r.ExitCode, r.program = r.program.exitStatus(), nil
	signal.Stop(r.signals)
}

// schedule names the options that leave a part of the program's run out: "delay 2s".
func (o *Options) schedule() string {
	var words []string
	if o.Delay > 0 {
		words = append(words, tracelog.ScheduleDelay+" "+o.Delay.String())
	}
	if o.Duration > 0 {
		words = append(words, "duration "+o.Duration.String())
	}
	if o.Last > 0 {
		words = append(words, "last "+o.Last.String())
	}
	if o.FromStart {
		words = append(words, "from the program's start")
	}
	if o.CaptureRange {
		words = append(words, tracelog.ScheduleCaptureRange+" cudaProfilerApi")
	}
	if !o.CaptureNVTX.None() {
		words = append(words, tracelog.ScheduleCaptureRange+" "+tracelog.ScheduleNVTX+o.CaptureNVTX.String())
	}
	if o.CaptureSteps.Count > 0 {
		words = append(words, tracelog.ScheduleSteps+" "+o.CaptureSteps.String())
	}
	return strings.Join(words, ", ")
}
