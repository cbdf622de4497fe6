package parquetsink

import (
	"slices"
	"sync"
)

// Sizes of a block of values: the most, and of a first block that has few.
const (
	blockRows = 4096
	fewRows   = 64
)

// A list holds the values of a column in blocks, so that none is copied as the list grows. All blocks but the first
// have blockRows values. Successive blocks that have one and the same value are one block in memory.
type list[V comparable] struct {
	blocks  [][]V
	held    int  // values that the blocks have room for
	uniform bool // the last full block has one value
}

// A pool has the blocks that no list holds. Goroutines may use it at the same time.
type pool[V any] struct {
	turn sync.Mutex
	free [][]V
}

// reuse returns a free block, nil if there is none.
func (p *pool[V]) reuse() []V {
	p.turn.Lock()
	defer p.turn.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return nil
	}
	b := p.free[last]
	p.free = p.free[:last]
	return b
}

func (p *pool[V]) put(block []V) {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.free = append(p.free, block)
}

// room returns the room for n values behind those that there are, all in one block.
func (l *list[V]) room(rows, n int, free *pool[V]) []V {
	block, from := rows/blockRows, rows%blockRows
	if block == len(l.blocks) {
		if block > 0 {
			l.share(block-1, free)
		}
		l.blocks = append(l.blocks, nil)
	}
	b := l.blocks[block]
	if from+n > len(b) {
		b = l.grow(block, from, n, free)
	}
	return b[from : from+n : from+n]
}

// grow makes a block larger. The first one doubles.
func (l *list[V]) grow(block, from, n int, free *pool[V]) []V {
	size := max(fewRows, 2*(from+n))
	var b []V
	if block == 0 && size < blockRows {
		b = make([]V, size)
	} else if b = free.reuse(); b == nil {
		b = make([]V, blockRows)
	}
	l.held += len(b) - len(l.blocks[block])
	copy(b, l.blocks[block][:from])
	l.blocks[block] = b
	return b
}

// share gives a full block back if it equals the one before, and both have one value.
func (l *list[V]) share(block int, free *pool[V]) {
	b, before := l.blocks[block], l.uniform
	l.uniform = uniform(b)
	if block > 0 && before && l.uniform && b[0] == l.blocks[block-1][0] {
		free.put(b)
		l.blocks[block] = l.blocks[block-1]
		l.held -= blockRows
	}
}

// uniform reports whether all values are equal. A NaN equals none.
func uniform[V comparable](list []V) bool {
	for _, v := range list {
		if v != list[0] {
			return false
		}
	}
	return true
}

// shared reports whether a block is the one before.
func (l *list[V]) shared(block int) bool {
	return block > 0 && &l.blocks[block][0] == &l.blocks[block-1][0]
}

// clear forgets the values, and gives back the blocks, but for a small one.
func (l *list[V]) clear(free *pool[V]) {
	for i, b := range l.blocks {
		if len(b) == blockRows && !l.shared(i) {
			free.put(b)
		}
	}
	*l = list[V]{}
}

// same reports whether all values are equal. A NaN equals none.
func same[V comparable](l *list[V], rows int) bool {
	for i, b := range l.blocks {
		b = b[:min(len(b), rows-i*blockRows)]
		if b[0] != l.blocks[0][0] || !l.shared(i) && !uniform(b) {
			return false
		}
	}
	return true
}

// appendTo appends the values in an order, nil for their own.
func appendTo[V comparable](l *list[V], rows int, order []uint32, to []V) []V {
	to = slices.Grow(to, rows)
	if order == nil {
		for i, b := range l.blocks {
			to = append(to, b[:min(len(b), rows-i*blockRows)]...)
		}
		return to
	}
	for _, i := range order {
		to = append(to, l.blocks[i/blockRows][i%blockRows])
	}
	return to
}
