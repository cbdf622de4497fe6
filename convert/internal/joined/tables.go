// Package joined has the tables of a joined run: each is a struct, each of its columns a field. The Parquet tables, the
// lines of JSON and docs/parquet.md are made from it.
//
// Input: the events of a timeline. Output: the rows of the tables, to a [Writer]. The rows of steps and findings are
// those of a sink of package stats that takes the same events.
//
// The tags of a field are its name (key) and when it has no value (null; without the tag it always has one). Its
// comment says what it means; "=" repeats the comment before. Times are ns, since 1970 where the name says so. No value
// is [NoNumber], [None], a NaN and an empty text.
package joined

import (
	"math"
	"reflect"
)

// No value, of a column that has a null tag.
const (
	NoNumber = math.MinInt64  // of an int64
	None     = math.MaxUint32 // of a uint32
)

// A Moment is a time in µs since 1970.
type Moment int64

// Version is the version of the schema, in the table runs and in the files. It grows when a column
// changes its meaning or disappears; new tables and columns do not change it.
const Version = 1

// A Table is one of the tables.
type Table struct {
	Name string
	Row  reflect.Type
}

// Tables are all tables.
var Tables = []Table{
	{"work", reflect.TypeFor[Work]()},
	{"calls", reflect.TypeFor[Call]()},
	{"arrows", reflect.TypeFor[Arrow]()},
	{"nvtx", reflect.TypeFor[Range]()},
	{"collectives", reflect.TypeFor[Collective]()},
	{"counters", reflect.TypeFor[Counter]()},
	{"processes", reflect.TypeFor[Process]()},
	{"devices", reflect.TypeFor[Device]()},
	{"runs", reflect.TypeFor[Run]()},
	{"stacks", reflect.TypeFor[Stack]()},
	{"allocations", reflect.TypeFor[Allocation]()},
	{"torch_memory", reflect.TypeFor[TorchBlock]()},
	{"thread_states", reflect.TypeFor[State]()},
	{"thread_samples", reflect.TypeFor[Sample]()},
	{"native_stacks", reflect.TypeFor[NativeStack]()},
	{"steps", reflect.TypeFor[Step]()},
	{"findings", reflect.TypeFor[Finding]()},
	{"library_functions", reflect.TypeFor[Function]()},
	{"operators", reflect.TypeFor[Operator]()},
}

// Work is a row of work: each kernel, copy and memory set on a GPU.
type Work struct {
	Start  int64  `key:"start_unix_ns"`                     // start
	Dur    int64  `key:"dur_ns" null:"CUPTI gave no times"` // duration
	WorkID int64  `key:"work_id"`                           // key of the work in `arrows` and `collectives`
	Kind   string `key:"kind"`                              // `kernel`, `memcpy` or `memset`
	// name in `stats`: demangled kernel without parameters, direction of a copy (`HtoD`), `Memset`
	Name string `key:"name"`
	// the kernel's demangled name with return type and parameters
	Signature   string `key:"signature" null:"no kernel"`
	PID         uint32 `key:"pid"`                     // process
	GPU         uint32 `key:"gpu"`                     // GPU: see `devices`
	Context     uint32 `key:"context"`                 // CUDA context
	Stream      uint32 `key:"stream"`                  // stream
	Correlation uint32 `key:"correlation" null:"none"` // CUPTI's correlation ID
	Graph       uint32 `key:"graph" null:"none"`       // CUDA graph that launched it
	// function whose call caused it; without it `tid`, `caller`, `nvtx`, `stack_id` and the times of the call are null,
	// too
	Call     string `key:"call" null:"not known"`
	TID      uint32 `key:"tid" null:"not known"`     // thread of the call
	CallTime int64  `key:"call_ns" null:"not known"` // duration of the call
	// time from the return of the call to the start of the work; 0 where it started earlier
	Queue  int64  `key:"queue_ns" null:"not known"`
	Caller string `key:"caller" null:"not known"` // what made the call: library, function and offset
	// NVTX ranges open at the call, the outermost first, separated by ` | `
	NVTX string `key:"nvtx" null:"no range was open"`
	// [Python stack](calls.md#python-lines) of the call: see `stacks`
	StackID uint32 `key:"stack_id" null:"not known"`
	// [operator of PyTorch](pytorch.md) in which the call was made
	Operator string `key:"operator" null:"not known"`
	// that and the operators around it: `aten::addmm <- aten::linear`
	OperatorStack string `key:"operator_stack" null:"not known"`
	Grid          string `key:"grid" null:"no kernel"`    // blocks: `256x1x1`
	Block         string `key:"block" null:"no kernel"`   // threads in a block: `128x1x1`
	GridX         uint32 `key:"grid_x" null:"no kernel"`  // blocks along each axis
	GridY         uint32 `key:"grid_y" null:"no kernel"`  // =
	GridZ         uint32 `key:"grid_z" null:"no kernel"`  // =
	BlockX        uint32 `key:"block_x" null:"no kernel"` // threads in a block along each axis
	BlockY        uint32 `key:"block_y" null:"no kernel"` // =
	BlockZ        uint32 `key:"block_z" null:"no kernel"` // =
	// theoretical occupancy, 0 to 1
	Occupancy   float64 `key:"occupancy" null:"no kernel, or not known"`
	Registers   uint32  `key:"registers" null:"no kernel"`    // registers a thread
	SharedBytes int64   `key:"shared_bytes" null:"no kernel"` // shared memory of a block
	Bytes       int64   `key:"bytes" null:"no copy or set"`   // bytes copied or set
	// memory that was read: `Pageable`, `Pinned`, `Device`, `Array`, `Managed`, `DeviceStatic`, `ManagedStatic`, `unknown`
	SrcKind    string `key:"src_kind" null:"no copy"`
	DstKind    string `key:"dst_kind" null:"no copy"` // memory that was written
	Unfinished bool   `key:"unfinished"`              // still running when recording ended; `dur_ns` is cut there
}

