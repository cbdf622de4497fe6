package tracelog

import (
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

//go:generate go run ./internal/recordgen

// A Record is a record of some kind: a *Call, a *Kernel and so on. Times are nanoseconds of
// CLOCK_MONOTONIC, durations nanoseconds, sizes bytes. PID and TID are numbers of the
// recorder's own PID namespace.
type Record interface {
	Kind() Kind

	// AddTo adds the record to a log. The record is the caller's again when it returns.
	// After an error, or after Close, records are counted in Writer.Dropped instead.
	AddTo(*Writer)

	// Read fills the record from row i of a block, 0 <= i < Block.N, without allocating. It
	// panics on a block of another kind, which is a mistake of the caller and never one of
	// the file. A value too large for its member, which no writer makes, loses its upper bits.
	Read(b *Block, i int)
}

// A Kind numbers a type of record. Numbers are wire format: never reuse one.
type Kind = schema.Kind

// KindByName finds a kind of record by its name in the text form.
func KindByName(name string) (Kind, bool) { return schema.KindByName(name) }

// MaxArgs is the largest number of recorded arguments of a call.
const MaxArgs = schema.MaxArgs

// MaxFunctionArgs is the largest number of recorded arguments of a function that is none of CUDA's.
const MaxFunctionArgs = schema.MaxFunctionArgs

// MaxMetrics is the largest number of metrics of a set.
const MaxMetrics = schema.MaxMetrics

// MetricNoDevice is the device of a metric set whose GPU has no number in CUPTI, and of a
// process's set.
const MetricNoDevice = 0xffffffff

// Flags of a Call; CallUnfinished is one of an API record, too.
const (
	CallUnfinished = 1 << 0 // the function had not returned when recording ended; Dur is 0
	CallNoReturn   = 1 << 1 // the function was left without returning (longjmp, exception); Dur is 0
	CallEntry      = 1 << 2 // the entry alone was recorded; Dur is 0. The call's API record has the rest, if there is one
)

// TorchOutOfMemory is a flag of a TorchMemory: the allocator found no memory.
const TorchOutOfMemory = 1 << 0

// Flags of a FunctionEvent.
const (
	FunctionEntry  = 1 << 0
	FunctionReturn = 1 << 1
	FunctionAlone  = 1 << 2 // of an entry: no return follows, it is not recorded
	FunctionLeft   = 1 << 3 // of a return: the function was left without returning (longjmp, exception), before this time
)

// Domains of an API record: who made the call.
const (
	DomainDriver  = 1
	DomainRuntime = 2
)

// Severities of a Note.
const (
	NoteInfo    = 0
	NoteWarning = 1
)

// Flags of a Marker: CUpti_ActivityFlag, and one of ours.
const (
	MarkerInstant = 1 << 0
	MarkerStart   = 1 << 1
	MarkerEnd     = 1 << 2
	MarkerBefore  = 1 << 7 // of a start: the range began before the recording, whose beginning the time is
)

// What is known of an NCCLCall: bits of its Known.
const (
	NCCLCommunicator = 1 << 0
	NCCLBytes        = 1 << 1
	NCCLRanks        = 1 << 2
)

// States of a thread: the State of a ThreadState.
const (
	StateRunning  = 1
	StateRunnable = 2 // ready to run, and another thread had the processor
	StateBlocked  = 3
)

// Flags of a ThreadSample.
const (
	SampleKernel = 1 << 0 // in the kernel
	SampleCall   = 1 << 1 // there in a system call
	SampleFault  = 1 << 2 // there because of a page fault or another exception
	SampleUnread = 1 << 3 // Python frames could not be read
)

// Kinds of object that a Name names, CUpti_ActivityObjectKind.
const (
	ObjectProcess = 1
	ObjectThread  = 2
	ObjectDevice  = 3
	ObjectContext = 4
	ObjectStream  = 5
)

// What options in [MetaSchedule] begin with.
const (
	ScheduleDelay        = "delay"         // the program is not recorded at first
	ScheduleCaptureRange = "capture range" // the parts are recorded that the program marks, with gaps between
	ScheduleNVTX         = "nvtx:"         // before the names of the NVTX ranges that mark them
	ScheduleSteps        = "steps"         // of these ranges, those with some numbers
)

// IsAttached reports whether the recorder attached to running processes, by the values of Meta records: options name
// them.
func IsAttached(meta map[string]string) bool { return meta[MetaPID] == "" && meta[MetaOptions] != "" }

// BeginsMidway reports whether a recording begins in the middle of its program, by the values of Meta records: it was
// attached to, or options left out what came first.
func BeginsMidway(meta map[string]string) bool {
	delayed := strings.Contains(meta[MetaSchedule], ScheduleDelay+" ")
	return IsAttached(meta) || meta[MetaLast] != "" || delayed || CapturesRanges(meta)
}

// CapturesRanges reports whether the parts were recorded that the program marks, by the values of Meta records.
func CapturesRanges(meta map[string]string) bool {
	return strings.Contains(meta[MetaSchedule], ScheduleCaptureRange+" ")
}

// RecordedSteps returns which NVTX ranges the recording was limited to, and the number of the first one, by the values
// of Meta records; "" where it was not limited to numbers.
func RecordedSteps(meta map[string]string) (ranges string, first int64) {
	_, ranges, _ = strings.Cut(meta[MetaSchedule], ScheduleCaptureRange+" "+ScheduleNVTX)
	i := strings.LastIndex(ranges, ", "+ScheduleSteps+" ")
	if i < 0 {
		return "", 0
	}
	number, _, _ := strings.Cut(ranges[i+len(", "+ScheduleSteps+" "):], "-")
	first, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return "", 0
	}
	return ranges[:i], first
}

