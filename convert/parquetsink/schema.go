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
	startColumn  = whole(sorted, "", "when it began: ns since 1970, UTC. Without a reading of the wall clock in the log: ns of CLOCK_MONOTONIC")
	pidColumn    = small("pid", "", "the process, as its host numbers it")
	tidColumn    = small("tid", "", "the thread, as its host numbers it")
	threadColumn = text("thread", "not known", "the thread's name")
	callerColumn = text("caller", "not known", "where the call was made: library, function and offset")
	rangesColumn = text("nvtx", "no range was open", "the NVTX ranges that were open on the thread when the call began, the outermost first, separated by ` | `")
	gpuColumn    = small("gpu", "", "the GPU: see `devices`")
	logColumn    = text("log_id", "", "the log: the name of the file, without suffix")
	stackColumn  = small("stack_id", "no Python frames are known", "the [Python stack](calls.md#python-lines) of the call: see `stacks`")
	workColumn   = whole("work_id", "", "number of the piece of work, the key of `arrows` and `collectives` among files of one name")
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
	workTable: {"work", "A row for each kernel, copy, memory set and graph on a GPU.", []Column{
		startColumn,
		whole("dur_ns", "CUPTI gave no times", "its duration"),
		workColumn,
		text("kind", "", "`kernel`, `memcpy`, `memset`, or `graph`: a graph whose nodes were not recorded one by one"),
		text("name", "", "the name in `stats`: of a kernel demangled, without parameters; of a copy its direction, `HtoD`; `Memset`; `Graph 3`"),
		text("signature", "no kernel", "the kernel's demangled name with return type and parameters, which tell overloads apart"),
		pidColumn, gpuColumn,
		small("context", "", "the CUDA context"),
		small("stream", "", "the stream"),
		small("correlation", "there is none", "CUPTI's correlation ID"),
		small("graph", "no graph launched it", "the graph that launched it"),
		text("call", "not known", "the function whose call caused it. The next six columns are null without it"),
		small("tid", "the call is not known", "the thread of the call, as its host numbers it"),
		whole("call_ns", "the call is not known", "duration of the call"),
		whole("queue_ns", "the call is not known", "time from the return of the call to the start of the work; 0 where the work started earlier"),
		callerColumn, rangesColumn, stackColumn,
		text("grid", "no kernel", "number of blocks: `256x1x1`"),
		text("block", "no kernel", "threads in a block: `128x1x1`"),
		small("grid_x", "no kernel", "number of blocks along x"),
		small("grid_y", "no kernel", "along y"),
		small("grid_z", "no kernel", "along z"),
		small("block_x", "no kernel", "threads in a block along x"),
		small("block_y", "no kernel", "along y"),
		small("block_z", "no kernel", "along z"),
		{Name: "occupancy", Type: parquet.Float, Null: "no kernel, or not enough is known of the GPU", Meaning: "theoretical occupancy: the part of the warps of a multiprocessor that its blocks fill, 0 to 1"},
		small("registers", "no kernel", "registers a thread"),
		whole("shared_bytes", "no kernel", "shared memory of a block, static and dynamic"),
		whole("bytes", "no copy or set", "bytes copied or set"),
		text("src_kind", "no copy", "kind of memory that was read: `Pageable`, `Pinned`, `Device`, `Array`, `Managed`, `DeviceStatic`, `ManagedStatic`, `unknown`"),
		text("dst_kind", "no copy", "kind of memory that was written"),
		flag("unfinished", "", "it had not ended when recording ended: `dur_ns` leads to that moment"),
		logColumn,
	}},
	callTable: {"calls", "A row for each CUDA call. A driver call within a runtime call is a row too, where it was recorded.", []Column{
		startColumn,
		whole("dur_ns", "it had not returned when recording ended", "its duration"),
		whole("call_id", "", "number of the call, the key of `arrows` among files of one name"),
		text("name", "", "the function"),
		text("library", "not known", "`runtime` or `driver`"),
		pidColumn, tidColumn,
		small("depth", "", "number of calls around it"),
		small("correlation", "there is none", "CUPTI's correlation ID"),
		small("stream", "no work, or none that was recorded", "stream of the GPU work that it caused"),
		whole("result", "it had not returned, or was left without returning", "its result: a CUresult or a cudaError_t"),
		text("error", "it succeeded", "CUDA's name of the error"),
		flag("failed", "", "it returned an error, as `stats` counts: `not ready` and `deinitialized` are no failures"),
		callerColumn, rangesColumn, stackColumn,
		logColumn,
	}},
	arrowTable: {"arrows", "A row for each arrow of the trace: from a call to the work that it caused, and from work to a call that waited for it.", []Column{
		startColumn,
		text("kind", "", "`launch`, which starts at the call; or `wait`, which starts where the work ends"),
		whole("call_id", "", "the call"),
		whole("work_id", "", "the piece of work"),
		pidColumn, tidColumn,
		logColumn,
	}},
	nvtxTable: {"nvtx", "A row for each NVTX range and mark.", []Column{
		startColumn,
		whole("dur_ns", "a mark, or it had not ended when recording did", "its duration"),
		text("name", "", "its name"),
		text("domain", "the default domain", "its domain"),
		text("kind", "", "`range` or `mark`"),
		pidColumn,
		small("tid", "it belongs to no thread", "the thread on which it began, as its host numbers it"),
		rangesColumn,
		logColumn,
	}},
	collectiveTable: {"collectives", "A row for each kernel of NCCL and NVSHMEM; it is in `work`, too.", []Column{
		startColumn,
		whole("dur_ns", "CUPTI gave no times", "its duration"),
		workColumn,
		text("name", "", "the kernel"),
		text("operation", "not in the name", "`AllReduce`, `AllGather`, `ReduceScatter`, `Broadcast`, `Reduce`, `SendRecv` and so on, as the kernel's name tells it"),
		text("variant", "not in the name", "what the kernel's name tells of reduction, type, algorithm and protocol: `Sum_f32_RING_LL`"),
		pidColumn, gpuColumn,
		small("stream", "", "the stream"),
		whole("sequence", "", "its number among the rows of its stream in this log, from 1: the same on all ranks that run the same collectives on the stream from the start"),
		text("communicator", "not known", "the hash of its communicator in hexadecimal, the same on all ranks; see [NVTX](nvtx.md#nccl)"),
		whole("bytes", "not known", "elements times the size of one, as the call has them; the sum where one kernel is that of several calls"),
		rangesColumn,
		logColumn,
	}},
	counterTable: {"counters", "A row for each value of a sampled metric, and for each change of a memory counter.", []Column{
		startColumn,
		whole("dur_ns", "a memory counter: the value holds until the next one", "the time that the value stands for"),
		text("name", "", "the metric, as in `stats`; or the memory counter"),
		text("metric", "a memory counter", "the name that its source gives the metric"),
		text("source", "a memory counter", "`nvml`, `gpm`, `pm` or `host`"),
		text("unit", "", "`%`, `B`, `B/s`, `Hz`, `W`, `°C`, `count`, `/s`, `ns` or `bits`"),
		small("gpu", "it is not of a GPU", "the GPU"),
		small("pid", "it is of the whole GPU", "the process, as its host numbers it"),
		{Name: "value", Type: parquet.Float, Meaning: "the value"},
		logColumn,
	}},
	processTable: {"processes", "A row for each program that used CUDA.", []Column{
		whole(sorted, "not known", "when the recorder first saw it, as in `work`"),
		whole("dur_ns", "not known", "the time from there to its end"),
		pidColumn,
		small("ppid", "", "its parent"),
		text("name", "", "its program"),
		text("args", "not known", "the command line, separated by blanks"),
		text("cwd", "not known", "the folder that it worked in"),
		text("exit", "not known", "how it ended: `exit code 0`, `signal 11 (SIGSEGV)`"),
		small("local_rank", "no rank", "the rank among those of its host"),
		small("world_size", "not known", "number of ranks"),
		text("cuda_runtime", "not known", "version of the CUDA runtime"),
		text("nccl", "not known", "version of NCCL"),
		text("environment", "", "the environment variables that are recorded, a JSON object"),
		logColumn,
	}},
	deviceTable: {"devices", "A row for each GPU that a process used, or whose metrics were sampled.", []Column{
		gpuColumn,
		small("pid", "", "the process that used it, as its host numbers it; of a GPU that was only sampled 0"),
		small("device", "the GPU was only sampled", "the process's number of the GPU"),
		text("uuid", "not known", "32 hexadecimal digits"),
		text("name", "not known", "the product"),
		text("compute_capability", "not known", "`9.0`"),
		small("multiprocessors", "not known", "their number"),
		whole("memory_bytes", "not known", "size of the memory"),
		whole("memory_bandwidth_kBps", "not known", "bandwidth of the memory"),
		whole("clock_kHz", "not known", "highest clock rate of the multiprocessors"),
		text("pci", "not known", "the PCI address"),
		logColumn,
	}},
	runTable: {"runs", "A row for each log, in the partition of each rank that it has.", []Column{
		startColumn,
		whole("dur_ns", "", "the time from the first event to the last, of the whole log"),
		{Name: "start", Type: parquet.Time, Meaning: "when it began, to the microsecond"},
		small("schema_version", "", "version of this schema"),
		text("log", "", "the log"),
		text("program", "not known", "the program"),
		text("args", "not known", "its command line, separated by blanks"),
		text("hostname", "not known", "the host's name, as it is"),
		text("git_revision", "not known", "commit of the working folder"),
		text("git_branch", "not known", "its branch"),
		text("git_remote", "not known", "URL of its origin"),
		text("nvidia_driver", "not known", "release of NVIDIA's driver"),
		text("driver_version", "not known", "the CUDA version that the driver supports"),
		text("cupti_version", "not known", "version of libcupti"),
		text("kernel", "not known", "the Linux release"),
		text("cudatrace", "not known", "version of the recorder"),
		text("options", "none", "options of the recording"),
		text("environment", "", "the environment variables of the recorder that are recorded, a JSON object"),
		whole("exit_status", "not known", "of the program"),
		flag("complete", "", "nothing is known to be missing"),
		text("reasons", "it is complete", "why it is not complete, separated by ` | `"),
		whole("lost", "", "records that were lost"),
		logColumn,
	}},
	stackTable: {"stacks", "A row for each Python stack of calls, of samples and of blocked threads: its innermost frame, with the stack that called it.", []Column{
		small("stack_id", "", "number of the stack, the key of the tables that have `stack_id`, among files of one name"),
		small("parent_id", "the outermost frame", "the stack without the frame"),
		small("depth", "", "number of frames around it"),
		text("python", "", "the line that traces show for the stack: of the innermost frame outside the folders of the interpreter and of packages"),
		text("file", "unknown, or the frame stands for others", "the file, as the program names it"),
		text("function", "", "the function, or what the frame stands for"),
		small("first_line", "unknown", "first line of the function"),
		small("line", "unknown", "the line"),
		logColumn,
	}},
	allocationTable: {"allocations", "A row for each allocation of memory.", []Column{
		startColumn,
		whole("dur_ns", "not freed, or not known", "the time until it was freed"),
		flag("unfreed", "", "it was not freed before recording ended"),
		whole("bytes", "", "its size"),
		text("memory", "", "kind of memory: `Device`, `Pinned`, `Managed` and so on"),
		text("address", "", "its address, in hexadecimal"),
		pidColumn,
		small("tid", "not known", "the thread that allocated it, as its host numbers it"),
		small("gpu", "memory of the host", "the GPU: see `devices`"),
		small("correlation", "there is none", "CUPTI's correlation ID of the call"),
		text("call", "not known", "the function whose call allocated it"),
		callerColumn, stackColumn,
		logColumn,
	}},
	stateTable: {"thread_states", "A row for each [state](threads.md) of a thread that made CUDA calls.", []Column{
		startColumn,
		whole("dur_ns", "", "its duration"),
		pidColumn, tidColumn, threadColumn,
		text("state", "", "`running`; `runnable`: ready to run, without a processor; `blocked`"),
		small("cpu", "", "the processor on which it ran, or had run last"),
		text("why", "not blocked, or not known", "what `stats` says of it: `blocked in poll on a pipe`"),
		text("call", "not blocked, or not known", "the system call; `page fault`, `stopped`"),
		text("waits_on", "not known", "what it waited for: `pipe`, `socket`, `file` and so on; `lock`, `GIL`, `thread`"),
		small("holder_tid", "not known", "the thread that had the lock, or whose end it waited for, as its host numbers it"),
		small("stack_id", "no Python frames are known", "its Python stack: see `stacks`"),
		logColumn,
	}},
	threadSampleTable: {"thread_samples", "A row for each sample of what a thread ran.", []Column{
		whole(sorted, "", "when it was taken, as in `work`"),
		whole("period_ns", "not known", "time for which the thread ran from one sample to the next"),
		pidColumn, tidColumn, threadColumn,
		text("place", "", "`program`; or where in the kernel it was: `system call`, `page fault or interrupt`, `kernel` if that is not known"),
		small("native_id", "no native frames are known", "its native stack: see `native_stacks`"),
		small("stack_id", "no Python frames are known", "its Python stack: see `stacks`"),
		flag("unread", "", "it may have had Python frames, which could not be read"),
		logColumn,
	}},
	nativeTable: {"native_stacks", "A row for each native stack of samples: its innermost frame, with the stack that called it.", []Column{
		small("native_id", "", "number of the stack, the key of `thread_samples` among files of one name"),
		small("parent_id", "the outermost frame", "the stack without the frame"),
		small("depth", "", "number of frames around it"),
		text("module", "code of no file", "path of the program or the library"),
		text("function", "not known", "the function, demangled, without parameters"),
		text("frame", "", "the frame as `stats` shows it: `libtorch_cpu.so: at::add`"),
		logColumn,
	}},
	stepTable: {"steps", "A row for each [step](stats.md#what-is-a-step) of a process.", []Column{
		startColumn,
		whole("dur_ns", "", "its duration"),
		text("name", "", "the kind of step: the name of the ranges without the number, `profiled`, or `step`"),
		whole("number", "", "its number"),
		text("source", "", "`NVTX`, `cudaProfilerStart`, or the stream on which the launches repeat"),
		text("confidence", "", "`certain` for ranges and profiled parts, `likely` for launches"),
		pidColumn,
		flag("starting", "", "it began in the [start-up](findings.md#start-up-and-steady-state), and later ones of its kind did not: `step_kinds` leaves it out"),
		whole("compute_ns", "not known", "time in which the GPUs of the process computed"),
		whole("exposed_ns", "not known", "in which they communicated without computing"),
		whole("copy_ns", "not known", "in which they copied or set memory and did nothing else"),
		whole("idle_ns", "not known", "in which they did nothing"),
		logColumn,
	}},
	findingTable: {"findings", "A row for each [finding](findings.md), with the default thresholds.", []Column{
		whole(sorted, "", "its first moment, as in `work`"),
		whole("last_unix_ns", "", "its last moment"),
		whole("place", "", "its place in the order of `stats`, from 1 on, among the findings of a conversion"),
		text("name", "", "the kind: `gaps`, `pageable_copies` and so on"),
		text("title", "", "the finding, for people"),
		text("confidence", "", "`certain`, or `likely`"),
		pidColumn,
		small("gpu", "it is not one of a single GPU", "the GPU: see `devices`"),
		whole("cost_ns", "no time is known", "the time that it costs"),
		{Name: "share", Type: parquet.Float, Null: "no time is known, and `startup`", Meaning: "the part of the steady state that it costs"},
		whole("count", "", "how many times"),
		text("evidence", "", "the evidence, for people"),
		text("try", "", "the remedy, for people"),
		text("query", "", "the command that shows it, with `LOG` for the logs"),
		logColumn,
	}},
	functionTable: {"library_functions", "A row for each call of a [function of any library](probes.md), CUDA's left out.", []Column{
		startColumn,
		whole("dur_ns", "it was left without returning, had not returned when recording ended, or only its entry is recorded", "its duration"),
		text("name", "", "the function, demangled, without parameters"),
		text("library", "", "name of the file that has it"),
		pidColumn, tidColumn,
		small("depth", "", "number of such functions around it"),
		whole("arg0", "not recorded", "its first argument: the whole register, of which a smaller type has but a part"),
		whole("arg1", "not recorded", "the second one"),
		whole("arg2", "not recorded", "the third one"),
		whole("arg3", "not recorded", "the fourth one"),
		whole("arg4", "not recorded", "the fifth one"),
		whole("arg5", "not recorded", "the sixth one"),
		whole("returns", "it did not return, or only its entry is recorded", "the returned value: the whole register"),
		logColumn,
	}},
}