// Call is a row of calls: each CUDA call, also a recorded driver call within a runtime call.
type Call struct {
	Start       int64  `key:"start_unix_ns"`                     // start
	Dur         int64  `key:"dur_ns" null:"it had not returned"` // duration
	CallID      int64  `key:"call_id"`                           // key of the call in `arrows`
	Name        string `key:"name"`                              // function
	Library     string `key:"library" null:"not known"`          // `runtime` or `driver`
	PID         uint32 `key:"pid"`                               // process
	TID         uint32 `key:"tid"`                               // thread
	Depth       uint32 `key:"depth"`                             // calls around it
	Correlation uint32 `key:"correlation" null:"none"`           // CUPTI's correlation ID
	Stream      uint32 `key:"stream" null:"no recorded work"`    // stream of the GPU work that it caused
	Result      int64  `key:"result" null:"it did not return"`   // CUresult or cudaError_t
	Error       string `key:"error" null:"it succeeded"`         // CUDA's name of the error
	// it returned an error other than `not ready` and `deinitialized`
	Failed bool   `key:"failed"`
	Caller string `key:"caller" null:"not known"` // what made the call: library, function and offset
	// NVTX ranges open at the call, the outermost first, separated by ` | `
	NVTX string `key:"nvtx" null:"no range was open"`
	// [Python stack](calls.md#python-lines) of the call: see `stacks`
	StackID uint32 `key:"stack_id" null:"not known"`
	// [operator of PyTorch](pytorch.md) in which the call was made
	Operator string `key:"operator" null:"not known"`
	// that and the operators around it: `aten::addmm <- aten::linear`
	OperatorStack string `key:"operator_stack" null:"not known"`
}

// Arrow is a row of arrows: each arrow of the trace.
type Arrow struct {
	Start int64 `key:"start_unix_ns"` // start
	// `launch`, from a call to its work; or `wait`, from the end of work to a call that waited for it
	Kind   string `key:"kind"`
	CallID int64  `key:"call_id"` // call
	WorkID int64  `key:"work_id"` // work
	PID    uint32 `key:"pid"`     // process
	TID    uint32 `key:"tid"`     // thread
}