// Keys of Meta records.
const (
	MetaProgram = "program"   // as the user named it
	MetaArgs    = "args"      // argument list joined by NUL, the program first
	MetaCwd     = "cwd"       // working directory
	MetaHost    = "host"      // host name
	MetaBoot    = "boot_id"   // of the host's kernel: logs of one boot have one CLOCK_MONOTONIC
	MetaKernel  = "kernel"    // Linux release
	MetaVersion = "cudatrace" // version of the recorder
	MetaPID     = "pid"       // of the program; absent where the recorder attached to running processes
	// how the program ended, "exit code 3" or "signal 11 (SIGSEGV), core dumped"; absent where that is not known
	MetaEnded    = "ended"
	MetaSchedule = "schedule" // options that left parts of the program out; absent otherwise
	MetaOptions  = "options"  // of the recording, as a command line has them; absent without any
	MetaWork     = "gpu_work" // WorkUnwanted; absent otherwise
	// MemoryOfCalls, MemoryOfCallbacks, MemoryOfCUPTI, or why the log knows nothing of allocated memory; absent in logs of
	// early versions with CUPTI's records of it
	MetaMemory = "memory"

	// why processes of the program may have used CUDA unrecorded and unnoticed; absent if none can have
	MetaUnknown    = "others_unknown"
	MetaSampleRate = "sample_hz" // rate of samples of threads; absent without
	MetaRun        = "run"       // name that a person gave the run; absent without one
	// release of the kernel driver; this and the others are absent where they are not known
	MetaDriver      = "nvidia_driver"
	MetaRevision    = "git_revision" // commit that the working folder was made from
	MetaBranch      = "git_branch"
	MetaRemote      = "git_remote"  // URL of "origin", without credentials
	MetaEnvironment = "environment" // chosen variables, NAME=VALUE joined by NUL

	// Of a log that holds the last part of a recording; absent in others.
	MetaLast        = "last_ns"           // the time that was to be held
	MetaLastHeld    = "last_held_ns"      // the time that is held, up to the log's end
	MetaLastShort   = "last_short"        // why less is held, although the recording has been longer; absent otherwise
	MetaLastWhy     = "last_why"          // what asked for the log
	MetaLastEarlier = "last_earlier_work" // pieces of GPU work whose call returned before that time

	// what a probed call costs its program, measured at the start; absent without probes
	MetaCallCost    = "call_cost_ns"
	MetaRecorderCPU = "recorder_cpu_ns" // processor time that the recorder took until the log's end
)

