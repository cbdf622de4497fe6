package tracelog

import (
	"fmt"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Block is a run of records of one kind, in the order in which the writer got
// them. It is valid until the reader's next call of Next, unless it is kept; strings
// stay valid.
type Block struct {
	Kind   Kind
	N      int   // number of records
	Offset int64 // byte of the log at which the block begins

	cols   []column       // by the field numbers of this package, for a kind that it knows
	file   []column       // by the field numbers of the log's schema
	fields []schema.Field // of the log's schema
	name   string         // of the kind, in the log's schema
	table  *stringTable
	kept   *task // of a block that is kept
	spare  *spares
}

// at is the number in a field of row i.
func (b *Block) at(field, i int) uint64 {
	c := &b.cols[field]
	return c.vals[i&c.mask]
}

// str is the text in a field of row i.
func (b *Block) str(field, i int) string { return b.table.text(b.at(field, i)) }

func (b *Block) must(k Kind) {
	if b.Kind != k {
		panic(fmt.Sprintf("tracelog: %v asked of a block of %v records", k, b.Kind))
	}
}

// Known reports whether this package knows the kind of the block. One that it
// does not know comes from a newer cudatrace; only Dump can show it.
func (b *Block) Known() bool { return b.cols != nil }

// PID returns the process of all records of the block. It is 0, false where they
// differ or have none.
func (b *Block) PID() (uint32, bool) {
	l := schema.LayoutOf(b.Kind)
	if !b.Known() || l.PID < 0 || b.cols[l.PID].mask != 0 {
		return 0, false
	}
	pid := uint32(b.at(l.PID, 0))
	return pid, pid != 0
}

// Time returns the smallest time of the block's records and the largest end, in ns
// of CLOCK_MONOTONIC. Times of 0 do not count; both are 0 where there is no other.
func (b *Block) Time() (from, to uint64) {
	if !b.Known() {
		return 0, 0
	}
	l := schema.LayoutOf(b.Kind)
	var s span
	for nth, f := range l.Times {
		for i := range b.N {
			var dur uint64
			if nth == 0 && l.Dur >= 0 {
				dur = b.at(l.Dur, i)
			}
			s.add(b.at(f, i), dur)
		}
	}
	return s.from, s.to
}

// A span is the time that records take up.
type span struct{ from, to uint64 }

// add widens the span by a time with a duration, unless the time is 0.
func (s *span) add(t, dur uint64) {
	if t == 0 {
		return
	}
	if s.from == 0 || t < s.from {
		s.from = t
	}
	if end := t + dur; end >= t { // a duration beyond the end of time is none
		t = end
	}
	s.to = max(s.to, t)
}

// join widens the span by another.
func (s *span) join(o span) {
	if o.from == 0 {
		return
	}
	if s.from == 0 || o.from < s.from {
		s.from = o.from
	}
	s.to = max(s.to, o.to)
}
