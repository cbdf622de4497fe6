package tracelog

import "fmt"

// A Type says what the values of a field mean and how the text form shows them.
// Numbers are wire format: never reuse one.
type Type uint8

// The types of field. A value of any type but TypeText is one 64-bit number.
const (
	TypeUint   Type = 1 // a number
	TypeInt    Type = 2 // a signed number, stored zigzag
	TypeHex    Type = 3 // an address, a handle or bits
	TypeTime   Type = 4 // ns of CLOCK_MONOTONIC; 0 is "not known"
	TypeDur    Type = 5 // ns from the record's first time
	TypeString Type = 6 // the id of a string record; 0 is the empty string
	TypeText   Type = 7 // the bytes themselves
)

var typeNames = [...]string{
	TypeUint: "uint", TypeInt: "int", TypeHex: "hex", TypeTime: "time",
	TypeDur: "dur", TypeString: "string", TypeText: "text",
}

func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return fmt.Sprintf("type%d", uint8(t))
}

// A Field is one column of a kind's table.
type Field struct {
	Name    string
	Type    Type
	Meaning string
	use     fieldUse
}

// A fieldUse is what this package does with a field. It is not in the log.
type fieldUse uint8

const (
	groups   fieldUse = 1 << iota // the writer keeps one open block per value
	optional                      // the text form leaves the field out where it is 0
)

// A Table describes the records of a kind: the fields in the order of their
// numbers. A later version may append fields, never move, retype or drop one.
type Table struct {
	Kind    Kind
	Name    string
	Meaning string
	Fields  []Field
	defines bool // other records refer to these: they go to the file first
}

// Tables that are not records: they describe and index the log itself.
const (
	tableKinds     Kind = 128 // in the schema block
	tableFields    Kind = 129 // in the schema block
	tableIndex     Kind = 130 // in index blocks
	tableTotals    Kind = 131 // in the footer
	tableDirectory Kind = 132 // in the footer
)

// Limits of the format. A reader refuses what exceeds them.
const (
	MaxRows        = 65536    // in a block
	MaxColumns     = 64       // of a table
	MaxPayload     = 16 << 20 // bytes of a block, as stored and as decoded
	MaxStrings     = 1 << 20  // in a log
	MaxStringBytes = 256 << 20
	MaxString      = 8 << 20 // bytes of one string
)

var gpuFields = []Field{
	{"pid", TypeUint, "process", groups},
	{"device", TypeUint, "device, as the process numbers it", 0},
	{"context", TypeUint, "context", groups},
	{"stream", TypeUint, "stream", groups},
	{"correlation", TypeUint, "correlation ID of the API record that caused the work", 0},
	{"graph", TypeUint, "graph that launched it, or 0", optional},
	{"graph_node", TypeUint, "node of that graph, or 0", optional},
	{"start", TypeTime, "start on the device; 0 where CUPTI ran short of device buffer", 0},
	{"dur", TypeDur, "time on the device", 0},
}

// afterGPU is the field list of a piece of GPU work: where it ran, then what it was.
func afterGPU(own ...Field) []Field {
	return append(append([]Field(nil), gpuFields...), own...)
}

// callFields ends with one field for each argument that a call can carry.
func callFields() []Field {
	fields := []Field{
		{"pid", TypeUint, "process", groups},
		{"tid", TypeUint, "thread", groups},
		{"func", TypeUint, "id of the function record", groups},
		{"flags", TypeHex, "1: had not returned when recording ended; 2: was left without returning", optional},
		{"enter", TypeTime, "entry of the function", 0},
		{"dur", TypeDur, "time until it returned; 0 with a flag", 0},
		{"ret", TypeInt, "CUresult or cudaError_t", 0},
		{"nargs", TypeUint, "number of arguments that follow", 0},
	}
	for i := range MaxArgs {
		fields = append(fields, Field{fmt.Sprintf("arg%d", i), TypeHex, fmt.Sprintf("argument %d, 0 from nargs on", i), 0})
	}
	return fields
}

