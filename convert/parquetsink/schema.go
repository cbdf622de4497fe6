package parquetsink

import "github.com/cudatrace/cudatrace/parquet"

// Version is the version of the schema, in the metadata of each file and in the table runs. It grows when a column
// changes its meaning or disappears; new tables and columns do not change it.
const Version = 1

// A Table is a table of the schema.
type Table struct {
	Name    string
	Meaning string
	Columns []Column
}

// A Column is a column of a table, with its meaning for people.
type Column struct {
	Name    string
	Type    parquet.Type
	Null    string // when it is null; "" for never
	Meaning string

	small bool // its numbers have at most 32 bits
}

// sorted is the column by which the rows of a row group are sorted, in tables that have it.
const sorted = "start_unix_ns"

// Numbers of the tables.
const (
	workTable = iota
	callTable
	arrowTable
	nvtxTable
	collectiveTable
	counterTable
	processTable
	deviceTable
	runTable
	stackTable
	allocationTable
	stateTable
	threadSampleTable
	nativeTable
	stepTable
	findingTable
	functionTable
	tables
)

// Columns that several tables have.
var (
	startColumn  = whole(sorted, "", "start")
	pidColumn    = small("pid", "", "process")
	tidColumn    = small("tid", "", "thread")
	threadColumn = text("thread", "not known", "its name")
	callerColumn = text("caller", "not known", "what made the call: library, function and offset")
	rangesColumn = text("nvtx", "no range was open", "NVTX ranges open at the call, the outermost first, separated by ` | `")
	gpuColumn    = small("gpu", "", "GPU: see `devices`")
	logColumn    = text("log_id", "", "log")
	stackColumn  = small("stack_id", "not known", "[Python stack](calls.md#python-lines) of the call: see `stacks`")
	workColumn   = whole("work_id", "", "key of the work in `arrows` and `collectives`")
)

func whole(name, null, meaning string) Column {
	return Column{Name: name, Type: parquet.Int, Null: null, Meaning: meaning}
}

func small(name, null, meaning string) Column {
	return Column{Name: name, Type: parquet.Int, Null: null, Meaning: meaning, small: true}
}

func text(name, null, meaning string) Column {
	return Column{Name: name, Type: parquet.Text, Null: null, Meaning: meaning}
}

func flag(name, null, meaning string) Column {
	return Column{Name: name, Type: parquet.Bool, Null: null, Meaning: meaning}
}

