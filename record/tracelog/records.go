package tracelog

// A Kind numbers a type of record. Numbers are wire format: never reuse one.
type Kind uint8

// The kinds of record. The fields of each are in the table of schema.go.
const (
	KindString     Kind = 1
	KindMeta       Kind = 2
	KindFunction   Kind = 3
	KindProcess    Kind = 4
	KindThread     Kind = 5
	KindCall       Kind = 6
	KindAPI        Kind = 7
	KindKernel     Kind = 8
	KindMemcpy     Kind = 9
	KindMemset     Kind = 10
	KindDevice     Kind = 11
	KindContext    Kind = 12
	KindStream     Kind = 13
	KindClock      Kind = 14
	KindCUPTI      Kind = 15
	KindLost       Kind = 16
	KindNote       Kind = 17
	KindProcessEnd Kind = 18
	KindEnd        Kind = 19
	KindSync       Kind = 20
	KindOverhead   Kind = 21
	KindMarker     Kind = 22
	KindName       Kind = 23
	KindMemory     Kind = 24
	KindMemoryPool Kind = 25
	KindGraph      Kind = 26
	KindSymbol     Kind = 27
	KindFlushed    Kind = 28
)

// Times are nanoseconds of CLOCK_MONOTONIC, durations nanoseconds, sizes bytes.
// PID and TID are numbers of the recorder's own PID namespace.

// Meta is one fact of the recording as a key and a value ("program", "host").
type Meta struct {
	Key, Value string
}

// Function describes a traced function. A Call names it by ID, which is unique
// in the log and has no meaning outside it.
type Function struct {
	ID      uint32
	Name    string // "cudaMalloc"
	Library string // "runtime" or "driver"
	Args    string // names and types of the recorded arguments, "devPtr:ptr size:bytes"
}

// Process is a process of the recording that initialised CUDA, or the program itself.
type Process struct {
	PID, PPID uint32
	Start     uint64 // when the recorder first saw it
	Exe       string
	Args      string // arguments joined by NUL
}

// Thread names a thread. A later record for the same thread renames it.
type Thread struct {
	PID, TID uint32
	Name     string
	LocalTID uint32 // in the process's own PID namespace, by which CUPTI knows it; 0: the same as TID
}

// MaxArgs is the largest number of recorded arguments of a call.
const MaxArgs = 12

// Flags of a Call.
const (
	CallUnfinished = 1 << 0 // the function had not returned when recording ended; Dur is 0
	CallNoReturn   = 1 << 1 // the function was left without returning (longjmp, exception); Dur is 0
)

// Call is one call of a traced function, as its uprobe pair saw it.
type Call struct {
	PID, TID uint32
	Func     uint32 // Function.ID
	Flags    uint32
	Enter    uint64
	Dur      uint64
	Ret      int32 // CUresult or cudaError_t
	NArgs    uint32
	Args     [MaxArgs]uint64
}

// API domains: who made an API record.
const (
	DomainDriver  = 1
	DomainRuntime = 2
)

// API is a CUPTI API record: a runtime or driver call with its correlation ID.
type API struct {
	PID, TID    uint32
	Domain      uint32
	CBID        uint32 // CUPTI callback id
	Name        string // as CUPTI names the callback, "cudaLaunchKernel"
	Start       uint64
	Dur         uint64
	Correlation uint32
	Ret         uint32
}

// GPU places a piece of GPU work. Kernel, Memcpy and Memset start with it.
type GPU struct {
	PID         uint32
	Device      uint32
	Context     uint32
	Stream      uint32
	Correlation uint32
	Graph       uint32 // 0 when not launched by a graph
	GraphNode   uint64
	Start       uint64 // Start and Dur are 0 where CUPTI ran short of device buffer
	Dur         uint64
}

// Kernel is a kernel's execution.
type Kernel struct {
	GPU
	Name           string // mangled
	Grid, Block    [3]uint32
	Cluster        [3]uint32 // 0 without clusters
	StaticShared   uint32
	DynamicShared  uint32
	LocalPerThread uint32
	Registers      uint32 // per thread
}

// Memcpy is a copy, peer copies included.
type Memcpy struct {
	GPU
	Bytes            uint64
	CopyKind         uint32 // CUpti_ActivityMemcpyKind
	SrcKind, DstKind uint32 // CUpti_ActivityMemoryKind
	SrcDevice        uint32 // peer copies only, otherwise Device
	DstDevice        uint32
}

// Memset is a fill of device memory.
type Memset struct {
	GPU
	Bytes uint64
	Value uint32
}

// Device is a GPU as the process with this PID numbers it.
type Device struct {
	PID, ID         uint32
	Name            string
	UUID            string // 16 bytes in hexadecimal
	Major, Minor    uint32 // compute capability
	Multiprocessors uint32
	Memory          uint64 // bytes
	Bandwidth       uint64 // kB/s
}

// Context is a CUDA context.
type Context struct {
	PID, ID, Device uint32
	NullStream      uint32 // the id of its default stream
}

// Stream is a CUDA stream.
type Stream struct {
	PID, Context, ID uint32
	Priority         int32
	Flags            uint32
}

// Clock is one reading of the host's clocks, taken together.
type Clock struct {
	Monotonic, Realtime, Boottime uint64
}

