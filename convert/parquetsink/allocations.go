package parquetsink

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A liveKey is memory that has been allocated.
type liveKey struct {
	process *timeline.Process
	address uint64
}

// maxLive bounds the allocations that wait for their release. Of further ones nothing is known of it.
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
		s.allocationRow(a, parquet.NullInt, false)
	default:
		if of != nil { // its release is missing
			s.allocationRow(of, parquet.NullInt, false)
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
		return cmp.Or(cmp.Compare(when(a), when(b)), cmp.Compare(a.Process.PID, b.Process.PID), cmp.Compare(a.Address, b.Address))
	})
	for _, a := range all {
		s.allocationRow(a, parquet.NullInt, true)
	}
}

func (s *Sink) allocationRow(a *timeline.Allocation, dur int64, unfreed bool) {
	p := s.part(a.Process)
	b := p.buffer(allocationTable)
	b.int(s.unix(when(a)))
	b.int(dur)
	b.flag(unfreed)
	b.uint(a.Bytes)
	b.text(cudaapi.MemoryKindName(a.Kind))
	b.text(fmt.Sprintf("%#x", a.Address))
	b.small(s.options.HostPID(a.Process.PID))
	tid := uint32(null)
	if a.TID != 0 {
		tid = s.options.HostPID(a.TID)
	}
	b.small(tid)
	gpu := a.GPU
	if cudaapi.MemoryUseOf(a.Kind) == cudaapi.PinnedMemory {
		gpu = null
	}
	b.small(gpu)
	b.known(a.Correlation)
	name := ""
	if a.Call.Function != nil {
		name = a.Call.Name
	}
	b.text(name)
	b.small(b.caller(p, a.Call.Caller))
	b.small(p.stack(a.Call.Python))
	s.end(b)
}
