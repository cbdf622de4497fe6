package join

import (
	"github.com/cudatrace/cudatrace/convert/merge"
	"github.com/cudatrace/cudatrace/convert/spans"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/convert/waits"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// Found counts what was joined.
type Found struct {
	Calls      CallStats
	Work       WorkStats
	Waits      waits.Stats
	NVTX       spans.NVTXStats
	OverheadNS uint64 // time that CUPTI took for itself
	Forced     uint64 // calls that were shown before all that may belong to them was known
	LeftOut    uint64 // slices and pieces of work that were read and are not shown
	Taken      uint64 // records that the filter wanted, 0 without one
	PeakDevice uint64 // the largest number of bytes of device memory that were live on one GPU
	Untracked  uint64 // allocations beyond memory.MaxLive
}

// Slices is the number of calls and pieces of work so far.
func (f *Found) Slices() uint64 { return f.Calls.Pairs + f.Calls.APIs + f.Work.Total() }

// CallStats count calls.
type CallStats struct {
	merge.Counts
	Joined       uint64 // API records with the uprobe pair of their call
	Unprobed     uint64 // API records of calls that succeeded and no uprobe saw
	Uncorrelated uint64 // calls that create GPU work, succeeded, and have no API record
	Calls        uint64 // outermost slices: what the program called
	Failed       uint64 // outermost calls that returned an error
	Unfinished   uint64 // calls that had not returned
	Clipped      uint64 // slices that crossed the end of the one around them
	Late         uint64 // slices that began before what was shown already, and were moved up
	Launches     uint64 // calls that launched a kernel, the outermost of each
	Located      uint64 // of Calls, those whose caller is known
	Errors       map[Failure]uint64
	Functions    []FunctionCalls // of Calls, by Function.ID
}

// FunctionCalls are the outermost calls of a function.
type FunctionCalls struct {
	Function *timeline.Function // nil without a call
	Calls    uint64
}

func (s *CallStats) countFunction(f *timeline.Function) {
	if n := int(f.ID) + 1 - len(s.Functions); n > 0 {
		s.Functions = append(s.Functions, make([]FunctionCalls, n)...)
	}
	of := &s.Functions[f.ID]
	of.Function = f
	of.Calls++
}

// A Failure is a function with the error that it returned.
type Failure struct {
	Function, Library string
	Ret               int32
}

// count counts a call that is about to be shown. correlated says that one that creates
// GPU work should have an API record.
func (s *CallStats) count(c *call, correlated bool) {
	// A call that fails may do so before it reaches the probed function.
	if c.state&source == fromAPI && c.Ret == 0 {
		s.Unprobed++
	}
	if c.state&source == fromPair && c.fn.GPUWork && c.Ret == 0 && c.Flags == 0 && correlated {
		s.Uncorrelated++
	}
	if c.Flags&timeline.Unfinished != 0 {
		s.Unfinished++
	}
	if c.Depth > 0 || c.state&preparing != 0 {
		return
	}
	s.Calls++
	s.countFunction(c.Function)
	if c.Caller != nil {
		s.Located++
	}
	if c.Ret == 0 || c.Ret == cudaapi.NotReady || c.Ret == cudaapi.Deinitialized || c.Flags&(timeline.Unfinished|timeline.NoReturn) != 0 {
		return
	}
	s.Failed++
	if s.Errors == nil {
		s.Errors = make(map[Failure]uint64)
	}
	s.Errors[Failure{c.Name, c.Library, c.Ret}]++
}

// WorkStats count GPU work and how much of it found its call.
type WorkStats struct {
	Kernels, Copies, Memsets, Graphs uint64
	Matched                          uint64
	Early                            uint64 // started before the call that caused it
}

// Total is the number of all pieces of work.
func (s *WorkStats) Total() uint64 { return s.Kernels + s.Copies + s.Memsets + s.Graphs }

func (s *WorkStats) count(k timeline.WorkKind) {
	switch k {
	case timeline.KernelWork:
		s.Kernels++
	case timeline.MemcpyWork:
		s.Copies++
	case timeline.MemsetWork:
		s.Memsets++
	case timeline.GraphWork:
		s.Graphs++
	}
}