// tables is the one description of every record: the writer, the reader, the
// text form and FORMAT.md follow it.
var tables = []Table{
	{KindString, "string", "a text and the number by which records name it; not shown in the text form", []Field{
		{"id", TypeUint, "number of the string, from 1", 0},
		{"text", TypeText, "its bytes", 0},
	}, false},
	{KindMeta, "meta", "a fact of the recording", []Field{
		{"key", TypeString, "what is said", 0},
		{"value", TypeString, "the fact", 0},
	}, true},
	{KindFunction, "function", "a traced function", []Field{
		{"id", TypeUint, "number by which calls name it", 0},
		{"name", TypeString, "symbol without version suffixes of the linker", 0},
		{"library", TypeString, "runtime or driver", 0},
		{"args", TypeString, "recorded arguments, name:type separated by spaces", 0},
	}, true},
	{KindProcess, "process", "a process of the recording", []Field{
		{"pid", TypeUint, "process", 0},
		{"ppid", TypeUint, "its parent", 0},
		{"start", TypeTime, "when the recorder first saw it", 0},
		{"exe", TypeString, "path of the program", 0},
		{"args", TypeString, "arguments joined by NUL", 0},
	}, true},
	{KindThread, "thread", "a thread's name; a later record renames it", []Field{
		{"pid", TypeUint, "process", 0},
		{"tid", TypeUint, "thread", 0},
		{"name", TypeString, "its name", 0},
		{"local_tid", TypeUint, "the thread in the process's own PID namespace, by which CUPTI knows it; 0 where that is tid", optional},
	}, true},
	{KindCall, "call", "a call of a traced function, from its pair of uprobes", callFields(), false},
	{KindAPI, "api", "a CUPTI API record: a call with its correlation ID", []Field{
		{"pid", TypeUint, "process", groups},
		{"tid", TypeUint, "thread", groups},
		{"domain", TypeUint, "1 driver, 2 runtime", groups},
		{"cbid", TypeUint, "CUPTI callback id", groups},
		{"name", TypeString, "CUPTI's name of the callback", 0},
		{"start", TypeTime, "entry", 0},
		{"dur", TypeDur, "time until the return", 0},
		{"correlation", TypeUint, "correlation ID", 0},
		{"ret", TypeUint, "return value", 0},
	}, false},
	{KindKernel, "kernel", "a kernel's execution", afterGPU(
		Field{"name", TypeString, "mangled name", 0},
		Field{"grid_x", TypeUint, "blocks in the grid", 0},
		Field{"grid_y", TypeUint, "", 0},
		Field{"grid_z", TypeUint, "", 0},
		Field{"block_x", TypeUint, "threads in a block", 0},
		Field{"block_y", TypeUint, "", 0},
		Field{"block_z", TypeUint, "", 0},
		Field{"cluster_x", TypeUint, "blocks in a cluster, 0 without clusters", optional},
		Field{"cluster_y", TypeUint, "", optional},
		Field{"cluster_z", TypeUint, "", optional},
		Field{"static_shared", TypeUint, "bytes of static shared memory a block", optional},
		Field{"dynamic_shared", TypeUint, "bytes of dynamic shared memory a block", optional},
		Field{"local_per_thread", TypeUint, "bytes of local memory a thread", optional},
		Field{"registers", TypeUint, "registers a thread", optional},
	), false},
	{KindMemcpy, "memcpy", "a copy, peer copies included", afterGPU(
		Field{"bytes", TypeUint, "bytes copied", 0},
		Field{"copy_kind", TypeUint, "CUpti_ActivityMemcpyKind", 0},
		Field{"src_kind", TypeUint, "CUpti_ActivityMemoryKind", 0},
		Field{"dst_kind", TypeUint, "CUpti_ActivityMemoryKind", 0},
		Field{"src_device", TypeUint, "device of the source", 0},
		Field{"dst_device", TypeUint, "device of the destination", 0},
	), false},
	{KindMemset, "memset", "a fill of device memory", afterGPU(
		Field{"bytes", TypeUint, "bytes set", 0},
		Field{"value", TypeHex, "value set", 0},
	), false},
	{KindDevice, "device", "a GPU, as a process numbers it", []Field{
		{"pid", TypeUint, "process", 0},
		{"id", TypeUint, "device", 0},
		{"name", TypeString, "product name", 0},
		{"uuid", TypeString, "16 bytes in hexadecimal", 0},
		{"major", TypeUint, "compute capability", 0},
		{"minor", TypeUint, "", 0},
		{"multiprocessors", TypeUint, "multiprocessors", 0},
		{"memory", TypeUint, "bytes of global memory", 0},
		{"bandwidth", TypeUint, "memory bandwidth in kB/s", 0},
	}, true},
	{KindContext, "context", "a CUDA context", []Field{
		{"pid", TypeUint, "process", 0},
		{"id", TypeUint, "context", 0},
		{"device", TypeUint, "its device", 0},
		{"null_stream", TypeUint, "its default stream", 0},
	}, true},
	{KindStream, "stream", "a CUDA stream", []Field{
		{"pid", TypeUint, "process", 0},
		{"context", TypeUint, "its context", 0},
		{"id", TypeUint, "stream", 0},
		{"priority", TypeInt, "priority, lower is more urgent", 0},
		{"flags", TypeHex, "CUpti_ActivityStreamFlag", 0},
	}, true},
	{KindClock, "clock", "the host's clocks, read together", []Field{
		{"monotonic", TypeTime, "CLOCK_MONOTONIC", 0},
		{"realtime", TypeUint, "CLOCK_REALTIME, ns", 0},
		{"boottime", TypeUint, "CLOCK_BOOTTIME, ns", 0},
	}, true},
	{KindCUPTI, "cupti", "whether and how CUPTI records a process", []Field{
		{"pid", TypeUint, "process", 0},
		{"version", TypeUint, "cuptiGetVersion", 0},
		{"driver_version", TypeUint, "cuDriverGetVersion", 0},
		{"path", TypeString, "path of libcupti", 0},
		{"status", TypeString, "on, or why there are no activity records", 0},
		{"clock_error", TypeUint, "largest error of a CUPTI time in ns, 0 on the common clock", 0},
	}, true},
	{KindLost, "lost", "records that are missing, by cause", []Field{
		{"pid", TypeUint, "process, 0 when not known", 0},
		{"cause", TypeString, "cause", 0},
		{"count", TypeUint, "number of records", 0},
		{"from", TypeTime, "beginning of the time in which it happened", 0},
		{"to", TypeTime, "end of that time", 0},
	}, false},
	{KindNote, "note", "a line that a person should see", []Field{
		{"time", TypeTime, "when", 0},
		{"pid", TypeUint, "process, 0 for the recording", 0},
		{"severity", TypeUint, "0 information, 1 warning", 0},
		{"text", TypeString, "the line", 0},
	}, false},
	{KindProcessEnd, "process_end", "a process has ended", []Field{
		{"pid", TypeUint, "process", 0},
		{"time", TypeTime, "when", 0},
		{"status", TypeInt, "exit status, 128+N after signal N, -1 when not known", 0},
		{"complete", TypeUint, "1 when the last flush of its injected library arrived", 0},
		{"kernels", TypeUint, "kernels that its injected library counted", 0},
		{"copies", TypeUint, "copies", 0},
		{"sets", TypeUint, "sets", 0},
		{"apis", TypeUint, "API records", 0},
		{"until", TypeTime, "GPU work is complete up to here, 0 when not known", optional},
		{"reason", TypeString, "exit, _exit, exec or signal N (NAME), empty when not known", optional},
	}, false},
	{KindEnd, "end", "the last record of a finished log", []Field{
		{"time", TypeTime, "when recording ended", 0},
		{"complete", TypeUint, "1 when nothing is known to be missing", 0},
		{"reason", TypeString, "why it is not complete", 0},
	}, false},
	{KindSync, "sync", "a CUPTI synchronization record: a call that waits for GPU work, or a stream that waits for an event", []Field{
		{"pid", TypeUint, "process", groups},
		{"type", TypeUint, "CUpti_ActivitySynchronizationType", groups},
		{"context", TypeUint, "context", groups},
		{"stream", TypeUint, "stream, 4294967295 where it does not apply", groups},
		{"event", TypeUint, "CUPTI's number of the event, 4294967295 where it does not apply", 0},
		{"correlation", TypeUint, "correlation ID of the call that waited", 0},
		{"start", TypeTime, "beginning of the wait", 0},
		{"dur", TypeDur, "time that it took", 0},
	}, false},
	{KindOverhead, "overhead", "time that CUPTI or the driver took for itself", []Field{
		{"pid", TypeUint, "process", groups},
		{"overhead_kind", TypeHex, "CUpti_ActivityOverheadKind", groups},
		{"object_kind", TypeUint, "CUpti_ActivityObjectKind of where it happened", 0},
		{"tid", TypeUint, "thread, where it happened on one", optional},
		{"start", TypeTime, "beginning", 0},
		{"dur", TypeDur, "time that it took", 0},
	}, false},
	{KindMarker, "marker", "an NVTX mark, or the start or the end of an NVTX range", []Field{
		{"pid", TypeUint, "process", groups},
		{"tid", TypeUint, "thread", groups},
		{"flags", TypeHex, "1: a mark; 2: start of a range; 4: end of a range", 0},
		{"id", TypeUint, "number of the range, the same at both ends", 0},
		{"time", TypeTime, "when", 0},
		{"name", TypeString, "its name, empty at the end of a range", 0},
		{"domain", TypeString, "NVTX domain, empty for the default", 0},
	}, false},
	{KindName, "name", "what a program calls a thread, a stream, a context or a device through NVTX", []Field{
		{"pid", TypeUint, "process", 0},
		{"object_kind", TypeUint, "CUpti_ActivityObjectKind: 2 thread, 3 device, 4 context, 5 stream", 0},
		{"id", TypeUint, "number of the thread, device, context or stream", 0},
		{"context", TypeUint, "context of a stream", optional},
		{"device", TypeUint, "device of a context or a stream", optional},
		{"name", TypeString, "its name", 0},
	}, true},
	{KindMemory, "memory", "an allocation or a release of memory", []Field{
		{"pid", TypeUint, "process", groups},
		{"tid", TypeUint, "thread, 0 where CUPTI does not tell it", optional},
		{"operation", TypeUint, "CUpti_ActivityMemoryOperationType: 1 allocation, 2 release", 0},
		{"memory_kind", TypeUint, "CUpti_ActivityMemoryKind", 0},
		{"device", TypeUint, "device", 0},
		{"context", TypeUint, "context", 0},
		{"stream", TypeUint, "stream of a stream-ordered operation", 0},
		{"correlation", TypeUint, "correlation ID of the call", 0},
		{"async", TypeUint, "1 for a stream-ordered operation", optional},
		{"time", TypeTime, "when", 0},
		{"address", TypeHex, "address of the memory", 0},
		{"bytes", TypeUint, "bytes", 0},
		{"pool", TypeHex, "address of the memory pool, 0 without one", optional},
	}, false},
	{KindMemoryPool, "memory_pool", "the creation, the destruction or the trimming of a memory pool", []Field{
		{"pid", TypeUint, "process", 0},
		{"operation", TypeUint, "CUpti_ActivityMemoryPoolOperationType: 1 created, 2 destroyed, 3 trimmed", 0},
		{"pool_kind", TypeUint, "CUpti_ActivityMemoryPoolType: 1 local, 2 imported", 0},
		{"device", TypeUint, "device", 0},
		{"correlation", TypeUint, "correlation ID of the call", 0},
		{"time", TypeTime, "when", 0},
		{"address", TypeHex, "address of the pool", 0},
		{"size", TypeUint, "bytes in the pool", 0},
		{"release_threshold", TypeUint, "bytes that the pool keeps before it gives memory back", 0},
		{"min_bytes_to_keep", TypeUint, "bytes that trimming leaves", 0},
	}, false},
	{KindGraph, "graph", "the execution of a whole CUDA graph, where its nodes are not recorded one by one", afterGPU(), false},
	{KindSymbol, "symbol", "the name behind a handle that a launch passes", []Field{
		{"pid", TypeUint, "process", 0},
		{"time", TypeTime, "when the call that made the handle returned", 0},
		{"handle", TypeHex, "the handle", 0},
		{"of", TypeHex, "the handle that it was made from where it has no name of its own, otherwise 0", optional},
		{"name", TypeString, "mangled name", 0},
	}, true},
	{KindFlushed, "flushed", "a time up to which every record is in the log", []Field{
		{"pid", TypeUint, "process whose records are meant; 0: the calls of all processes", 0},
		{"until", TypeTime, "the time", 0},
	}, false},
}