// Range is a row of nvtx: each NVTX range and mark.
type Range struct {
	Start  int64  `key:"start_unix_ns"`                             // start
	Dur    int64  `key:"dur_ns" null:"a mark, or it had not ended"` // duration
	Name   string `key:"name"`                                      // name
	Domain string `key:"domain" null:"the default domain"`          // domain
	Kind   string `key:"kind"`                                      // `range` or `mark`
	PID    uint32 `key:"pid"`                                       // process
	TID    uint32 `key:"tid" null:"it belongs to no thread"`        // thread on which it began
	// NVTX ranges open at the call, the outermost first, separated by ` | `
	NVTX string `key:"nvtx" null:"no range was open"`
}

// Collective is a row of collectives: each kernel of NCCL and NVSHMEM; they are in `work`, too.
type Collective struct {
	Start  int64  `key:"start_unix_ns"`                     // start
	Dur    int64  `key:"dur_ns" null:"CUPTI gave no times"` // duration
	WorkID int64  `key:"work_id"`                           // key of the work in `arrows` and `collectives`
	Name   string `key:"name"`                              // kernel
	// `AllReduce`, `AllGather`, `ReduceScatter`, `Broadcast`, `Reduce`, `SendRecv` and so on
	Operation string `key:"operation" null:"not in the name"`
	// reduction, type, algorithm and protocol: `Sum_f32_RING_LL`
	Variant string `key:"variant" null:"not in the name"`
	PID     uint32 `key:"pid"`    // process
	GPU     uint32 `key:"gpu"`    // GPU: see `devices`
	Stream  uint32 `key:"stream"` // stream
	// its number on its stream, from 1: equal on all ranks that run the same collectives on the stream from the start
	Sequence int64 `key:"sequence"`
	// [hash of its communicator](nvtx.md#nccl), the same on all ranks
	Communicator string `key:"communicator" null:"not known"`
	// elements times the size of one; the sum where several calls share the kernel
	Bytes int64 `key:"bytes" null:"not known"`
	// NVTX ranges open at the call, the outermost first, separated by ` | `
	NVTX string `key:"nvtx" null:"no range was open"`
}

// Counter is a row of counters: each value of a sampled metric, and each change of a memory counter.
type Counter struct {
	Start int64 `key:"start_unix_ns"` // start
	// time that the value stands for
	Dur    int64  `key:"dur_ns" null:"a memory counter: it holds until the next value"`
	Name   string `key:"name"`                           // metric, as in `stats`, or memory counter
	Metric string `key:"metric" null:"a memory counter"` // the source's name for it
	Source string `key:"source" null:"a memory counter"` // `nvml`, `gpm`, `pm` or `host`
	// `%`, `B`, `B/s`, `Hz`, `W`, `°C`, `count`, `/s`, `ns` or `bits`
	Unit  string  `key:"unit"`
	GPU   uint32  `key:"gpu" null:"not of a GPU"`     // GPU
	PID   uint32  `key:"pid" null:"of the whole GPU"` // process
	Value float64 `key:"value"`                       // value
}

// Process is a row of processes: each program that used CUDA.
type Process struct {
	Start       int64  `key:"start_unix_ns" null:"not known"` // when the recorder first saw it
	Dur         int64  `key:"dur_ns" null:"not known"`        // time from there to its end
	PID         uint32 `key:"pid"`                            // process
	PPID        uint32 `key:"ppid"`                           // parent process
	Name        string `key:"name"`                           // program
	Args        string `key:"args" null:"not known"`          // command line, separated by blanks
	Cwd         string `key:"cwd" null:"not known"`           // working folder
	Exit        string `key:"exit" null:"not known"`          // how it ended: `exit code 0`, `signal 11 (SIGSEGV)`
	LocalRank   uint32 `key:"local_rank" null:"no rank"`      // rank among those of its host
	WorldSize   uint32 `key:"world_size" null:"not known"`    // number of ranks
	CUDARuntime string `key:"cuda_runtime" null:"not known"`  // version of the CUDA runtime
	NCCL        string `key:"nccl" null:"not known"`          // version of NCCL
	// [recorded environment variables](metadata.md#environment-variables), a JSON object
	Environment string `key:"environment"`
}

