package timeline

import (
	"cmp"
	"fmt"
)

// ExitExec is how a program ended that ran another one in its place.
const ExitExec = "exec"

// A Process is one program in one process. A process that runs exec becomes several of these,
// with one PID. The event comes before all events that refer to it.
type Process struct {
	// PID and PPID are the timeline's own. In a timeline of several logs they differ from
	// the host's, so that PIDs stay unique.
	PID, PPID uint32
	Name      string
	Args      []string // the command line, with the program's name first
	Host      string
	Start     uint64 // when the recorder first saw it, 0 when not known
	End       uint64 // when it ended, 0 when not known
	Exit      string // how it ended, "exit code 0", "signal 11 (SIGSEGV)", ExitExec; "" when not known
	Clock     *Clock // that converted the times of its log: processes of one host have the same one
	// from when on it is known, where it may have used GPUs before: it was attached to, or a filter begins later; else 0
	Midway uint64
	Circumstances

	Communicators map[uint64]uint32 // of NCCL, by hash: how many ranks each has, where NCCL tells it
}

// Circumstances are those under which a program ran. What is not known is "".
type Circumstances struct {
	Rank      Rank
	Folder    string            // that it worked in
	Runtime   string            // version of the CUDA runtime, as far as the name of the library tells it: 13 or 13.0.96
	CUDA      CUDAVersion       // the same as a number, 0 where the name does not tell its minor part
	NCCL      string            // version of NCCL, likewise
	Variables map[string]string // of its environment, those that are recorded; docs/metadata.md lists them
}

// A CUDAVersion is a version of CUDA as CUDA has it: 13000 for 13.0.
type CUDAVersion uint32

// String is the version as people write it, "" for 0.
func (v CUDAVersion) String() string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
}

// A CUPTIVersion is the version of CUPTI's interface, 130000.
type CUPTIVersion uint32

// String is the version, "" for 0.
func (v CUPTIVersion) String() string {
	if v == 0 {
		return ""
	}
	return fmt.Sprint(uint32(v))
}

// A Thread is a thread that made calls or NVTX ranges.
type Thread struct {
	Process *Process
	TID     uint32 // the timeline's own, like Process.PID
	Name    string
	Main    bool
	Python  bool // launches of its log have their Python frames, where there are any
	Spans   bool // its log has PyTorch's operators with their times: Operators are these, not as calls show them
}

// Title is the thread's name, of a main thread without one that of its process.
func (t *Thread) Title() string {
	if t.Main {
		return cmp.Or(t.Name, t.Process.Name)
	}
	return t.Name
}

// A Track holds spans beside the calls, such as NVTX ranges or CUPTI's overhead.
type Track struct {
	Process  *Process
	Thread   *Thread // the thread of the track; nil for a track of the process
	Stream   *Stream // the stream of the track, for ranges of Thread whose work ran there; nil for none
	Category Category
	Domain   string // of NVTX ranges and marks; "" for NVTX's default domain, and on the tracks of streams
	Apart    bool   // functions on a clock of their own: they may not nest with the calls of their thread
}

// Title is the track's name for people, "" for functions that nest with calls: they have no track of their own.
func (t *Track) Title() string {
	switch {
	case t.Domain != "":
		return "NVTX: " + t.Domain
	case t.Category == Functions && !t.Apart:
		return ""
	case t.Category == Operators && t.Thread.Spans:
		return "PyTorch"
	}
	return trackTitles[t.Category]
}

var trackTitles = map[Category]string{NVTX: "NVTX", GPURanges: "NVTX", CUPTI: "CUPTI overhead", Memory: "memory pools",
	Functions: "functions", PythonFunctions: "Python, as seen at launches", Operators: "PyTorch, as seen at launches"}

// A Category is the kind of the spans of a track.
type Category string

// The categories.
const (
	NVTX      Category = "nvtx"
	GPURanges Category = "nvtx_gpu" // NVTX ranges on the streams where their work ran
	CUPTI     Category = "cupti"    // time that CUPTI took for itself
	Memory    Category = "memory"   // memory pools

	Functions       Category = "function" // functions of any library, on the tracks of calls unless they are Apart
	PythonFunctions Category = "python"   // Python functions, as the stacks of calls show them
	Operators       Category = "pytorch"  // PyTorch's operators: with their times, or likewise
)

// A Span is a range on a track, or an instant.
type Span struct {
	Name  string
	Start uint64
	End   uint64 // equal to Start for an instant
	Depth int32  // number of spans around it on its track
	Open  bool   // End was not known when the span began: only its SpanEnd has it
	Flags uint16 // Unfinished, NoReturn, CutBefore
	Args  []Detail

	// Number is that of a Python function or an operator among those of its process, from 1 on, in the order of their
	// beginnings; Outer that of the one around it, 0 for none. Both are 0 for other spans.
	Number, Outer uint64

	// Ranges are, for an NVTX range, the range and the ranges around it; for an NVTX mark, the
	// ranges around it. Nil for other spans.
	Ranges *RangeStack

	Function *FunctionCall // nil for other spans
	Operator *Operator     // likewise
}

// A FunctionCall is a call of a function of any library. Its arguments and its result are whole registers.
type FunctionCall struct {
	*Function
	Args     []uint64
	Ret      uint64
	Returned bool // Ret is known
}

// A Detail is a fact shown with a span: Text, or Value where Text is empty.
type Detail struct {
	Name  string
	Value uint64
	Text  string
	Hex   bool // Value is an address
}

// A Counter is a number of bytes that changes over time.
type Counter struct {
	Process *Process
	Name    string
	GPU     uint32 // GPU.Index
	Host    bool   // it counts memory of the host, and belongs to no GPU
	Device  bool   // it counts the allocations in the GPU's memory
	Sampled bool   // a view shows a bounded number of its values
}