// WorkUnwanted is the value of MetaWork of a recording of calls alone.
const WorkUnwanted = "unwanted"

// MemoryOfCalls is the value of MetaMemory where the log has the calls of all functions that allocate and free.
const MemoryOfCalls = "calls"

// MemoryOfCallbacks is the value of MetaMemory where it has them from CUPTI's callbacks: with the process's own
// numbers of threads, and beside the API records of the same calls.
const MemoryOfCallbacks = "callbacks"

// MemoryOfCUPTI is the value of MetaMemory of early versions where CUPTI recorded allocations. No reader takes them.
const MemoryOfCUPTI = "cupti"

// Causes of loss: the Cause of a Lost record.
const (
	LostCallBuffer  = "ring_buffer"  // calls: the call buffers were full
	LostThreadTable = "thread_table" // calls: more threads than the eBPF program has room for
	LostNesting     = "nesting"      // calls: nested deeper than the eBPF program has room for
	// activity records: the recorder read too slowly, the library reached its memory limit
	LostCUPTIQueue      = "cupti_queue"
	LostCUPTIDropped    = "cupti_dropped"    // activity records: CUPTI dropped them (cuptiActivityGetNumDroppedRecords)
	LostCUPTIBuffer     = "cupti_buffer"     // activity records: no buffer was left for CUPTI; the count is a lower bound
	LostCUPTITime       = "cupti_time"       // times: CUPTI gave none; the record is there
	LostCUPTIClock      = "cupti_clock"      // times: on no known clock; the record is there
	LostCUPTIName       = "cupti_name"       // names: the library's table was full; the record is there
	LostCUPTIUnreadable = "cupti_unreadable" // activity records: CUPTI could not read the rest of its own buffer
	LostCUPTIUnfinished = "cupti_unfinished" // ends: work was still running at the last flush; the record is there
	// Python stacks: the library's tables were full, or just being written; the call is there
	LostPython = "python_stacks"
	// LostOperators is the cause of stacks of PyTorch operators that found no room.
	LostOperators = "operator_stacks"
	// LostOperatorSpans is the cause of PyTorch operators whose begin and end found no room.
	LostOperatorSpans = "operator_spans"
	// LostMemoryCalls is the cause of times in which the calls that allocate and free are not known.
	LostMemoryCalls = "memory_calls"
	// LostRanges is the cause of NVTX ranges and marks of an armed process that found no room.
	LostRanges = "nvtx_ranges"
	// LostTorchMemory is the cause of blocks of PyTorch's allocator for which the kernel's buffer had no room.
	LostTorchMemory = "torch_memory"
	// states and samples of threads: the buffer of the kernel's was full; the time is not known
	LostThreadStates    = "thread_states"
	LostFunctionRate    = "function_rate"    // functions of any library: they were called more often than is recorded
	LostFunctionNesting = "function_nesting" // functions of any library: nested too deeply
	LostFunctionBuffer  = "function_buffer"  // entries and returns of such functions: the call buffers were full
	// samples of a GPU's metrics: a buffer of the sampler or of the GPU was full; the count follows from the time
	LostGPUMetrics = "gpu_metrics"
	LostLogWrite   = "log_write" // any record: the log could not be written
	// texts: the string table was full, or the text too long for it or for the injected library
	LostStrings = "strings"
	LostTime    = "impossible_time" // any record: a reader refused it, its time is beyond 2^63 ns
)

// LostCauses lists every cause, in the order in which a summary names them.
var LostCauses = []string{
	LostCallBuffer, LostThreadTable, LostNesting,
	LostCUPTIQueue, LostCUPTIDropped, LostCUPTIBuffer, LostCUPTITime, LostCUPTIClock,
	LostCUPTIName, LostCUPTIUnreadable, LostCUPTIUnfinished, LostPython, LostOperators, LostOperatorSpans,
	LostMemoryCalls, LostRanges, LostTorchMemory, LostThreadStates, LostFunctionRate, LostFunctionNesting,
	LostFunctionBuffer, LostGPUMetrics, LostLogWrite,
	LostStrings, LostTime,
}
