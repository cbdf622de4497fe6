package tracelog

import (
	"bytes"
	"fmt"
	"slices"
)

// An order knows which numbers the blocks of a log have had, by those that have not come
// though a higher one has.
type order struct {
	next    uint32 // one above the highest number
	missing []gap
	late    bool // the first block may have any number
}

// A gap is a run of numbers, the last one excluded.
type gap struct{ from, to uint32 }

// maxGaps is the number of gaps that are remembered. Blocks of others that come late
// look like repeated ones.
const maxGaps = 64

// advance notes a number at or above the next one.
func (o *order) advance(seq uint32) {
	if seq > o.next && !o.late && len(o.missing) < maxGaps {
		o.missing = append(o.missing, gap{o.next, seq})
	}
	o.next, o.late = seq+1, false
}

// fill takes a number out of its gap and reports whether there was one.
func (o *order) fill(seq uint32) bool {
	for i, g := range o.missing {
		if seq < g.from || seq >= g.to {
			continue
		}
		o.missing = slices.Delete(o.missing, i, i+1)
		for _, rest := range []gap{{g.from, seq}, {seq + 1, g.to}} {
			if rest.from < rest.to && len(o.missing) < maxGaps {
				o.missing = append(o.missing, rest)
			}
		}
		return true
	}
	return false
}

// accept checks the place of a block whose checksums are right.
func (w *walker) accept(p *piece) bool {
	seq := p.head.seq
	switch {
	case seq == 0 && w.otherLog(p):
		w.done = true
		w.corrupt(p, p.at-headerSize, w.size-p.at+headerSize, "another log begins here")
		return false
	case seq < w.order.next && !w.order.fill(seq):
		w.corrupt(p, p.at, w.off-p.at, fmt.Sprintf("block %d is here a second time", seq))
		return false
	case seq < w.order.next:
		w.corrupt(p, p.at, 0, fmt.Sprintf("block %d is in the wrong place", seq))
		return true
	case seq > w.order.next && !w.gap:
		w.corrupt(p, p.at, 0, fmt.Sprintf("the number of blocks missing before this one is %d", seq-w.order.next))
	}
	w.order.advance(seq)
	w.gap = false
	w.footed = w.footed || p.head.kind == blockFooter
	return true
}

// otherLog reports whether a block is the first of another log, which somebody has put
// behind this one: that log's header is in front of it.
func (w *walker) otherLog(p *piece) bool {
	if p.at <= headerSize {
		return false
	}
	var head [headerSize]byte
	p.err = w.readAt(head[:], p.at-headerSize)
	return p.err == nil && bytes.HasPrefix(head[:], magic) && le.Uint32(head[12:]) == checksum(head[:12])
}