// Device is a row of devices: each GPU that a process used, or whose metrics were sampled.
type Device struct {
	GPU uint32 `key:"gpu"` // GPU: see `devices`
	// process that used it; 0 of a GPU that was only sampled
	PID               uint32 `key:"pid"`
	Device            uint32 `key:"device" null:"only sampled"`             // the process's number of the GPU
	UUID              string `key:"uuid" null:"not known"`                  // 32 hexadecimal digits
	Name              string `key:"name" null:"not known"`                  // product
	ComputeCapability string `key:"compute_capability" null:"not known"`    // `9.0`
	Multiprocessors   uint32 `key:"multiprocessors" null:"not known"`       // number of them
	MemoryBytes       int64  `key:"memory_bytes" null:"not known"`          // memory size
	MemoryBandwidth   int64  `key:"memory_bandwidth_kBps" null:"not known"` // memory bandwidth
	Clock             int64  `key:"clock_kHz" null:"not known"`             // highest SM clock
	PCI               string `key:"pci" null:"not known"`                   // PCI address
}

// Run is a row of runs: each log, in the partition of each of its ranks.
type Run struct {
	Start         int64  `key:"start_unix_ns"`                  // start
	Dur           int64  `key:"dur_ns"`                         // time from the first event of the log to the last
	Began         Moment `key:"start"`                          // start, to the microsecond
	SchemaVersion uint32 `key:"schema_version"`                 // version of this schema
	LogName       string `key:"log"`                            // log
	Program       string `key:"program" null:"not known"`       // program
	Args          string `key:"args" null:"not known"`          // command line, separated by blanks
	Hostname      string `key:"hostname" null:"not known"`      // host name as it is
	GitRevision   string `key:"git_revision" null:"not known"`  // commit of the working folder
	GitBranch     string `key:"git_branch" null:"not known"`    // branch
	GitRemote     string `key:"git_remote" null:"not known"`    // URL of `origin`
	NvidiaDriver  string `key:"nvidia_driver" null:"not known"` // release of NVIDIA's driver
	// CUDA version that the driver supports
	DriverVersion string `key:"driver_version" null:"not known"`
	CUPTIVersion  string `key:"cupti_version" null:"not known"` // version of libcupti
	Kernel        string `key:"kernel" null:"not known"`        // Linux release
	Cudatrace     string `key:"cudatrace" null:"not known"`     // version of the recorder
	Options       string `key:"options" null:"none"`            // options of the recording
	// recorded environment variables of the recorder, a JSON object
	Environment string `key:"environment"`
	ExitStatus  int64  `key:"exit_status" null:"not known"`  // exit status of the program
	Complete    bool   `key:"complete"`                      // nothing is known to be missing
	Reasons     string `key:"reasons" null:"it is complete"` // why it is not complete, separated by ` | `
	Lost        int64  `key:"lost"`                          // records that were lost
}

// Stack is a row of stacks: each Python stack of calls, samples and blocked threads: its innermost frame, with the
// stack that called it.
type Stack struct {
	StackID  uint32 `key:"stack_id"`                             // key of the stack in other tables
	ParentID uint32 `key:"parent_id" null:"the outermost frame"` // stack without the frame
	Depth    uint32 `key:"depth"`                                // frames around it
	// line shown for the stack: of the innermost frame outside the interpreter and packages
	Python string `key:"python"`
	// file, as the program names it
	File      string `key:"file" null:"unknown, or the frame stands for others"`
	Function  string `key:"function"`                  // function, or what the frame stands for
	FirstLine uint32 `key:"first_line" null:"unknown"` // first line of the function
	Line      uint32 `key:"line" null:"unknown"`       // line
}

// Allocation is a row of allocations: each allocation of memory.
type Allocation struct {
	Start       int64  `key:"start_unix_ns"`                         // start
	Dur         int64  `key:"dur_ns" null:"not freed, or not known"` // time until it was freed
	Unfreed     bool   `key:"unfreed"`                               // not freed before recording ended
	Bytes       int64  `key:"bytes"`                                 // size
	Memory      string `key:"memory"`                                // `Device`, `Pinned`, `Managed` and so on
	Address     string `key:"address"`                               // address, in hexadecimal
	PID         uint32 `key:"pid"`                                   // process
	TID         uint32 `key:"tid" null:"not known"`                  // thread that allocated it
	GPU         uint32 `key:"gpu" null:"host memory"`                // GPU: see `devices`
	Correlation uint32 `key:"correlation" null:"none"`               // CUPTI's correlation ID of the call
	Call        string `key:"call" null:"not known"`                 // function whose call allocated it
	Caller      string `key:"caller" null:"not known"`               // what made the call: library, function and offset
	// [Python stack](calls.md#python-lines) of the call: see `stacks`
	StackID uint32 `key:"stack_id" null:"not known"`
}