// CUPTI says whether and how CUPTI records a process.
type CUPTI struct {
	PID           uint32
	Version       uint32 // of libcupti, cuptiGetVersion
	DriverVersion uint32 // cuDriverGetVersion
	Path          string // of libcupti
	Status        string // "on", or why there are no activity records
	ClockError    uint64 // largest error of a CUPTI time, 0 on the common clock
}

// Lost counts records that are missing from the log, by cause.
type Lost struct {
	PID      uint32 // 0 when not known
	Cause    string
	Count    uint64
	From, To uint64 // the time in which it happened
}

// Severities of a Note.
const (
	NoteInfo    = 0
	NoteWarning = 1
)

// Note is a line about the recording that a person should see.
type Note struct {
	Time     uint64
	PID      uint32
	Severity uint32
	Text     string
}

// ProcessEnd closes a process. The counts are those of the injected library at
// its last word, to be held against what the log holds.
type ProcessEnd struct {
	PID                   uint32
	Time                  uint64
	Status                int32  // exit status, 128+N after signal N; -1 when not known
	Complete              uint32 // 1 when the injected library's last flush arrived
	Kernels, Copies, Sets uint64
	APIs                  uint64
	Until                 uint64 // GPU work is complete up to here; 0 when not known
	Reason                string // "exit", "_exit", "exec", "signal 11 (SIGSEGV)"; "" when not known
}

// End is the last record of a log that was finished.
type End struct {
	Time     uint64
	Complete uint32 // 1 when nothing is known to be missing
	Reason   string // why it is not complete
}

// Sync is a CUPTI synchronization record: a call that waits for GPU work, or a
// stream that waits for an event.
type Sync struct {
	PID         uint32
	Type        uint32 // CUpti_ActivitySynchronizationType
	Context     uint32
	Stream      uint32 // 0xffffffff where it does not apply
	Event       uint32 // CUPTI's number of the event, 0xffffffff where it does not apply
	Correlation uint32
	Start, Dur  uint64
}

// Overhead is time that CUPTI or the driver took for itself.
type Overhead struct {
	PID        uint32
	Kind       uint32 // CUpti_ActivityOverheadKind
	ObjectKind uint32 // CUpti_ActivityObjectKind
	TID        uint32 // where it happened on a thread, otherwise 0
	Start, Dur uint64
}

// Flags of a Marker, CUpti_ActivityFlag.
const (
	MarkerInstant = 1 << 0
	MarkerStart   = 1 << 1
	MarkerEnd     = 1 << 2
)

// Marker is an NVTX mark, or the start or the end of an NVTX range; both ends of
// a range have one ID.
type Marker struct {
	PID, TID uint32
	Flags    uint32
	ID       uint32
	Time     uint64
	Name     string // empty at the end of a range
	Domain   string
}

// Kinds of object that a Name names, CUpti_ActivityObjectKind.
const (
	ObjectProcess = 1
	ObjectThread  = 2
	ObjectDevice  = 3
	ObjectContext = 4
	ObjectStream  = 5
)

// Name is what a program calls a thread, a stream, a context or a device through NVTX.
type Name struct {
	PID        uint32
	ObjectKind uint32
	ID         uint32 // the thread's, device's, context's or stream's number
	Context    uint32 // of a stream
	Device     uint32 // of a context or a stream
	Name       string
}

// Memory is an allocation or a release of memory.
type Memory struct {
	PID, TID    uint32 // TID is 0 where CUPTI does not tell it
	Operation   uint32 // CUpti_ActivityMemoryOperationType: 1 allocation, 2 release
	MemoryKind  uint32 // CUpti_ActivityMemoryKind
	Device      uint32
	Context     uint32
	Stream      uint32
	Correlation uint32
	Async       uint32 // 1 for stream-ordered operations
	Time        uint64
	Address     uint64
	Bytes       uint64
	Pool        uint64 // address of the pool, 0 without one
}

// MemoryPool is the creation, the destruction or the trimming of a memory pool.
type MemoryPool struct {
	PID              uint32
	Operation        uint32 // CUpti_ActivityMemoryPoolOperationType: 1 created, 2 destroyed, 3 trimmed
	PoolKind         uint32 // CUpti_ActivityMemoryPoolType: 1 local, 2 imported
	Device           uint32
	Correlation      uint32
	Time             uint64
	Address          uint64
	Size             uint64 // bytes in the pool
	ReleaseThreshold uint64
	MinBytesToKeep   uint64
}

// Graph is the execution of a whole CUDA graph, where its nodes are not recorded
// one by one. Graph.GPU.Graph is its id.
type Graph struct {
	GPU
}

// Symbol gives the name behind a handle that a launch passes, as the call that
// made the handle saw it.
type Symbol struct {
	PID    uint32
	Time   uint64
	Handle uint64
	Of     uint64 // the handle that it was made from where it has no name of its own, otherwise 0
	Name   string // mangled
}

// Flushed says that the log is complete up to a time: every record of the process
// that lies before Until, in ns of CLOCK_MONOTONIC, is in the log in front of this
// record, or counted as lost. With PID 0 it says so of the calls of all processes.
type Flushed struct {
	PID   uint32
	Until uint64
}
