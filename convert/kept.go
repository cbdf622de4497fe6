package convert

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A keptBlock is a block of one thread or stream that is not gone through yet, or not to
// its end.
type keptBlock struct {
	*tracelog.Block
	from, to uint64 // the earliest and the latest start
	nth      uint64 // of all that were kept
	sorted   bool   // no row starts before the one above it
}

// keptBlocks are blocks that are not gone through yet, by their earliest start.
type keptBlocks struct {
	list []keptBlock
	head int // of the first that is still there
	rows int
	next uint64 // keptBlock.nth
}

// add takes a block. Where starts are not distinct it depends on more than these which row
// comes first.
func (k *keptBlocks) add(b *tracelog.Block, distinct bool) {
	starts := b.Column(eventKinds[b.Kind].start)
	least := uint64(0)
	if distinct {
		least = 1
	}
	kept := keptBlock{b, starts.At(0), starts.At(b.N - 1), k.next, true}
	k.next++
	last := kept.from
	for i := 1; i < b.N; i++ {
		at := starts.At(i)
		if at < last || at-last < least {
			kept.sorted = false
			break
		}
		last = at
	}
	for i := 0; i < b.N && !kept.sorted; i++ {
		at := starts.At(i)
		kept.from, kept.to = min(kept.from, at), max(kept.to, at)
	}
	i := len(k.list)
	for i > k.head && k.list[i-1].from > kept.from {
		i--
	}
	k.list = slices.Insert(k.list, i, kept)
	k.rows += b.N
}

// first is the earliest start.
func (k *keptBlocks) first() uint64 {
	if k.head == len(k.list) {
		return never
	}
	return k.list[k.head].from
}

// any says whether there is a block.
func (k *keptBlocks) any() bool { return k.head < len(k.list) }

// take removes the first block.
func (k *keptBlocks) take() keptBlock {
	b := k.list[k.head]
	k.list[k.head] = keptBlock{}
	k.rows -= b.N
	if k.head++; k.head > len(k.list)/2 {
		n := copy(k.list, k.list[k.head:])
		clear(k.list[n:])
		k.list, k.head = k.list[:n], 0
	}
	return b
}

// extent is the time between the earliest and the latest start below a time.
func (k *keptBlocks) extent(below uint64) (from, to uint64, rows int) {
	from = never
	for i := k.head; i < len(k.list) && k.list[i].from < below; i++ {
		b := &k.list[i]
		from, to = min(from, b.from), max(to, min(b.to, below))
		rows += b.N
	}
	return from, to, rows
}

// rowOrder goes through the rows of a block by their starts.
type rowOrder struct {
	rows []uint32 // in order, unless all are
	at   int
	n    int
}

// of begins with the first of n rows; where they are not in order, before gives that.
func (o *rowOrder) of(n int, sorted bool, before func(a, b *uint32) bool) {
	o.rows, o.at, o.n = o.rows[:0], 0, n
	if sorted {
		return
	}
	for i := range n {
		o.rows = append(o.rows, uint32(i))
	}
	insertSorted(o.rows, 0, before)
}

// next is the next row, false at the end.
func (o *rowOrder) next() (row int, ok bool) {
	i := o.at
	if i == o.n {
		return 0, false
	}
	o.at++
	if len(o.rows) > 0 {
		return int(o.rows[i]), true
	}
	return i, true
}

// left is how many rows are to come.
func (o *rowOrder) left() int { return o.n - o.at }
