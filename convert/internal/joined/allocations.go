package joined

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A liveKey is memory that has been allocated.
type liveKey struct {
	process *timeline.Process
	address uint64
}

// maxLive bounds the allocations that wait for their release. The rows of further
// ones say that it is not known.
const maxLive = 1 << 20

// allocation takes an allocation, or a release: an allocation has its row when it is freed, or at the end.
func (s *Sink) allocation(a *timeline.Allocation) {
	key := liveKey{a.Process, a.Address}
	of := s.live[key]
	switch {
	case a.Release && of != nil:
		s.allocationRow(of, bounded(a.Time-min(when(of), a.Time)), false)
		delete(s.live, key)
	case a.Release:
	case of == nil && len(s.live) >= maxLive:
		s.allocationRow(a, NoNumber, false)
	default:
		if of != nil { // its release is missing
			s.allocationRow(of, NoNumber, false)
		}
		kept := *a
		s.live[key] = &kept
	}
}

// when is the time of an allocation, which may be before that of the filter.
func when(a *timeline.Allocation) uint64 { return cmp.Or(a.Allocated, a.Time) }

// unfreed adds the allocations that were not freed.
func (s *Sink) unfreed() {
	all := slices.SortedFunc(maps.Values(s.live), func(a, b *timeline.Allocation) int {
		return cmp.Or(cmp.Compare(when(a), when(b)), cmp.Compare(a.Process.PID, b.Process.PID),
			cmp.Compare(a.Address, b.Address))
	})
	for _, a := range all {
		s.allocationRow(a, NoNumber, true)
	}
}

func (s *Sink) allocationRow(a *timeline.Allocation, dur int64, unfreed bool) {
	p := s.part(a.Process)
	r := Allocation{
		Start: s.unix(when(a)), Dur: dur, Unfreed: unfreed, Bytes: bounded(a.Bytes), Memory: cudaapi.MemoryKindName(a.Kind),
		Address: fmt.Sprintf("%#x", a.Address), PID: s.options.HostPID(a.Process.PID), TID: None, GPU: a.GPU,
		Correlation: known(a.Correlation), Caller: p.caller(a.Call.Caller), StackID: p.stack(a.Call.Python),
	}
	if a.TID != 0 {
		r.TID = s.options.HostPID(a.TID)
	}
	if cudaapi.MemoryUseOf(a.Kind) == cudaapi.PinnedMemory {
		r.GPU = None
	}
	if a.Call.Function != nil {
		r.Call = a.Call.Name
	}
	row(p, r)
}

// torchBlock adds a block of PyTorch's cache.
func (s *Sink) torchBlock(b *timeline.TorchBlock) {
	p := s.part(b.Process)
	r := TorchBlock{Start: s.unix(cmp.Or(b.Since, b.Time)), Bytes: b.Bytes, Held: bounded(b.Held),
		Reserved: bounded(b.Reserved), OutOfMemory: b.OutOfMemory, PID: s.options.HostPID(b.Process.PID),
		TID: s.options.HostPID(b.Thread.TID), Thread: b.Thread.Title(), GPU: b.GPU, StackID: p.stack(b.Python)}
	if b.Address != 0 {
		r.Address = fmt.Sprintf("%#x", b.Address)
	}
	r.Operator, r.OperatorStack = p.operator(b.Operator)
	row(p, r)
}