// frameTables describe the log itself. A reader knows them without a schema.
var frameTables = []Table{
	{tableKinds, "kinds", "the kinds of record, in the schema block", []Field{
		{"kind", TypeUint, "number of the kind", 0},
		{"name", TypeText, "name", 0},
		{"meaning", TypeText, "meaning", 0},
	}, false},
	{tableFields, "fields", "the fields of all kinds in the order of their numbers, in the schema block", []Field{
		{"kind", TypeUint, "kind that the field belongs to", 0},
		{"name", TypeText, "name", 0},
		{"type", TypeUint, "type", 0},
		{"meaning", TypeText, "meaning", 0},
	}, false},
	{tableIndex, "index", "one row a record block, in index blocks", []Field{
		{"offset", TypeUint, "byte of the log at which the block begins", 0},
		{"kind", TypeUint, "kind of its records", 0},
		{"pid", TypeUint, "process, where all its records have the same, else 0", 0},
		{"rows", TypeUint, "number of records", 0},
		{"min", TypeUint, "smallest time, 0 when it has none", 0},
		{"max", TypeUint, "largest end", 0},
		{"tid", TypeUint, "thread, where all its records have the same, else 0", 0},
		{"device", TypeUint, "1 + device, where all its records have the same, else 0", 0},
		{"context", TypeUint, "1 + context, where all its records have the same, else 0", 0},
		{"stream", TypeUint, "1 + stream, where all its records have the same, else 0", 0},
	}, false},
	{tableTotals, "totals", "number of records by kind, in the footer", []Field{
		{"kind", TypeUint, "kind", 0},
		{"rows", TypeUint, "number of records", 0},
	}, false},
	{tableDirectory, "directory", "the index blocks, in the footer", []Field{
		{"offset", TypeUint, "byte of the log at which the index block begins", 0},
		{"rows", TypeUint, "number of its rows", 0},
	}, false},
}

