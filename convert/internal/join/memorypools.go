package join

import (
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// MaxMemoryPools bounds the memory pools whose state is kept.
const MaxMemoryPools = 1 << 16

// A poolKey names a memory pool of a process. An imported pool is its exporter's, and not counted.
type poolKey struct {
	gpu     uint32
	address uint64
}

// A poolState is how many bytes a pool has reserved, and how many of them are allocated.
type poolState struct{ reserved, used uint64 }

// A poolEvent is the state of a pool from a time on.
type poolEvent struct {
	poolKey
	poolState
}

// addPool takes the record of a pool at a time, on a GPU of the timeline.
func (p *processMemory) addPool(m *tracelog.MemoryPool, at uint64, gpu uint32) {
	if m.PoolKind != cudaapi.LocalPool || m.Address == 0 {
		return
	}
	e := memoryEvent{process: p, at: at, what: ofPool, pool: &poolEvent{poolKey: poolKey{gpu, m.Address}}}
	if m.Operation != cudaapi.PoolDestroyed {
		e.pool.poolState = poolState{m.Size, m.Used}
	}
	p.usage.pending.Add(e)
}

// setPool sets the state of a pool. A pool without memory is not kept.
func (p *processMemory) setPool(k poolKey, at uint64, s poolState) {
	before, known := p.pools[k]
	if !known && p.usage.pools >= MaxMemoryPools {
		p.usage.DroppedPools++
		return
	}
	s.reserved = p.sumPools("memory pools, reserved", k.gpu, at, before.reserved, s.reserved)
	s.used = p.sumPools("memory pools, used", k.gpu, at, before.used, s.used)
	p.usage.pools -= len(p.pools)
	if s == (poolState{}) {
		delete(p.pools, k)
	} else {
		p.pools[k] = s
	}
	p.usage.pools += len(p.pools)
}

// sumPools replaces the part of a pool in a counter of all pools, and returns it: the sum does not wrap,
// whatever the log holds.
func (p *processMemory) sumPools(name string, gpu uint32, at, before, now uint64) uint64 {
	c := p.counterOf(name, timeline.Counter{GPU: gpu, Sampled: true})
	others := c.live - before
	now = min(now, math.MaxInt64-min(others, math.MaxInt64))
	if others+now != c.live {
		p.set(c, at, others+now)
	}
	return now
}
