package read

import (
	"github.com/cudatrace/cudatrace/convert/internal/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A queuedBlock is a kept block of one thread or stream.
type queuedBlock struct {
	*tracelog.Block
	from, to uint64 // earliest and latest start
	nth      uint64 // number of the block in the order of queueing
	sorted   bool   // its rows are in order
}

// before is the order in which blocks are started.
func (b *queuedBlock) before(o *queuedBlock) bool {
	return b.from < o.from || b.from == o.from && b.nth < o.nth
}

// A blockQueue has the blocks that have not been started. The first is the one with the earliest start.
type blockQueue struct {
	heap []queuedBlock // a binary heap: block i, counted from 1, comes behind block i/2
	rows int           // in all blocks
	next uint64
}

// push adds a block. distinct says that the order of rows depends on more than the start, so
// that rows with equal starts count as out of order.
func (q *blockQueue) push(b *tracelog.Block, distinct bool) {
	starts := b.Column(PlacementOf(b.Kind).Start)
	least := uint64(0)
	if distinct {
		least = 1
	}
	queued := queuedBlock{b, starts.At(0), starts.At(b.N - 1), q.next, true}
	q.next++
	last := queued.from
	for i := 1; i < b.N; i++ {
		at := starts.At(i)
		if at < last || at-last < least {
			queued.sorted = false
			break
		}
		last = at
	}
	for i := 0; i < b.N && !queued.sorted; i++ {
		at := starts.At(i)
		queued.from, queued.to = min(queued.from, at), max(queued.to, at)
	}
	q.heap = append(q.heap, queued)
	for i := len(q.heap); i > 1 && q.heap[i-1].before(&q.heap[i/2-1]); i /= 2 {
		q.heap[i-1], q.heap[i/2-1] = q.heap[i/2-1], q.heap[i-1]
	}
	q.rows += b.N
}

// first is the earliest start, Never without a block.
func (q *blockQueue) first() uint64 {
	if q.empty() {
		return timeline.Never
	}
	return q.heap[0].from
}

func (q *blockQueue) empty() bool { return len(q.heap) == 0 }

// pop removes the first block.
func (q *blockQueue) pop() queuedBlock {
	b, last := q.heap[0], len(q.heap)-1
	q.heap[0], q.heap[last] = q.heap[last], queuedBlock{}
	q.heap = q.heap[:last]
	for i := 1; 2*i <= last; {
		least := 2 * i
		if least < last && q.heap[least].before(&q.heap[least-1]) {
			least++
		}
		if !q.heap[least-1].before(&q.heap[i-1]) {
			break
		}
		q.heap[i-1], q.heap[least-1] = q.heap[least-1], q.heap[i-1]
		i = least
	}
	q.rows -= b.N
	return b
}

// extent adds the blocks that begin before a time to x.
func (q *blockQueue) extent(x *Extent, before uint64) {
	for i := range q.heap {
		if b := &q.heap[i]; b.from < before {
			x.widen(b.from, min(b.to, before), b.N)
		}
	}
}

// An Extent is a number of records, with the earliest and the latest of their starts.
type Extent struct {
	From, To uint64
	Rows     int
}

// NoExtent is the extent of no records.
var NoExtent = Extent{From: timeline.Never}

// Join adds another extent.
func (x *Extent) Join(o Extent) { x.widen(o.From, o.To, o.Rows) }

func (x *Extent) widen(from, to uint64, rows int) {
	x.From, x.To, x.Rows = min(x.From, from), max(x.To, to), x.Rows+rows
}

// Rows iterate over the rows of a block in the order of their starts.
type Rows struct {
	order []uint32 // empty where the rows of the block are in order
	at, n int
}

// reset starts with the first of n rows. before gives the order of rows that are not sorted.
func (r *Rows) reset(n int, sorted bool, before func(a, b *uint32) bool) {
	r.order, r.at, r.n = r.order[:0], 0, n
	if sorted {
		return
	}
	for i := range n {
		r.order = append(r.order, uint32(i))
	}
	ordered.Insert(r.order, 0, before)
}

// Next returns the next row, false at the end.
func (r *Rows) Next() (row int, ok bool) {
	i := r.at
	if i == r.n {
		return 0, false
	}
	r.at++
	if len(r.order) > 0 {
		return int(r.order[i]), true
	}
	return i, true
}

// left is the number of rows still to come.
func (r *Rows) left() int { return r.n - r.at }
