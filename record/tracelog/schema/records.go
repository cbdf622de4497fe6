package schema

import "fmt"

// field is a field of a table, with what is special about it.
func field(name string, t Type, meaning string, special ...func(*Field)) Field {
	f := Field{Name: name, Type: t, Meaning: meaning}
	for _, s := range special {
		s(&f)
	}
	return f
}

func key(f *Field)      { f.Key = true }
func optional(f *Field) { f.Optional = true }
func wide(f *Field)     { f.Wide = true }
func counts(f *Field)   { f.Counts = true }

func unsent(f *Field)  { f.Wire = Unsent }
func behind(f *Field)  { f.Wire = Behind }
func asBytes(f *Field) { f.Wire = Bytes }
func chain(f *Field)   { f.Wire = Chain }

func pythonFrames(f *Field) { f.Wire = PythonFrames }

func operatorStack(f *Field) { f.Wire = OperatorStack }

func member(name string) func(*Field)  { return func(f *Field) { f.Member = name } }
func comment(text string) func(*Field) { return func(f *Field) { f.Comment = text } }

// gpu is where and when a piece of GPU work ran.
var gpu = Part{Name: "GPU", Doc: "says where and when a piece of GPU work ran. The records of GPU work begin with it.",
	Fields: []Field{
		field("pid", Uint, "process", key),
		field("device", Uint, "device, as the process numbers it"),
		field("context", Uint, "context", key),
		field("stream", Uint, "stream", key),
		field("correlation", Uint, "correlation ID of the API record that caused the work"),
		field("graph", Uint, "graph that launched it, or 0", optional),
		field("graph_node", Uint, "node of that graph, or 0", optional, wide),
		field("start", Time, "start on the device; 0 where CUPTI ran short of device buffer"),
		field("dur", Dur, "time on the device"),
	}}

// and is the fields of a kind that begins with the part.
func (p *Part) and(own ...Field) []Field {
	return append(append([]Field(nil), p.Fields...), own...)
}

// callFields ends with one field for each argument that a call can carry.
func callFields() []Field {
	fields := []Field{
		field("pid", Uint, "process", key),
		field("tid", Uint, "thread", key),
		field("func", Uint, "id of the function record", key, comment("Function.ID")),
		field("flags", Hex, "1: had not returned when recording ended; 2: was left without returning; 4: only its entry "+
			"was recorded, and its API record, if there is one, has end and result",
			optional, unsent, comment("CallUnfinished, CallNoReturn, CallEntry")),
		field("enter", Time, "entry of the function"),
		field("dur", Dur, "time until it returned; 0 with a flag"),
		field("ret", Int, "CUresult or cudaError_t"),
		field("caller", Uint, "id of the caller record, 0 when not known", optional, unsent,
			comment("Caller.ID, 0 when not known")),
		field("nargs", Uint, "number of arguments that follow", member("NArgs"), counts,
			comment("number of recorded arguments")),
	}
	for i := range MaxArgs {
		fields = append(fields, field(fmt.Sprintf("arg%d", i), Hex, fmt.Sprintf("argument %d, 0 from nargs on", i),
			wide, member(fmt.Sprintf("Args[%d]", i)), comment("recorded arguments, 0 from NArgs on")))
	}
	return fields
}

// openCallFields ends with one field for each argument that a call can carry.
func openCallFields() []Field {
	fields := []Field{
		field("pid", Uint, "process"),
		field("tid", Uint, "thread"),
		field("func", Uint, "id of the function record", comment("Function.ID")),
		field("enter", Time, "entry of the function"),
		field("dur", Dur, "time for which it had not returned then"),
		field("caller", Uint, "id of the caller record, 0 when not known", optional, comment("Caller.ID, 0 when not known")),
	}
	for i := range MaxArgs {
		fields = append(fields, field(fmt.Sprintf("arg%d", i), Hex, fmt.Sprintf("argument %d, as that of the call", i),
			optional, wide, member(fmt.Sprintf("Args[%d]", i)), comment("recorded arguments")))
	}
	return append(fields, field("name", String, "of a call that CUPTI records, as that of its api record; func is 0 then",
		optional,
		comment("of a call that CUPTI records, as API.Name; Func is 0 then")))
}

