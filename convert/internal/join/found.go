package join

import (
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/sampled"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Found has the counts of a joined log.
type Found struct {
	Calls      callStats
	Work       workStats
	Waits      waitStats
	NVTX       nvtxStats
	OverheadNS uint64 // time that CUPTI took for itself
	Forced     uint64 // calls that were shown before everything that belongs to them was known
	Late       uint64 // calls and other records that came after later ones had been shown: their slices begin later
	TooDeep    uint64 // calls, ranges and functions in more than maxDepth others
	LeftOut    uint64 // slices and pieces of work that were read but not shown
	Taken      uint64 // records that the filter selected, 0 without a filter
	PeakDevice uint64 // largest number of live bytes of device memory on one GPU
	Untracked  uint64 // allocations and states of memory pools beyond MaxAllocations
	Unopened   uint64 // NVTX ranges beyond maxOpenRanges
	Uncaptured uint64 // captured calls and executable graphs beyond maxCaptured
	Span       Span   // from the first call to the last end of a call or of GPU work

	Collectives CollectiveBounds
	Metrics     []sampled.GPU // main figures of the sampled GPUs
}

// CollectiveBounds count what is beyond the bounds of a log's collectives.
type CollectiveBounds struct {
	LeftOut uint64 // kernels
	Unnamed uint64 // calls of NCCL, and of CUDA in them, that are too many to name communicators
}

// A Span is a part of time.
type Span struct{ First, Last uint64 }

// widen widens the span to an interval. A hostile log may hold one that ends before it begins.
func (s *Span) widen(from, to uint64) {
	if s.First == 0 || from < s.First {
		s.First = from
	}
	s.Last = max(s.Last, from, to)
}

// Duration is the length of the span.
func (s *Span) Duration() uint64 { return s.Last - s.First }

// Slices is the number of calls and pieces of work that were shown.
func (f *Found) Slices() uint64 { return f.Calls.Pairs + f.Calls.APIs + f.Work.Total() }

// callStats count calls.
type callStats struct {
	read.Counts
	Joined       uint64 // API records that were merged with the uprobe pair of their call
	Unprobed     uint64 // API records of successful calls that no uprobe saw
	Uncorrelated uint64 // successful calls that create GPU work but have no API record
	AtEnd        uint64 // such calls, made between the last records and the end of their program, or without work by then
	AtExec       uint64 // the same, before the program ran another one by exec
	Calls        uint64 // outermost slices: the calls that the program made
	Failed       uint64 // outermost calls that returned an error
	Unfinished   uint64 // calls that had not returned
	Clipped      uint64 // slices that were cut at the end of the slice around them
	Launches     uint64 // calls that launched a kernel; of nested calls only the outermost counts
	Unnamed      uint64 // those of Launches whose kernel is unknown, in programs without GPU work
	Located      uint64 // those of Calls whose caller is known
	Errors       map[Failure]uint64
	Functions    []FunctionCalls // parts of Calls, by Function.ID
}

// FunctionCalls counts the outermost calls of a function.
type FunctionCalls struct {
	Function *timeline.Function // nil if Calls is 0
	Calls    uint64
}

func (s *callStats) countFunction(f *timeline.Function) {
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

// workStats count GPU work, and the work whose call was found.
type workStats struct {
	timeline.WorkCounts
	Matched    uint64
	Early      uint64    // pieces that started before the call that caused them
	Captured   uint64    // pieces of graphs whose captured call was found
	Uncaptured [4]uint64 // pieces of graphs without one, by timeline.Uncaptured
	Bodies     uint64    // pieces in the bodies of conditional graph nodes whose call was not found
}

// nvtxStats count a program's ranges and marks.
type nvtxStats struct {
	Ranges, Marks uint64
	Unmatched     uint64 // starts without an end, and ends without a start
}

// waitStats count arrows and waits.
type waitStats struct {
	Arrows    uint64 // from work to a call that waited for it
	Ambiguous uint64 // waits that fit several streams
	Partial   uint64 // waits whose search met a bound
}