// Tables returns the description of every kind of record, in the order of their numbers.
func Tables() []Table { return append([]Table(nil), tables...) }

// A layout is a table prepared for use.
type layout struct {
	*Table
	order  []int // fields in the order in which the writer stores them
	groups []int // fields that make the key of an open block
	times  []int
	dur    int // the first duration, -1 without
	text   []int

	pid, tid, device, context, stream int // fields, -1 without
}

// bulk reports whether the records are the events of a program, of which there can be
// any number, rather than what events refer to or what is said of the recording.
func (l *layout) bulk() bool {
	switch l.Kind {
	case KindString, KindLost, KindNote, KindProcessEnd, KindEnd, KindFlushed:
		return false
	}
	return !l.defines
}

// layouts has the layout of each kind that this version knows, by number.
var layouts = func() (all [256]*layout) {
	for _, list := range [][]Table{tables, frameTables} {
		for i := range list {
			all[list[i].Kind] = newLayout(&list[i])
		}
	}
	return all
}()

func newLayout(t *Table) *layout {
	l := &layout{Table: t, dur: -1}
	l.pid, l.tid, l.device = t.field("pid"), t.field("tid"), t.field("device")
	l.context, l.stream = t.field("context"), t.field("stream")
	var rest []int
	for i, f := range t.Fields {
		switch f.Type {
		case TypeTime:
			l.times = append(l.times, i)
		case TypeText:
			l.text = append(l.text, i)
		}
		if f.Type == TypeDur && l.dur < 0 {
			l.dur = i
			l.order = append(l.order, i) // times are stored relative to it
		} else {
			rest = append(rest, i)
		}
		if f.use&groups != 0 {
			l.groups = append(l.groups, i)
		}
	}
	l.order = append(l.order, rest...)
	return l
}

// field is the number of the field with a name, -1 without.
func (t *Table) field(name string) int {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// kindByName finds a kind of record by the name it has in the text form.
var kindByName = func() map[string]Kind {
	m := make(map[string]Kind, len(tables))
	for _, t := range tables {
		m[t.Name] = t.Kind
	}
	return m
}()

func (k Kind) String() string {
	if l := layouts[k]; l != nil {
		return l.Name
	}
	return fmt.Sprintf("kind%d", uint8(k))
}

// KindByName finds a kind of record by the name that the text form gives it.
func KindByName(name string) (Kind, bool) {
	k, ok := kindByName[name]
	return k, ok && k != KindString
}