// TorchBlock is a row of torch_memory: each block of [PyTorch's cache](stats.md#torch_memory) that was handed out or
// taken back, and each request for which there was no memory.
type TorchBlock struct {
	Start       int64  `key:"start_unix_ns"`                            // when
	Address     string `key:"address" null:"none"`                      // address of the block, in hexadecimal
	Bytes       int64  `key:"bytes"`                                    // size; below 0 for a block that was taken back
	Held        int64  `key:"allocated"`                                // bytes that are handed out on the GPU then
	Reserved    int64  `key:"reserved"`                                 // bytes that the allocator has of the GPU then
	OutOfMemory bool   `key:"out_of_memory"`                            // there was no memory for it
	PID         uint32 `key:"pid"`                                      // process
	TID         uint32 `key:"tid"`                                      // thread
	Thread      string `key:"thread" null:"not known"`                  // its name
	GPU         uint32 `key:"gpu"`                                      // GPU: see `devices`
	StackID     uint32 `key:"stack_id" null:"not known, or taken back"` // Python stack that asked: see `stacks`
	// innermost [operator of PyTorch](pytorch.md) of the thread then, and those around it, with `--pytorch spans,memory`
	Operator      string `key:"operator" null:"not known"`
	OperatorStack string `key:"operator_stack" null:"not known"` // =
}

// State is a row of thread_states: each [state](threads.md) of a thread that made CUDA calls.
type State struct {
	Start  int64  `key:"start_unix_ns"`           // start
	Dur    int64  `key:"dur_ns"`                  // duration
	PID    uint32 `key:"pid"`                     // process
	TID    uint32 `key:"tid"`                     // thread
	Thread string `key:"thread" null:"not known"` // its name
	State  string `key:"state"`                   // `running`, `runnable` (without a processor), `blocked`
	CPU    uint32 `key:"cpu"`                     // processor on which it ran, or had run last
	// as in `stats`: `blocked in poll on a pipe`
	Why  string `key:"why" null:"not blocked, or not known"`
	Call string `key:"call" null:"not blocked, or not known"` // system call; `page fault`, `stopped`
	// what it waited for: `pipe`, `socket`, `file` and so on; `lock`, `GIL`, `thread`
	WaitsOn string `key:"waits_on" null:"not known"`
	// thread that had the lock, or whose end it waited for
	HolderTID uint32 `key:"holder_tid" null:"not known"`
	StackID   uint32 `key:"stack_id" null:"not known"` // Python stack: see `stacks`
}

// Sample is a row of thread_samples: each sample of what a thread ran.
type Sample struct {
	Start int64 `key:"start_unix_ns"` // when it was taken
	// time for which the thread ran from one sample to the next
	Period int64  `key:"period_ns" null:"not known"`
	PID    uint32 `key:"pid"`                     // process
	TID    uint32 `key:"tid"`                     // thread
	Thread string `key:"thread" null:"not known"` // its name
	// `program`, or in the kernel: `system call`, `page fault or interrupt`, `kernel`
	Place    string `key:"place"`
	NativeID uint32 `key:"native_id" null:"not known"` // native stack: see `native_stacks`
	StackID  uint32 `key:"stack_id" null:"not known"`  // Python stack: see `stacks`
	Unread   bool   `key:"unread"`                     // it may have had Python frames that could not be read
}

// NativeStack is a row of native_stacks: each native stack of samples, as `stacks`.
type NativeStack struct {
	NativeID uint32 `key:"native_id"`                            // key of the stack in `thread_samples`
	ParentID uint32 `key:"parent_id" null:"the outermost frame"` // stack without the frame
	Depth    uint32 `key:"depth"`                                // frames around it
	Module   string `key:"module" null:"code of no file"`        // path of the program or library
	Function string `key:"function" null:"not known"`            // function, demangled, without parameters
	Frame    string `key:"frame"`                                // as in `stats`: `libtorch_cpu.so: at::add`
}