// sampleFields ends with one field for each value that a sample can carry.
func sampleFields() []Field {
	fields := []Field{
		field("set", Uint, "id of the set", key, comment("MetricSet.ID")),
		field("pid", Uint, "process of the set, 0 for a GPU", optional),
		field("start", Time, "beginning of the time that the values cover"),
		field("dur", Dur, "length of that time, 0 for values of a moment"),
		field("nvalues", Uint, "number of values that follow", member("NValues"), counts, comment("number of values")),
	}
	for i := range MaxMetrics {
		fields = append(fields, field(fmt.Sprintf("value%d", i), Uint,
			fmt.Sprintf("stored number of metric %d, 0 where it has no value", i),
			optional, wide, member(fmt.Sprintf("Values[%d]", i)), comment("stored numbers, 0 where a metric has no value")))
	}
	return fields
}

// records is the one description of every kind of record. The numbers 20 and 26 are retired: older logs have CUPTI's
// synchronization records and whole graphs by them. A reader takes these for kinds that it does not know, so no other
// kind ever gets such a number.
var records = []Table{
	{Kind: Strings, Name: "string", Role: Texts, Meaning: "a text and the number by which records name it; not shown in " +
		"the text form", Fields: []Field{
		field("id", Uint, "number of the string, from 1"),
		field("text", Text, "its bytes"),
	}},
	{Kind: 2, Name: "meta", Role: Definition, Meaning: "a fact of the recording", Fields: []Field{
		field("key", String, "what is said", comment("MetaProgram and so on")),
		field("value", String, "the fact"),
	}},
	{Kind: 3, Name: "function", Role: Definition, Meaning: "a traced function",
		Doc: "describes a traced function. A Call or a FunctionEvent names it by ID, which is unique in the log and has no " +
			"meaning outside it.", Fields: []Field{
			field("id", Uint, "number by which calls name it"),
			field("name", String, "symbol without version suffixes of the linker"),
			field("library", String, "runtime or driver; of a function that is none of CUDA's the name of its file"),
			field("args", String, "recorded arguments, name:type separated by spaces"),
		}},
	{Kind: 4, Name: "process", Role: Definition, Meaning: "a process of the recording",
		Doc: "is a process of the recording that initialised CUDA, or the program itself.", Fields: []Field{
			field("pid", Uint, "process"),
			field("ppid", Uint, "its parent"),
			field("start", Time, "when the recorder first saw it"),
			field("exe", String, "path of the program"),
			field("args", String, "arguments joined by NUL"),
			field("cwd", String, "working folder", optional),
			field("environment", String, "chosen variables of its environment, NAME=VALUE joined by NUL", optional),
			field("cudart", String, "version of the CUDA runtime that it had mapped, as far as the name of the file tells it",
				optional),
			field("nccl", String, "version of NCCL, likewise", optional),
		}},
	{Kind: 5, Name: "thread", Role: Definition, Meaning: "a thread's name; a later record renames it",
		Doc: "names a thread. A later record for the same thread renames it.", Fields: []Field{
			field("pid", Uint, "process"),
			field("tid", Uint, "thread"),
			field("name", String, "its name"),
			field("local_tid", Uint, "the thread in the process's own PID namespace, by which CUPTI knows it; 0 where "+
				"that is tid", optional, member("NamespaceTID"),
				comment("the thread in the process's own PID namespace, by which CUPTI knows it; 0 where that is TID")),
		}},
	{Kind: 6, Name: "call", Owner: "tid", Sent: "extras", Meaning: "a call of a traced function, from its pair of " +
		"uprobes or, where there are none, from CUPTI's callbacks",
		Fields: callFields()},
	{Kind: 7, Name: "api", Owner: "tid", Sent: "apis", Meaning: "a CUPTI API record: a call with its correlation ID",
		Doc: "is a CUPTI API record: a runtime or driver call with its correlation ID.", Fields: []Field{
			field("pid", Uint, "process", key),
			field("tid", Uint, "thread", key),
			field("domain", Uint, "1 driver, 2 runtime", key, comment("DomainDriver or DomainRuntime")),
			field("cbid", Uint, "CUPTI callback id", key),
			field("name", String, "CUPTI's name of the callback"),
			field("start", Time, "entry"),
			field("dur", Dur, "time until the return"),
			field("correlation", Uint, "correlation ID"),
			field("ret", Uint, "return value"),
			field("caller", Uint, "id of the caller record, 0 when not known", optional, comment("Caller.ID, 0 when not known"),
				chain),
			field("flags", Hex, "1: had not returned when recording ended, dur is 0", optional, comment("CallUnfinished"),
				unsent),
			field("python", Uint, "id of the python_stack record, 0 when not known", optional,
				comment("PythonStack.ID, 0 when not known"), pythonFrames),
			field("operators", Uint, "id of the operator_stack record, 0 when not known", optional,
				comment("OperatorStack.ID, 0 when not known"), operatorStack),
		}},
	{Kind: 8, Name: "kernel", Owner: "stream", Sent: "kernels", Meaning: "a kernel's execution", Part: &gpu,
		Fields: gpu.and(
			field("name", String, "mangled name"),
			field("grid_x", Uint, "blocks in the grid", member("Grid[0]")),
			field("grid_y", Uint, "", member("Grid[1]")),
			field("grid_z", Uint, "", member("Grid[2]")),
			field("block_x", Uint, "threads in a block", member("Block[0]")),
			field("block_y", Uint, "", member("Block[1]")),
			field("block_z", Uint, "", member("Block[2]")),
			field("cluster_x", Uint, "blocks in a cluster, 0 without clusters", optional, member("Cluster[0]")),
			field("cluster_y", Uint, "", optional, member("Cluster[1]")),
			field("cluster_z", Uint, "", optional, member("Cluster[2]")),
			field("static_shared", Uint, "bytes of static shared memory a block", optional),
			field("dynamic_shared", Uint, "bytes of dynamic shared memory a block", optional),
			field("local_per_thread", Uint, "bytes of local memory a thread", optional),
			field("registers", Uint, "registers a thread", optional),
		)},
	{Kind: 9, Name: "memcpy", Owner: "stream", Sent: "memcpys", Meaning: "a copy, peer copies included", Part: &gpu,
		Fields: gpu.and(
			field("bytes", Uint, "bytes copied", wide),
			field("copy_kind", Uint, "CUpti_ActivityMemcpyKind"),
			field("src_kind", Uint, "CUpti_ActivityMemoryKind"),
			field("dst_kind", Uint, "CUpti_ActivityMemoryKind"),
			field("src_device", Uint, "device of the source", comment("device of the source; Device unless it is a peer copy")),
			field("dst_device", Uint, "device of the destination",
				comment("device of the destination; Device unless it is a peer copy")),
		)},
	{Kind: 10, Name: "memset", Owner: "stream", Sent: "memsets", Meaning: "a fill of device memory", Part: &gpu,
		Fields: gpu.and(
			field("bytes", Uint, "bytes set", wide),
			field("value", Hex, "value set"),
		)},
	{Kind: 11, Name: "device", Sent: "objects", Role: Definition, Meaning: "a GPU, as a process numbers it",
		Fields: []Field{
			field("pid", Uint, "process"),
			field("id", Uint, "device", comment("number of the device in the process")),
			field("name", String, "product name"),
			field("uuid", String, "16 bytes in hexadecimal", asBytes),
			field("major", Uint, "compute capability"),
			field("minor", Uint, ""),
			field("multiprocessors", Uint, "multiprocessors"),
			field("memory", Uint, "bytes of global memory", wide),
			field("bandwidth", Uint, "memory bandwidth in kB/s", wide),
			field("l2_cache", Uint, "bytes of L2 cache", optional),
			field("clock", Uint, "highest clock rate of the multiprocessors in kHz", optional),
			field("copy_engines", Uint, "copy engines", optional),
			field("ecc", Uint, "1 when memory errors are corrected", optional),
			field("warp_size", Uint, "threads in a warp", optional),
			field("max_warps", Uint, "most warps of a multiprocessor", optional),
			field("max_blocks", Uint, "most blocks of a multiprocessor", optional),
			field("max_shared", Uint, "bytes of shared memory of a multiprocessor", optional),
			field("max_registers", Uint, "registers of a multiprocessor", optional),
			field("block_registers", Uint, "most registers of a block", optional),
			field("block_shared", Uint, "most bytes of shared memory of a block that has not opted in to more", optional),
			field("block_threads", Uint, "most threads of a block", optional),
			field("pci", String, "PCI address, empty when not known", optional, unsent),
			field("pcie_generation", Uint, "PCIe generation that the link has, or had when it was read", optional, unsent),
			field("pcie_width", Uint, "lanes of the link", optional, unsent),
			field("pcie_max_generation", Uint, "PCIe generation that both ends of the link have", optional, unsent),
			field("pcie_max_width", Uint, "lanes that both ends have", optional, unsent),
		}},
	{Kind: 12, Name: "context", Sent: "objects", Role: Definition, Meaning: "a CUDA context", Fields: []Field{
		field("pid", Uint, "process"),
		field("id", Uint, "context", comment("number of the context in the process")),
		field("device", Uint, "its device"),
		field("null_stream", Uint, "its default stream"),
	}},
	{Kind: 13, Name: "stream", Sent: "objects", Role: Definition, Meaning: "a CUDA stream", Fields: []Field{
		field("pid", Uint, "process"),
		field("context", Uint, "its context"),
		field("id", Uint, "stream", comment("number of the stream in the context")),
		field("priority", Int, "priority, lower is more urgent"),
		field("flags", Hex, "CUpti_ActivityStreamFlag"),
		field("correlation", Uint, "correlation ID of the call that made the stream; 0 when not known", optional),
	}},
	{Kind: 14, Name: "clock", Role: Definition, Meaning: "the host's clocks, read together", Fields: []Field{
		field("monotonic", Time, "CLOCK_MONOTONIC"),
		field("realtime", Uint, "CLOCK_REALTIME, ns", wide),
		field("boottime", Uint, "CLOCK_BOOTTIME, ns", wide),
		field("spread", Uint, "ns between the first and the last of these readings; 0 when not known", optional, wide),
		field("max_error", Uint, "how far CLOCK_REALTIME is from UTC at most, ns: adjtimex' maxerror; 0 when not known "+
			"(the clock is not synchronized)", optional, wide),
	}},
	{Kind: 15, Name: "cupti", Role: Definition, Meaning: "whether and how CUPTI records a process",
		Doc: "says whether and how CUPTI records a process.", Fields: []Field{
			field("pid", Uint, "process"),
			field("version", Uint, "cuptiGetVersion"),
			field("driver_version", Uint, "cuDriverGetVersion"),
			field("path", String, "path of libcupti"),
			field("status", String, "on, or why there are no activity records",
				comment(`"on", or why there are no activity records`)),
			field("clock_error", Uint, "largest error of a CUPTI time in ns, 0 on the common clock", wide),
		}},
	{Kind: 16, Name: "lost", Role: Statement, Meaning: "records that are missing, by cause",
		Doc: "counts records that are missing from the log, by cause.", Fields: []Field{
			field("pid", Uint, "process, 0 when not known"),
			field("cause", String, "cause", comment("one of LostCauses")),
			field("count", Uint, "number of records", wide),
			field("from", Time, "beginning of the time in which it happened"),
			field("to", Time, "end of that time"),
		}},
	{Kind: 17, Name: "note", Role: Statement, Meaning: "a line that a person should see",
		Doc: "is a line about the recording that a person should see.", Fields: []Field{
			field("time", Time, "when"),
			field("pid", Uint, "process, 0 for the recording"),
			field("severity", Uint, "0 information, 1 warning", comment("NoteInfo or NoteWarning")),
			field("text", String, "the line"),
		}},
	{Kind: 18, Name: "process_end", Role: Statement, Meaning: "a process has ended",
		Doc: "says that a process has ended. The counts are those that its injected library sent last, to be compared with " +
			"the records in the log.", Fields: []Field{
			field("pid", Uint, "process"),
			field("time", Time, "when"),
			field("status", Int, "exit status, 128+N after signal N, -1 when not known"),
			field("complete", Uint, "1 when the last flush of its injected library arrived"),
			field("kernels", Uint, "kernels that its injected library counted", wide),
			field("copies", Uint, "copies", wide),
			field("sets", Uint, "sets", wide),
			field("apis", Uint, "API records", wide),
			field("until", Time, "GPU work is complete up to here, 0 when not known", optional),
			field("reason", String, "exit, _exit, exec or signal N (NAME), empty when not known", optional,
				comment(`"exit", "_exit", "exec", "signal 11 (SIGSEGV)"; "" when not known`)),
		}},
	{Kind: 19, Name: "end", Role: Closing, Meaning: "the last record of a finished log", Fields: []Field{
		field("time", Time, "when recording ended"),
		field("complete", Uint, "1 when nothing is known to be missing"),
		field("reason", String, "why it is not complete"),
	}},
	{Kind: 21, Name: "overhead", Sent: "extras", Meaning: "time that CUPTI or the driver took for itself", Fields: []Field{
		field("pid", Uint, "process", key),
		field("overhead_kind", Hex, "CUpti_ActivityOverheadKind", key),
		field("object_kind", Uint, "CUpti_ActivityObjectKind of where it happened"),
		field("tid", Uint, "thread, where it happened on one", optional),
		field("start", Time, "beginning"),
		field("dur", Dur, "time that it took"),
	}},
	{Kind: 22, Name: "marker", Sent: "extras", Meaning: "an NVTX mark, or the start or the end of an NVTX range",
		Fields: []Field{
			field("pid", Uint, "process", key),
			field("tid", Uint, "thread", key),
			field("flags", Hex, "1: a mark; 2: start of a range; 4: end of a range; 128: of a start, the range began before the "+
				"recording, whose beginning the time is", comment("MarkerInstant, MarkerStart, MarkerEnd, MarkerBefore")),
			field("id", Uint, "number of the range, the same at both ends"),
			field("time", Time, "when"),
			field("name", String, "its name, empty at the end of a range", behind),
			field("domain", String, "NVTX domain, empty for the default"),
		}},
	{Kind: 23, Name: "name", Sent: "objects", Role: Definition,
		Meaning: "what a program calls a thread, a stream, a context or a device through NVTX", Fields: []Field{
			field("pid", Uint, "process"),
			field("object_kind", Uint, "CUpti_ActivityObjectKind: 2 thread, 3 device, 4 context, 5 stream",
				comment("ObjectThread, ObjectDevice, ObjectContext or ObjectStream")),
			field("id", Uint, "number of the thread, device, context or stream"),
			field("context", Uint, "context of a stream", optional),
			field("device", Uint, "device of a context or a stream", optional),
			field("name", String, "its name"),
		}},
	{Kind: 24, Name: "memory", Meaning: "an allocation or a release of memory", Fields: []Field{
		field("pid", Uint, "process", key),
		field("tid", Uint, "thread, 0 where CUPTI does not tell it", optional),
		field("operation", Uint, "CUpti_ActivityMemoryOperationType: 1 allocation, 2 release"),
		field("memory_kind", Uint, "CUpti_ActivityMemoryKind"),
		field("device", Uint, "device"),
		field("context", Uint, "context"),
		field("stream", Uint, "stream of a stream-ordered operation"),
		field("correlation", Uint, "correlation ID of the call"),
		field("async", Uint, "1 for a stream-ordered operation", optional),
		field("time", Time, "when"),
		field("address", Hex, "address of the memory", wide),
		field("bytes", Uint, "bytes", wide),
		field("pool", Hex, "address of the memory pool, 0 without one", optional, wide),
		field("pool_size", Uint, "bytes that the pool had reserved then, 0 where CUPTI does not tell", optional,
			wide),
		field("pool_used", Uint, "bytes of the pool that were allocated then", optional, wide),
	}},
	{Kind: 25, Name: "memory_pool", Sent: "extras",
		Meaning: "the creation, the destruction or the trimming of a memory pool", Fields: []Field{
			field("pid", Uint, "process"),
			field("operation", Uint, "CUpti_ActivityMemoryPoolOperationType: 1 created, 2 destroyed, 3 trimmed"),
			field("pool_kind", Uint, "CUpti_ActivityMemoryPoolType: 1 local, 2 imported"),
			field("device", Uint, "device"),
			field("correlation", Uint, "correlation ID of the call"),
			field("time", Time, "when"),
			field("address", Hex, "address of the pool", wide),
			field("size", Uint, "bytes in the pool", wide),
			field("release_threshold", Uint, "bytes that the pool keeps before it gives memory back", wide),
			field("min_bytes_to_keep", Uint, "bytes that trimming leaves", wide),
			field("used", Uint, "bytes of the pool that were allocated then", optional, wide),
		}},
	{Kind: 27, Name: "symbol", Role: Definition, Meaning: "the name behind a handle that a launch passes",
		Doc: "gives the name behind a handle that a launch passes, as the call that made the handle saw it.", Fields: []Field{
			field("pid", Uint, "process"),
			field("time", Time, "when the call that made the handle returned"),
			field("handle", Hex, "the handle", wide),
			field("of", Hex, "the handle that it was made from where it has no name of its own, otherwise 0", optional, wide),
			field("name", String, "mangled name"),
		}},
	{Kind: 28, Name: "flushed", Role: Watermark, Meaning: "a time up to which every record is in the log",
		Doc: "says that the log is complete up to a time: every record of the process that lies before Until " +
			"is in the log in front of this record, or counted as lost.", Fields: []Field{
			field("pid", Uint, "process whose records are meant; 0: the calls of all processes"),
			field("until", Time, "the time"),
		}},
	{Kind: 29, Name: "caller", Role: Definition, Meaning: "where a call was made",
		Doc: "says where a call was made, as the return addresses on the stack tell. A Call or an API names it by ID, " +
			"which is unique in the log and has no meaning outside it. Records with different IDs may be equal otherwise. A " +
			"call whose ID has no record has no known caller.", Fields: []Field{
			field("id", Uint, "number by which calls name it, from 1"),
			field("function", String, "function of the runtime that the program called, where the call was made inside it; "+
				"empty where the program called the recorded function itself",
				comment(`function of the runtime that the program called: "cudaLaunchKernel" of a call of cuLaunchKernel; "" where the program called the recorded function itself`)),
			field("module", String, "path of the file whose code called, empty when not known"),
			field("build_id", String, "build ID of that file in hexadecimal, empty without one"),
			field("address", Hex, "return address, as the ELF headers of the file count addresses", wide),
			field("symbol", String, "mangled name of the function around that address, empty when the file does not tell"),
			field("symbol_offset", Uint, "bytes from the beginning of that function to the address"),
		}},
	{Kind: 30, Name: "metric_set", Role: Definition, Meaning: "a set of metrics that are sampled together",
		Doc: "describes a set of metrics that are sampled together, of one GPU or of one process. A Sample names it by ID, " +
			"which is unique in the log and has no meaning outside it. Package metriclog writes sets and samples.",
		Fields: []Field{
			field("id", Uint, "number by which metrics and samples name it"),
			field("source", Uint, "who measured: 1 NVML, 2 GPM, 3 PM sampling, 4 the host", comment("a metric.Source")),
			field("pid", Uint, "process whose values they are, 0 for the values of a GPU", optional),
			field("device", Uint, "device, as CUPTI numbers it, 4294967295 where that is not known",
				comment("MetricNoDevice where it is not known")),
			field("uuid", String, "the GPU's UUID, 16 bytes in hexadecimal; empty for a process"),
			field("interval", Uint, "ns from sample to sample, as asked for", wide),
		}},
	{Kind: 31, Name: "metric", Role: Definition, Meaning: "a metric of a set",
		Doc: "describes a metric of a set. Package metric explains how a Sample holds its values.", Fields: []Field{
			field("set", Uint, "id of the set", comment("MetricSet.ID")),
			field("index", Uint, "number of the value in a sample, from 0"),
			field("name", String, "name that its source gives it"),
			field("label", String, "name for people"),
			field("unit", Uint, "1 %, 2 bytes, 3 bytes/s, 4 Hz, 5 W, 6 °C, 7 a number of things, 8 such a number a second, 9 "+
				"ns, 10 bits", comment("a metric.Unit")),
			field("value_kind", Uint, "1 percentage, 2 rate, 3 level, 4 bits", comment("a metric.Kind")),
			field("scale", Uint, "steps of a stored number in a unit", wide),
		}},
	{Kind: 32, Name: "sample", Owner: "set", Meaning: "the values of a set of metrics at one time",
		Doc:    "has the values of a set of metrics over a span of time, as stored numbers (see package metric).",
		Fields: sampleFields()},
	{Kind: 33, Name: "gpu_user", Role: Statement,
		Meaning: "a process outside the recording that had memory on a sampled GPU",
		Doc: "is a process outside the recording that had memory on a sampled GPU. The GPU's values are then not those " +
			"of the recorded program alone: no finding rests on them. A later record for the same GPU and process " +
			"extends its time.", Fields: []Field{
			field("uuid", String, "the GPU's UUID, 16 bytes in hexadecimal"),
			field("user", Uint, "PID of that process, 0 when not known"),
			field("name", String, "its name, empty when not known"),
			field("from", Time, "when it was first seen"),
			field("to", Time, "when it was last seen"),
			field("bytes", Uint, "most memory of the GPU that it had, 0 when not known", wide),
		}},
	{Kind: 34, Name: "nccl_call", Beside: 22, Sent: "extras",
		Meaning: "what a call of NCCL says about itself in the payload of its NVTX range", Fields: []Field{
			field("pid", Uint, "process", key),
			field("tid", Uint, "thread", key),
			field("name", String, "function of NCCL"),
			field("time", Time, "just before its NVTX range begins"),
			field("known", Hex, "what of the next fields is known: 1 communicator; 2 bytes; 4 ranks and rank",
				comment("NCCLCommunicator, NCCLBytes, NCCLRanks: the fields below that are known")),
			field("communicator", Hex, "the communicator's hash, the same on all of its ranks", optional, wide),
			field("bytes", Uint, "elements times the size of one, as the call has them: of one rank, where a call names what "+
				"it sends or receives", optional, wide),
			field("ranks", Uint, "ranks of the communicator", optional),
			field("rank", Uint, "this process's rank in it", optional),
		}},
	{Kind: 35, Name: "python_frame", Role: Definition, Meaning: "a line of a Python function that called something",
		Doc: "is a line of a Python function that called something. A PythonStack names it by ID, which is unique in the " +
			"log and has no meaning outside it.", Fields: []Field{
			field("id", Uint, "number by which stacks name it, from 1"),
			field("file", String, "file, as the program's code objects name it; empty for frames that are left out"),
			field("function", String, "qualified name of the function, plain before CPython 3.11; why frames are left out"),
			field("first_line", Uint, "first line of the function"),
			field("line", Uint, "line that called, 0 when not known"),
			field("compiled", String, "of a line that launches a kernel that PyTorch compiled: the operators it was compiled of, "+
				"`aten.add, aten.mul`", optional, comment("of a line that launches a compiled kernel: `aten.add, aten.mul`")),
		}},
	{Kind: 36, Name: "python_stack", Role: Definition, Meaning: "a Python frame and those that called it",
		Doc: "is a Python frame and those that called it. An API names it by ID, which is unique in the log and has no " +
			"meaning outside it. Stacks of all processes share the records.", Fields: []Field{
			field("id", Uint, "number by which calls name it, from 1"),
			field("parent", Uint, "id of the stack of its caller, 0 without one"),
			field("frame", Uint, "id of its python_frame record"),
		}},
	{Kind: 37, Name: "thread_state", Owner: "tid", Meaning: "a time that a thread ran, was ready to run, or was blocked",
		Doc: "is a time that a thread ran, was ready to run, or was blocked. A long time has several records, one " +
			"behind the other.", Fields: []Field{
			field("pid", Uint, "process", key),
			field("tid", Uint, "thread", key),
			field("state", Uint, "1 ran; 2 was ready to run, and another thread had the processor; 3 was blocked",
				comment("StateRunning, StateRunnable or StateBlocked")),
			field("start", Time, "beginning"),
			field("dur", Dur, "length"),
			field("cpu", Uint, "processor on which it ran, or had run last"),
			field("call", String, "system call that blocked it, or page fault; empty when not known", optional),
			field("on", String, "what the call waits for: the kind of its file descriptor, lock, GIL or thread; empty "+
				"when not known", optional),
			field("holder", Uint, "thread that has the lock, or for whose end it waits, 0 when not known", optional),
			field("python", Uint, "id of the python_stack record, 0 when not known", optional,
				comment("PythonStack.ID, 0 when not known")),
		}},
	{Kind: 38, Name: "thread_sample", Owner: "tid", Beside: 37, Meaning: "what a thread ran at a moment",
		Doc: "is what a thread ran at a moment. A thread has samples at a rate for as long as it runs.", Fields: []Field{
			field("pid", Uint, "process", key),
			field("tid", Uint, "thread", key),
			field("time", Time, "when"),
			field("flags", Hex, "1: in the kernel; 2: there in a system call; 4: there because of a page fault or another "+
				"exception; 8: Python frames could not be read", optional,
				comment("SampleKernel, SampleCall, SampleFault, SampleUnread")),
			field("native", Uint, "id of the native_stack record, 0 when not known", optional,
				comment("NativeStack.ID, 0 when not known")),
			field("python", Uint, "id of the python_stack record, 0 without Python frames", optional,
				comment("PythonStack.ID, 0 without Python frames")),
		}},
	{Kind: 39, Name: "native_frame", Role: Definition, Meaning: "a place in the code of a program or a library",
		Doc: "is a place in the code of a program or a library. A NativeStack names it by ID, which is unique in the log " +
			"and has no meaning outside it. A frame whose ID has no record is not known.", Fields: []Field{
			field("id", Uint, "number by which stacks name it, from 1"),
			field("module", String, "path of the file, empty when not known"),
			field("build_id", String, "build ID of that file in hexadecimal, empty without one", optional),
			field("address", Hex, "address, as the ELF headers of the file count addresses; in the process where no "+
				"file is known", wide),
			field("symbol", String, "mangled name of the function around that address, empty when the file does not tell"),
			field("symbol_offset", Uint, "bytes from the beginning of that function to the address", optional),
		}},
	{Kind: 40, Name: "native_stack", Role: Definition, Meaning: "a native frame and those that called it",
		Doc: "is a native frame and those that called it. A ThreadSample names it by ID, which is unique in the log and " +
			"has no meaning outside it.", Fields: []Field{
			field("id", Uint, "number by which samples name it, from 1"),
			field("parent", Uint, "id of the stack of its caller, 0 without one"),
			field("frame", Uint, "id of its native_frame record"),
		}},
	{Kind: 41, Name: "function_event", Owner: "tid", Meaning: "the entry or the return of a function of any library",
		Doc: "is the entry or the return of a function of any library, which is none of CUDA's. A thread's entries and " +
			"returns are nested.", Fields: functionEventFields()},
	{Kind: 42, Name: "open_call", Role: Definition, Meaning: "a call of a traced function that has not returned for a " +
		"second or more",
		Doc: "is a call of a traced function that has not returned for a second or more. It is written once. When the call " +
			"returns, or recording ends, a Call with the same PID, TID, Func and Enter follows, and the OpenCall means " +
			"nothing any more. Where Name is set, it means nothing once there is an API record of the driver from Enter or " +
			"later, with the same PID and TID. In a log without an End, an OpenCall without these had not returned.",
		Fields: openCallFields()},
	{Kind: 44, Name: "operator_stack", Role: Definition, Meaning: "an operator of PyTorch and those that called it",
		Doc: "is an operator of PyTorch, or a range of the program's that PyTorch tells of, and those that called it. An API " +
			"names it by ID, which is unique in the log and has no meaning outside it.", Fields: []Field{
			field("id", Uint, "number by which calls name it, from 1"),
			field("parent", Uint, "id of the stack of its caller, 0 without one"),
			field("name", String, "name, as PyTorch has it"),
			field("scope", Uint, "at::RecordScope: 0 function, 1 backward function, 7 range of the program's"),
			field("forward", Uint, "id of the stack of the forward operator that made this backward one, 0 without one",
				optional),
		}},
	{Kind: 45, Name: "torch_memory", Meaning: "a block that PyTorch's allocator handed out or took back",
		Doc: "is a block of GPU memory that PyTorch's caching allocator handed out or took back, or a request for which it " +
			"found no memory.", Fields: []Field{
			field("pid", Uint, "process", key),
			field("tid", Uint, "thread", key),
			field("time", Time, "when, within the allocator"),
			field("address", Hex, "address of the block, 0 of a request", wide),
			field("bytes", Int, "size of the block, or of the request, as the allocator has rounded it; below 0 of a block "+
				"that it took back", wide),
			field("allocated", Uint, "bytes of all blocks that are handed out on the device then", wide),
			field("reserved", Uint, "bytes that the allocator has of the device then", wide),
			field("device", Uint, "device, as the process numbers it"),
			field("flags", Hex, "1: there was no memory for it", optional, comment("TorchOutOfMemory")),
			field("python", Uint, "of memory that is asked for, id of the python_stack record, 0 when not known", optional,
				comment("PythonStack.ID, 0 when not known")),
		}},
	{Kind: 46, Name: "operator_span", Sent: "extras", Meaning: "an operator of PyTorch, from its begin to its end",
		Doc: "is an operator of PyTorch, or a range of the program's that PyTorch tells of, from its begin to its end. " +
			"Operators of a thread are nested; ranges need not be.", Fields: []Field{
			field("pid", Uint, "process", key),
			field("tid", Uint, "thread on which it ended", key),
			field("start", Time, "begin"),
			field("dur", Dur, "time until its end"),
			field("operators", Uint, "id of the operator_stack record, 0 when not known",
				comment("OperatorStack.ID, 0 when not known"), operatorStack),
		}},
}

// functionEventFields ends with one field for each argument of a function.
func functionEventFields() []Field {
	fields := []Field{
		field("pid", Uint, "process", key),
		field("tid", Uint, "thread", key),
		field("func", Uint, "id of the function record", comment("Function.ID")),
		field("flags", Hex, "1: entry; 2: return; 4, with 1: no return follows, it is not recorded; 8, with 2: left "+
			"without returning, before this time",
			comment("FunctionEntry, FunctionReturn, FunctionAlone, FunctionLeft")),
		field("time", Time, "when"),
		field("ret", Hex, "at a return, the returned value: the whole register", optional, wide),
	}
	for i := range MaxFunctionArgs {
		fields = append(fields, field(fmt.Sprintf("arg%d", i), Hex,
			fmt.Sprintf("at an entry, argument %d if the function's record names it: the whole register", i),
			optional, wide, member(fmt.Sprintf("Args[%d]", i)), comment("the arguments that the function's record names")))
	}
	return fields
}