// Tables is the schema. A row is filled in the order of its columns.
var Tables = [tables]Table{
	workTable: {"work", "Each kernel, copy and memory set on a GPU.", []Column{
		startColumn,
		whole("dur_ns", "CUPTI gave no times", "duration"),
		workColumn,
		text("kind", "", "`kernel`, `memcpy` or `memset`"),
		text("name", "", "name in `stats`: demangled kernel without parameters, direction of a copy (`HtoD`), `Memset`"),
		text("signature", "no kernel", "the kernel's demangled name with return type and parameters"),
		pidColumn, gpuColumn,
		small("context", "", "CUDA context"),
		small("stream", "", "stream"),
		small("correlation", "none", "CUPTI's correlation ID"),
		small("graph", "none", "CUDA graph that launched it"),
		text("call", "not known", "function whose call caused it; without it `tid`, `caller`, `nvtx`, `stack_id` and the times of the call are null, too"),
		small("tid", "not known", "thread of the call"),
		whole("call_ns", "not known", "duration of the call"),
		whole("queue_ns", "not known", "time from the return of the call to the start of the work; 0 where it started earlier"),
		callerColumn, rangesColumn, stackColumn,
		text("grid", "no kernel", "blocks: `256x1x1`"),
		text("block", "no kernel", "threads in a block: `128x1x1`"),
		small("grid_x", "no kernel", "blocks along each axis"),
		small("grid_y", "no kernel", "blocks along each axis"),
		small("grid_z", "no kernel", "blocks along each axis"),
		small("block_x", "no kernel", "threads in a block along each axis"),
		small("block_y", "no kernel", "threads in a block along each axis"),
		small("block_z", "no kernel", "threads in a block along each axis"),
		{Name: "occupancy", Type: parquet.Float, Null: "no kernel, or not known", Meaning: "theoretical occupancy, 0 to 1"},
		small("registers", "no kernel", "registers a thread"),
		whole("shared_bytes", "no kernel", "shared memory of a block"),
		whole("bytes", "no copy or set", "bytes copied or set"),
		text("src_kind", "no copy", "memory that was read: `Pageable`, `Pinned`, `Device`, `Array`, `Managed`, `DeviceStatic`, `ManagedStatic`, `unknown`"),
		text("dst_kind", "no copy", "memory that was written"),
		flag("unfinished", "", "still running when recording ended; `dur_ns` is cut there"),
		logColumn,
	}},
	callTable: {"calls", "Each CUDA call, also a recorded driver call within a runtime call.", []Column{
		startColumn,
		whole("dur_ns", "it had not returned", "duration"),
		whole("call_id", "", "key of the call in `arrows`"),
		text("name", "", "function"),
		text("library", "not known", "`runtime` or `driver`"),
		pidColumn, tidColumn,
		small("depth", "", "calls around it"),
		small("correlation", "none", "CUPTI's correlation ID"),
		small("stream", "no recorded work", "stream of the GPU work that it caused"),
		whole("result", "it did not return", "CUresult or cudaError_t"),
		text("error", "it succeeded", "CUDA's name of the error"),
		flag("failed", "", "it returned an error other than `not ready` and `deinitialized`"),
		callerColumn, rangesColumn, stackColumn,
		logColumn,
	}},
	arrowTable: {"arrows", "Each arrow of the trace.", []Column{
		startColumn,
		text("kind", "", "`launch`, from a call to its work; or `wait`, from the end of work to a call that waited for it"),
		whole("call_id", "", "call"),
		whole("work_id", "", "work"),
		pidColumn, tidColumn,
		logColumn,
	}},
	nvtxTable: {"nvtx", "Each NVTX range and mark.", []Column{
		startColumn,
		whole("dur_ns", "a mark, or it had not ended", "duration"),
		text("name", "", "name"),
		text("domain", "the default domain", "domain"),
		text("kind", "", "`range` or `mark`"),
		pidColumn,
		small("tid", "it belongs to no thread", "thread on which it began"),
		rangesColumn,
		logColumn,
	}},
	collectiveTable: {"collectives", "Each kernel of NCCL and NVSHMEM; they are in `work`, too.", []Column{
		startColumn,
		whole("dur_ns", "CUPTI gave no times", "duration"),
		workColumn,
		text("name", "", "kernel"),
		text("operation", "not in the name", "`AllReduce`, `AllGather`, `ReduceScatter`, `Broadcast`, `Reduce`, `SendRecv` and so on"),
		text("variant", "not in the name", "reduction, type, algorithm and protocol: `Sum_f32_RING_LL`"),
		pidColumn, gpuColumn,
		small("stream", "", "stream"),
		whole("sequence", "", "its number on its stream, from 1: equal on all ranks that run the same collectives on the stream from the start"),
		text("communicator", "not known", "[hash of its communicator](nvtx.md#nccl), the same on all ranks"),
		whole("bytes", "not known", "elements times the size of one; the sum where several calls share the kernel"),
		rangesColumn,
		logColumn,
	}},
	counterTable: {"counters", "Each value of a sampled metric, and each change of a memory counter.", []Column{
		startColumn,
		whole("dur_ns", "a memory counter: it holds until the next value", "time that the value stands for"),
		text("name", "", "metric, as in `stats`, or memory counter"),
		text("metric", "a memory counter", "the source's name for it"),
		text("source", "a memory counter", "`nvml`, `gpm`, `pm` or `host`"),
		text("unit", "", "`%`, `B`, `B/s`, `Hz`, `W`, `°C`, `count`, `/s`, `ns` or `bits`"),
		small("gpu", "not of a GPU", "GPU"),
		small("pid", "of the whole GPU", "process"),
		{Name: "value", Type: parquet.Float, Meaning: "value"},
		logColumn,
	}},
	processTable: {"processes", "Each program that used CUDA.", []Column{
		whole(sorted, "not known", "when the recorder first saw it"),
		whole("dur_ns", "not known", "time from there to its end"),
		pidColumn,
		small("ppid", "", "parent process"),
		text("name", "", "program"),
		text("args", "not known", "command line, separated by blanks"),
		text("cwd", "not known", "working folder"),
		text("exit", "not known", "how it ended: `exit code 0`, `signal 11 (SIGSEGV)`"),
		small("local_rank", "no rank", "rank among those of its host"),
		small("world_size", "not known", "number of ranks"),
		text("cuda_runtime", "not known", "version of the CUDA runtime"),
		text("nccl", "not known", "version of NCCL"),
		text("environment", "", "[recorded environment variables](metadata.md#environment-variables), a JSON object"),
		logColumn,
	}},
	deviceTable: {"devices", "Each GPU that a process used, or whose metrics were sampled.", []Column{
		gpuColumn,
		small("pid", "", "process that used it; 0 of a GPU that was only sampled"),
		small("device", "only sampled", "the process's number of the GPU"),
		text("uuid", "not known", "32 hexadecimal digits"),
		text("name", "not known", "product"),
		text("compute_capability", "not known", "`9.0`"),
		small("multiprocessors", "not known", "number of them"),
		whole("memory_bytes", "not known", "memory size"),
		whole("memory_bandwidth_kBps", "not known", "memory bandwidth"),
		whole("clock_kHz", "not known", "highest SM clock"),
		text("pci", "not known", "PCI address"),
		logColumn,
	}},
	runTable: {"runs", "Each log, in the partition of each of its ranks.", []Column{
		startColumn,
		whole("dur_ns", "", "time from the first event of the log to the last"),
		{Name: "start", Type: parquet.Time, Meaning: "start, to the microsecond"},
		small("schema_version", "", "version of this schema"),
		text("log", "", "log"),
		text("program", "not known", "program"),
		text("args", "not known", "command line, separated by blanks"),
		text("hostname", "not known", "host name as it is"),
		text("git_revision", "not known", "commit of the working folder"),
		text("git_branch", "not known", "branch"),
		text("git_remote", "not known", "URL of `origin`"),
		text("nvidia_driver", "not known", "release of NVIDIA's driver"),
		text("driver_version", "not known", "CUDA version that the driver supports"),
		text("cupti_version", "not known", "version of libcupti"),
		text("kernel", "not known", "Linux release"),
		text("cudatrace", "not known", "version of the recorder"),
		text("options", "none", "options of the recording"),
		text("environment", "", "recorded environment variables of the recorder, a JSON object"),
		whole("exit_status", "not known", "exit status of the program"),
		flag("complete", "", "nothing is known to be missing"),
		text("reasons", "it is complete", "why it is not complete, separated by ` | `"),
		whole("lost", "", "records that were lost"),
		logColumn,
	}},
	stackTable: {"stacks", "Each Python stack of calls, samples and blocked threads: its innermost frame, with the stack that called it.", []Column{
		small("stack_id", "", "key of the stack in other tables"),
		small("parent_id", "the outermost frame", "stack without the frame"),
		small("depth", "", "frames around it"),
		text("python", "", "line shown for the stack: of the innermost frame outside the interpreter and packages"),
		text("file", "unknown, or the frame stands for others", "file, as the program names it"),
		text("function", "", "function, or what the frame stands for"),
		small("first_line", "unknown", "first line of the function"),
		small("line", "unknown", "line"),
		logColumn,
	}},
	allocationTable: {"allocations", "Each allocation of memory.", []Column{
		startColumn,
		whole("dur_ns", "not freed, or not known", "time until it was freed"),
		flag("unfreed", "", "not freed before recording ended"),
		whole("bytes", "", "size"),
		text("memory", "", "`Device`, `Pinned`, `Managed` and so on"),
		text("address", "", "address, in hexadecimal"),
		pidColumn,
		small("tid", "not known", "thread that allocated it"),
		small("gpu", "host memory", "GPU: see `devices`"),
		small("correlation", "none", "CUPTI's correlation ID of the call"),
		text("call", "not known", "function whose call allocated it"),
		callerColumn, stackColumn,
		logColumn,
	}},
	stateTable: {"thread_states", "Each [state](threads.md) of a thread that made CUDA calls.", []Column{
		startColumn,
		whole("dur_ns", "", "duration"),
		pidColumn, tidColumn, threadColumn,
		text("state", "", "`running`, `runnable` (without a processor), `blocked`"),
		small("cpu", "", "processor on which it ran, or had run last"),
		text("why", "not blocked, or not known", "as in `stats`: `blocked in poll on a pipe`"),
		text("call", "not blocked, or not known", "system call; `page fault`, `stopped`"),
		text("waits_on", "not known", "what it waited for: `pipe`, `socket`, `file` and so on; `lock`, `GIL`, `thread`"),
		small("holder_tid", "not known", "thread that had the lock, or whose end it waited for"),
		small("stack_id", "not known", "Python stack: see `stacks`"),
		logColumn,
	}},
	threadSampleTable: {"thread_samples", "Each sample of what a thread ran.", []Column{
		whole(sorted, "", "when it was taken"),
		whole("period_ns", "not known", "time for which the thread ran from one sample to the next"),
		pidColumn, tidColumn, threadColumn,
		text("place", "", "`program`, or in the kernel: `system call`, `page fault or interrupt`, `kernel`"),
		small("native_id", "not known", "native stack: see `native_stacks`"),
		small("stack_id", "not known", "Python stack: see `stacks`"),
		flag("unread", "", "it may have had Python frames that could not be read"),
		logColumn,
	}},
	nativeTable: {"native_stacks", "Each native stack of samples, as `stacks`.", []Column{
		small("native_id", "", "key of the stack in `thread_samples`"),
		small("parent_id", "the outermost frame", "stack without the frame"),
		small("depth", "", "frames around it"),
		text("module", "code of no file", "path of the program or library"),
		text("function", "not known", "function, demangled, without parameters"),
		text("frame", "", "as in `stats`: `libtorch_cpu.so: at::add`"),
		logColumn,
	}},
	stepTable: {"steps", "Each [step](stats.md#what-is-a-step) of a process.", []Column{
		startColumn,
		whole("dur_ns", "", "duration"),
		text("name", "", "kind of step: name of the ranges without the number, `profiled`, or `step`"),
		whole("number", "", "number"),
		text("source", "", "`NVTX`, `cudaProfilerStart`, or the stream whose launches repeat"),
		text("confidence", "", "`certain` for ranges and profiled parts, `likely` for launches"),
		pidColumn,
		flag("starting", "", "it began in the [start-up](findings.md#start-up-and-steady-state) and later ones did not: `step_kinds` leaves it out"),
		whole("compute_ns", "not known", "time in which the process's GPUs computed"),
		whole("exposed_ns", "not known", "communicated without computing"),
		whole("copy_ns", "not known", "only copied or set memory"),
		whole("idle_ns", "not known", "did nothing"),
		logColumn,
	}},
	findingTable: {"findings", "Each [finding](findings.md), with the default thresholds.", []Column{
		whole(sorted, "", "first moment"),
		whole("last_unix_ns", "", "last moment"),
		whole("place", "", "place in the order of `stats`, from 1, within a conversion"),
		text("name", "", "kind: `gaps`, `pageable_copies` and so on"),
		text("title", "", "finding, as text"),
		text("confidence", "", "`certain` or `likely`"),
		pidColumn,
		small("gpu", "not of a single GPU", "GPU: see `devices`"),
		whole("cost_ns", "not known", "time that it costs"),
		{Name: "share", Type: parquet.Float, Null: "not known, and `startup`", Meaning: "part of the steady state that it costs"},
		whole("count", "", "how many times"),
		text("evidence", "", "evidence, as text"),
		text("try", "", "remedy, as text"),
		text("query", "", "command that shows it, with `LOG` for the logs"),
		logColumn,
	}},
	functionTable: {"library_functions", "Each call of a [function of any library](probes.md), CUDA's left out.", []Column{
		startColumn,
		whole("dur_ns", "it did not return, or only its entry is recorded", "duration"),
		text("name", "", "function, demangled, without parameters"),
		text("library", "", "file that has it"),
		pidColumn, tidColumn,
		small("depth", "", "such functions around it"),
		whole("arg0", "not recorded", "first to sixth argument: whole registers, of which a smaller type has but a part"),
		whole("arg1", "not recorded", "first to sixth argument: whole registers, of which a smaller type has but a part"),
		whole("arg2", "not recorded", "first to sixth argument: whole registers, of which a smaller type has but a part"),
		whole("arg3", "not recorded", "first to sixth argument: whole registers, of which a smaller type has but a part"),
		whole("arg4", "not recorded", "first to sixth argument: whole registers, of which a smaller type has but a part"),
		whole("arg5", "not recorded", "first to sixth argument: whole registers, of which a smaller type has but a part"),
		whole("returns", "it did not return, or only its entry is recorded", "returned value: the whole register"),
		logColumn,
	}},
}
