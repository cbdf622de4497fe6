package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// Categories of what is no call.
const (
	categoryNVTX   = "nvtx"
	categoryCUPTI  = "cupti"
	categoryMemory = "memory"
)

// timed is a time, or the beginning of the recording in the place of one that is not known.
func (l *catalog) timed(at uint64) uint64 {
	if at == 0 {
		return l.first
	}
	return at
}

// overheads takes a block of what CUPTI and the driver took for themselves.
func (c *converter) overheads(b *tracelog.Block) {
	var x tracelog.Overhead
	for i := range b.N {
		if !c.wanted(b, i) {
			continue
		}
		x.Read(b, i)
		start := c.timed(x.Start)
		s := c.processes[x.PID].parts.at(start)
		if s.overheads == nil {
			s.overheads = newSpread(s.Process, "CUPTI overhead", categoryCUPTI)
		}
		sp := c.spans.get()
		sp.Name, sp.Start, sp.End = overheadName(x.OverheadKind), start, end(start, x.Dur)
		if x.TID != 0 {
			sp.Args = []Detail{{Name: "thread", Value: uint64(c.globalTID(x.PID, x.TID))}}
		}
		s.overheads.add(sp)
		c.found.overhead += x.Dur
	}
}

var poolOperations = [...]string{1: "created", 2: "destroyed", 3: "trimmed"}

// memoryPools takes a block of what happened to memory pools.
func (c *converter) memoryPools(b *tracelog.Block) {
	var m tracelog.MemoryPool
	for i := range b.N {
		if !c.wanted(b, i) {
			continue
		}
		m.Read(b, i)
		what := "changed"
		if int(m.Operation) < len(poolOperations) && m.Operation > 0 {
			what = poolOperations[m.Operation]
		}
		at := c.timed(m.Time)
		s := c.processes[m.PID].parts.at(at)
		if s.pools == nil {
			s.pools = newSpread(s.Process, "memory pools", categoryMemory)
		}
		sp := c.spans.get()
		*sp = Span{
			Name: "pool " + what, Start: at, End: at, Instant: true,
			Args: []Detail{
				{Name: "pool", Value: m.Address, Hex: true},
				{Name: "gpu", Value: uint64(c.gpu(m.PID, m.Device))},
				{Name: "size", Value: m.Size},
				{Name: "release_threshold", Value: m.ReleaseThreshold},
				{Name: "min_bytes_to_keep", Value: m.MinBytesToKeep},
				{Name: "correlation", Value: uint64(m.Correlation)},
			},
		}
		s.pools.add(sp)
	}
}
