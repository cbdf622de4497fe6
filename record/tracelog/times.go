package tracelog

import (
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Times are ns of CLOCK_MONOTONIC. One from 2^63 on, or a record that ends there, is 292 years after the host's boot:
// no clock shows it, and a trace, which has signed times, cannot hold it. A reader refuses such records and counts
// them.

// refuse takes the rows with such times out of a block, and returns their number.
func (in *intake) refuse(b *Block, d *decoding) (refused int) {
	l := schema.LayoutOf(b.Kind)
	if l == nil || possible(b.times(l, 0, b.N)) {
		return 0
	}
	var keep []int
	for i := range b.N {
		if possible(b.times(l, i, i+1)) {
			keep = append(keep, i)
		}
	}
	for i, c := range d.table.Columns {
		d.table.Columns[i] = c.Rows(keep)
	}
	refused = b.N - len(keep)
	d.table.Rows, b.N = len(keep), len(keep)
	in.fill(b, d)
	return refused
}

func possible(times uint64) bool { return times>>63 == 0 }

// times joins the bits of all times and durations of some rows, and of their ends.
func (b *Block) times(l *schema.Layout, from, to int) (all uint64) {
	for nth, f := range l.Times {
		c, dur := &b.own[f], columns.Zeros()
		if nth == 0 && l.Dur >= 0 {
			dur = b.own[l.Dur]
		}
		for i := from; i < to; i++ {
			t, d := c.Numbers[i&c.Mask], dur.Numbers[i&dur.Mask]
			if all |= t | d | (t + d); c.Mask|dur.Mask == 0 {
				break
			}
		}
	}
	return all
}

// Refused is the number of records so far that were left out because of their times.
func (r *Reader) Refused() uint64 { return r.log.refused }
