package timeline

import (
	"strings"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A Function is a function of CUDA's API that was called.
type Function struct {
	Name    string // the symbol, "cudaLaunchKernel"
	Library string // "runtime" or "driver"
	Driver  string // the driver's function whose call inside this runtime function is part of the slice; "" for none
	Params  []Param
	Wait    cudaapi.Wait // what its calls wait for
	ID      uint32       // its number in the log, from 0 without gaps

	Launch    bool          // it launches a kernel, a graph, or a function of the host
	Async     bool          // its calls do not wait for the work that they make
	PerThread bool          // its default stream is that of the calling thread
	Range     cudaapi.Range // whether it starts or stops a profiler
}

// NewFunction returns a function with what its name tells.
func NewFunction(name, library string, id uint32) Function {
	f := Function{Name: name, Library: library, ID: id,
		Launch: strings.Contains(name, "Launch"), Async: strings.Contains(name, "Async"),
		PerThread: cudaapi.PerThreadStream(name)}
	if known := cudaapi.ByName(name); known != nil {
		f.Range = known.Range
	}
	return f
}

// A Param is a recorded argument of a function.
type Param struct {
	Name string
	Type string // the type word of tracelog.Function.Args: "ptr", "handle", "u32"
	Of   Handle
}

// A Handle is what an argument is the handle of.
type Handle uint8

// The handles that are told apart.
const (
	OtherArgument Handle = iota // the handle of something else, or none
	StreamHandle
	EventHandle
)

// Arguments are the arguments of a call. Programs repeat their calls, so equal lists are nearly
// always one value.
type Arguments struct {
	Args []uint64
	ID   uint64 // number of the list in its log, 0 for the empty list; equal lists may have several numbers
}

// A Kernel is the kernel that a function handle stands for.
type Kernel struct {
	Name string // mangled
}

// Flags of a Slice.
const (
	Unfinished = 1 << 0 // the call had not returned when recording ended: End is a guess
	NoReturn   = 1 << 1 // the call was left without returning (longjmp, exception)
)

// CutBefore is the flag of a Span that began before the recording.
const CutBefore = 1 << 2

// Prepares is the flag of a Slice that is part of the call that the next slice of the thread shows: the runtime's
// function called the driver for it, and then for the work itself. The two count as one call.
const Prepares = 1 << 5

// A Slice is a call on its thread's track.
type Slice struct {
	*Function
	*Arguments
	End      uint64
	Kernel   *Kernel     // the kernel that the call launched, where no GPU work names it
	Caller   *Caller     // where the call was made, nil if unknown
	Python   *Python     // the innermost Python frame that made the call, of a backward operator that made its forward one; nil if unknown
	Operator *Operator   // PyTorch's innermost operator that the call was made in, nil if unknown
	Ranges   *RangeStack // the NVTX ranges that were open on the thread when the call began
	links    *links      // nil for nearly all slices
	// The following fields are read again when the call's work arrives. They lie together,
	// because work arrives in another order than slices have in memory.
	Start       uint64
	Stream      *Stream // stream of the call's work, of the last piece where there are several
	first       [1]uint64
	Correlation uint32 // CUPTI's correlation ID, 0 when no API record gave one
	Depth       int32  // number of slices around it
	Ret         int32  // CUresult or cudaError_t
	Flags       uint16
	Launched    *Shape // shape of the call's first piece of work, nil without work
}

// links hold the data that few slices have: several pieces of work, a wait, a graph.
type links struct {
	work  []uint64
	waits []Awaited
	graph *GraphOrigin
}

// A GraphOrigin says from where a graph comes: from a capture.
type GraphOrigin struct {
	Begin  *Call   // that began the capture
	Python *Python // the innermost frame that all captured calls have above them, nil for none
}

// Text is the line that made the graph, else the place that began its capture.
func (o *GraphOrigin) Text() string {
	if o.Python != nil {
		return o.Python.Own().Text()
	}
	return o.Begin.Place()
}

// An Awaited is a piece of GPU work that a call waited for.
type Awaited struct {
	Work       uint64 // Work.ID
	Stream     *Stream
	Start, End uint64
}

// Work returns the IDs of the GPU work that the call caused. The list is valid as
// long as the slice.
func (s *Slice) Work() []uint64 {
	switch {
	case s.links != nil && s.links.work != nil:
		return s.links.work
	case s.first[0] != 0:
		return s.first[:]
	}
	return nil
}

// HasWork reports whether the call caused GPU work.
func (s *Slice) HasWork() bool { return s.first[0] != 0 }

// AddWork adds a piece of GPU work that the call caused.
func (s *Slice) AddWork(id uint64) {
	if s.first[0] == 0 {
		s.first[0] = id
		return
	}
	l := s.more()
	if l.work == nil {
		l.work = append(l.work, s.first[0])
	}
	l.work = append(l.work, id)
}

// Waits returns the GPU work that the call waited for.
func (s *Slice) Waits() []Awaited {
	if s.links == nil {
		return nil
	}
	return s.links.waits
}

// AddWait adds a piece of GPU work that the call waited for.
func (s *Slice) AddWait(a Awaited) {
	l := s.more()
	l.waits = append(l.waits, a)
}

// SetGraph notes from where the graph comes that the call launched.
func (s *Slice) SetGraph(o *GraphOrigin) { s.more().graph = o }

// Graph returns from where the graph comes that the call launched, nil where that is not known.
func (s *Slice) Graph() *GraphOrigin {
	if s.links == nil {
		return nil
	}
	return s.links.graph
}

// Forget removes the slice's work and waits.
func (s *Slice) Forget() { s.first[0], s.links = 0, nil }

func (s *Slice) more() *links {
	if s.links == nil {
		s.links = new(links)
	}
	return s.links
}

// Handle returns the argument of a call that is the handle of a stream or an event.
func (s *Slice) Handle(of Handle) (value uint64, known bool) {
	for i, v := range s.Args {
		if i < len(s.Params) && s.Params[i].Of == of {
			return v, true
		}
	}
	return 0, false
}

// ErrorMeaning says what the call's error means, "" for a call that succeeded and for a rare error.
func (s *Slice) ErrorMeaning() string { return cudaapi.ErrorMeaning(s.Ret) }

// ErrorName is CUDA's name for the call's error, "" for a call that succeeded.
func (s *Slice) ErrorName() string { return cudaapi.FailureName(s.Library, s.Ret) }

// Ending says how the call ended where it did not succeed: "error" with the error's name, or why
// its result is not known. Both are "" for a call that succeeded.
func (s *Slice) Ending() (kind, text string) {
	switch {
	case s.Flags&Unfinished != 0:
		return "unfinished", "had not returned when recording ended"
	case s.Flags&NoReturn != 0:
		return "no_return", "left without returning"
	case s.Ret != 0:
		return "error", s.ErrorName()
	}
	return "", ""
}

// Failed reports whether the call returned an error that is worth a look: "not ready" answers a
// query, "deinitialized" every cleanup after CUDA has shut down.
func (s *Slice) Failed() bool {
	return s.Ret != 0 && s.Ret != cudaapi.ErrorNotReady && s.Ret != cudaapi.ErrorDeinitialized &&
		s.Flags&(Unfinished|NoReturn) == 0
}
