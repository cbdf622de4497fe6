package timeline

import (
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A Context is a CUDA context of a process. The event comes before its streams.
type Context struct {
	Process *Process
	GPU     uint32 // GPU.Index
	Device  uint32 // as the process numbers it
	ID      uint32
	Name    string // given by the program
}

// A Stream is a stream of a context. The event comes before its work.
type Stream struct {
	Context  *Context
	ID       uint32
	Default  bool   // the context's default stream
	Name     string // given by the program
	Only     string // what ran on it, where nothing else did: OnlyCopies or OnlyNCCL
	Largest  uint32 // the largest number of the process's streams
	Priority int32
}

// Values of Stream.Only.
const (
	OnlyCopies = "copies" // copies and memsets
	OnlyNCCL   = "NCCL"   // NCCL's kernels, with copies and memsets
)

// Qualifier is what follows the stream's number in a title: " (default, NAME)", " (NAME)", "" and so on.
// Further words stand behind the name.
func (s *Stream) Qualifier(more ...string) string {
	words := slices.Concat([]string{s.Name}, more)
	if s.Default {
		words = slices.Insert(words, 0, "default")
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// A WorkKind is a kind of GPU work.
type WorkKind uint8

// The kinds of GPU work.
const (
	KernelWork WorkKind = iota
	MemcpyWork
	MemsetWork
)

// WorkCounts count GPU work by its kind.
type WorkCounts struct{ Kernels, Copies, Memsets uint64 }

// Add counts a piece of work.
func (c *WorkCounts) Add(k WorkKind) {
	switch k {
	case KernelWork:
		c.Kernels++
	case MemcpyWork:
		c.Copies++
	case MemsetWork:
		c.Memsets++
	}
}

// Total is the number of all pieces of work.
func (c *WorkCounts) Total() uint64 { return c.Kernels + c.Copies + c.Memsets }

// Work is one kernel, copy or memset on a stream.
type Work struct {
	ID          uint64 // the timeline's own, not 0
	Start, Dur  uint64
	GraphNode   uint64
	Shape       *Shape
	Correlation uint32
	Graph       uint32 // the graph that launched it, 0 for none
	Kind        WorkKind
	Uncaptured  Uncaptured // why a graph's work has no Captured
	Untimed     bool       // CUPTI gave no times: Start is the return of its call
	Unfinished  bool       // still running at the end of recording; Dur is cut there
	Call        Call
	// the call that was captured into the graph and made the node that this is the work of; nil where that is not proved
	Captured *Call
	Part     *Part // of a collective; nil for work that is none, or where nothing has looked for it
	NCCL     *NCCL // of the calls of NCCL that launched the kernel; nil where nothing is certain
}

// An Uncaptured says why the work of a graph's node has no captured call.
type Uncaptured uint8

// The reasons.
const (
	Named          Uncaptured = iota // it has one, or is of no graph
	CapturedBefore                   // the calls that made the graph came before the recording
	CaptureUnseen                    // the calls that made the graph were not probed, or a filter left them out
	CaptureUnsure                    // the graph's nodes are not proved to be those of its captured calls
)

func (u Uncaptured) String() string {
	return [...]string{"", "captured before recording", "its capture was not recorded", "its capture is not certain"}[u]
}

// CapturedBy is the captured call of a graph's work, why it has none, or "" for work of no graph.
func (w *Work) CapturedBy() string {
	if w.Captured != nil {
		return w.Captured.Place()
	}
	return w.Uncaptured.String()
}

// UntimedReason says why a piece of work has no length.
const UntimedReason = "CUPTI gave no times; shown where its call returned"

// A Call describes the call that caused a piece of GPU work, or allocated memory. The zero Call is no call.
type Call struct {
	*Function
	Thread *Thread
	Caller *Caller // where the call was made, nil if unknown
	// the innermost Python frame that made the call, or the captured call of a graph's node; nil if unknown
	Python     *Python
	Operator   *Operator   // likewise PyTorch's innermost operator
	Ranges     *RangeStack // the NVTX ranges that were open on the thread when the call began
	Start, End uint64
}

// Place says which function a call called, and where: "cudaLaunchKernel in libtorch_cuda.so: at::add(...)+0x45".
func (c *Call) Place() string {
	if c.Caller == nil {
		return c.Name
	}
	return c.Name + " in " + c.Caller.Text()
}

// A Shape is the common part of similar pieces of work: the member for their kind is set.
type Shape struct {
	Kernel KernelShape
	Memcpy MemcpyShape
	Memset MemsetShape
	ID     uint32 // number of the shape in its log
}

// A KernelShape is the common part of launches of a kernel.
type KernelShape struct {
	Name                                                   string // mangled
	Grid, Block, Cluster                                   [3]uint32
	StaticShared, DynamicShared, LocalPerThread, Registers uint32
}

// A MemcpyShape is a copy's size and direction.
type MemcpyShape struct {
	Bytes                      uint64
	CopyKind, SrcKind, DstKind uint32
	SrcDevice, DstDevice       uint32
}

// Pageable reports whether one side of a copy is pageable memory.
func (m *MemcpyShape) Pageable() bool {
	return m.SrcKind == cudaapi.PageableKind || m.DstKind == cudaapi.PageableKind
}

// A MemsetShape is a memset's size and value.
type MemsetShape struct {
	Bytes uint64
	Value uint32
}

// A KernelName is a kernel's name, demangled.
type KernelName struct {
	Short string // without return type and parameters, which can be thousands of characters long for templates
	Full  string
}

// KernelNames demangles the names of kernels, each once. It is not safe for concurrent use.
type KernelNames map[string]KernelName

// Of demangles a name.
func (n KernelNames) Of(mangled string) KernelName {
	name, ok := n[mangled]
	if !ok {
		name = demangled(mangled)
		n[mangled] = name
	}
	return name
}

func demangled(mangled string) KernelName {
	if mangled == "" {
		return KernelName{Short: "(unnamed kernel)"}
	}
	short := plainName(mangled, demangle.NoParams)
	return KernelName{
		Short: strings.TrimPrefix(short, "void "),
		Full:  plainName(mangled),
	}
}

// Title is the name that work is shown under.
func (n KernelNames) Title(w *Work) string {
	switch w.Kind {
	case MemcpyWork:
		return "Memcpy " + cudaapi.MemcpyKindName(w.Shape.Memcpy.CopyKind)
	case MemsetWork:
		return "Memset"
	}
	return n.Of(w.Shape.Kernel.Name).Short
}

// Bounds of a demangled name: a short mangled name can stand for one of any length.
const (
	longestMangled = 1 << 16
	longestPlain   = 20 // as a power of 2
)

// plainName is the plain form of a mangled name, the name itself where it has none.
func plainName(name string, options ...demangle.Option) string {
	if len(name) > longestMangled {
		return name
	}
	return demangle.Filter(name, append(options, demangle.LLVMStyle, demangle.MaxLength(longestPlain))...)
}
