package timeline

// A Process is what one program did as one process. A process that runs exec is
// several of these, with one PID. As an event it precedes all that names it.
type Process struct {
	// PID and PPID are the timeline's own: where processes of several hosts meet they
	// are moved apart and differ from the host's.
	PID, PPID uint32
	Name      string
	Args      []string // the command line, with the program's name first
	Host      string
	Start     uint64 // when the recorder first saw it, 0 when not known
}

// A Thread is a thread that made calls or ranges.
type Thread struct {
	Process *Process
	TID     uint32 // moved as Process.PID is
	Name    string
	Main    bool
}

// A Track holds spans beside the calls: NVTX ranges, CUPTI's overhead.
type Track struct {
	Process  *Process
	Thread   *Thread // whose track it is; nil for one of the process
	Name     string
	Category Category
}

// A Category says what the spans of a track are.
type Category string

// The categories.
const (
	NVTX   Category = "nvtx"
	CUPTI  Category = "cupti"  // time that CUPTI took for itself
	Memory Category = "memory" // memory pools
)

// A Span is a range on a track, or an instant.
type Span struct {
	Name  string
	Start uint64
	End   uint64 // equal to Start for an instant
	Open  bool   // End is not known: a SpanEnd says it
	Args  []Detail
}

// A Detail is a fact shown with a span: a text where there is one, else a number.
type Detail struct {
	Name  string
	Value uint64
	Text  string
	Hex   bool // Value is an address
}

// A Counter is a number of bytes that changes with time.
type Counter struct {
	Process *Process
	Name    string
}