// Step is a row of steps: each [step](stats.md#what-is-a-step) of a process.
type Step struct {
	Start int64 `key:"start_unix_ns"` // start
	Dur   int64 `key:"dur_ns"`        // duration
	// kind of step: name of the ranges without the number, `profiled`, or `step`
	Name   string `key:"name"`
	Number int64  `key:"number"` // number
	Source string `key:"source"` // `NVTX`, `cudaProfilerStart`, or the stream whose launches repeat
	// `certain` for ranges and profiled parts, `likely` for launches
	Confidence string `key:"confidence"`
	PID        uint32 `key:"pid"` // process
	// it began in the [start-up](findings.md#start-up-and-steady-state) and later ones did not: `step_kinds` leaves it out
	Starting bool  `key:"starting"`
	Compute  int64 `key:"compute_ns" null:"not known"` // time in which the process's GPUs computed
	Exposed  int64 `key:"exposed_ns" null:"not known"` // communicated without computing
	Copy     int64 `key:"copy_ns" null:"not known"`    // only copied or set memory
	Idle     int64 `key:"idle_ns" null:"not known"`    // did nothing
}

// Finding is a row of findings: each [finding](findings.md), with the default thresholds.
type Finding struct {
	Start      int64  `key:"start_unix_ns"`                  // first moment
	Last       int64  `key:"last_unix_ns"`                   // last moment
	Place      int64  `key:"place"`                          // place in the order of `stats`, from 1, within a conversion
	Name       string `key:"name"`                           // kind: `gaps`, `pageable_copies` and so on
	Title      string `key:"title"`                          // finding, as text
	Confidence string `key:"confidence"`                     // `certain` or `likely`
	PID        uint32 `key:"pid"`                            // process
	GPU        uint32 `key:"gpu" null:"not of a single GPU"` // GPU: see `devices`
	Cost       int64  `key:"cost_ns" null:"not known"`       // time that it costs
	// part of the steady state that it costs
	Share    float64 `key:"share" null:"not known, and of startup"`
	Count    int64   `key:"count"`    // how many times
	Evidence string  `key:"evidence"` // evidence, as text
	Try      string  `key:"try"`      // remedy, as text
	Query    string  `key:"query"`    // command that shows it, with `LOG` for the logs
}

// Function is a row of library_functions: each call of a [function of any library](probes.md), CUDA's left out.
type Function struct {
	Start int64 `key:"start_unix_ns"`                                                  // start
	Dur   int64 `key:"dur_ns" null:"it did not return, or only its entry is recorded"` // duration
	// function, demangled, without parameters
	Name    string `key:"name"`
	Library string `key:"library"` // file that has it
	PID     uint32 `key:"pid"`     // process
	TID     uint32 `key:"tid"`     // thread
	Depth   uint32 `key:"depth"`   // such functions around it
	// first to sixth argument: whole registers, of which a smaller type has but a part
	Arg0 int64 `key:"arg0" null:"not recorded"`
	Arg1 int64 `key:"arg1" null:"not recorded"` // =
	Arg2 int64 `key:"arg2" null:"not recorded"` // =
	Arg3 int64 `key:"arg3" null:"not recorded"` // =
	Arg4 int64 `key:"arg4" null:"not recorded"` // =
	Arg5 int64 `key:"arg5" null:"not recorded"` // =
	// returned value: the whole register
	Returns int64 `key:"returns" null:"it did not return, or only its entry is recorded"`
}

// Operator is a row of operators: each [operator of PyTorch](pytorch.md) that ran while `--pytorch spans` recorded them, and
// each range of the program's that PyTorch tells of.
type Operator struct {
	Start int64  `key:"start_unix_ns"` // begin
	Dur   int64  `key:"dur_ns"`        // time until its end
	Name  string `key:"name"`          // operator; of a backward one its node, `AddmmBackward0`
	PID   uint32 `key:"pid"`           // process
	TID   uint32 `key:"tid"`           // thread on which it ended
	Depth uint32 `key:"depth"`         // operators around it
	Stack string `key:"stack"`         // that and the operators around it: `aten::addmm <- aten::linear`
	// of a backward one, the forward operator that made it, and those around that one
	Forward string `key:"forward" null:"not a backward one, or not known"`
}
