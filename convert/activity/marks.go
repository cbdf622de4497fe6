package activity

import (
	"cmp"
	"slices"
)

// A mark is a moment at which the times of a part are wanted.
type mark struct {
	at   uint64
	part *Part
}

// A sumAt has the times up to a moment.
type sumAt struct {
	at uint64
	Sum
}

// Mark has the part keep its times up to a moment, for [Part.Until].
func (p *Part) Mark(at uint64) {
	d := p.device
	if at < d.order.settled {
		return // too late
	}
	i := len(d.marks)
	for i > 0 && d.marks[i-1].at > at {
		i--
	}
	d.marks = slices.Insert(d.marks, i, mark{at, p})
}

// reach keeps the times at the marks up to a moment. The work that starts before that is in the times, and no other.
func (d *Device) reach(at uint64) {
	n := 0
	for ; n < len(d.marks) && d.marks[n].at <= at; n++ {
		m := d.marks[n]
		m.part.sums = append(m.part.sums, sumAt{m.at, m.part.Times().Until(m.at)})
	}
	d.marks = slices.Delete(d.marks, 0, n)
}

// Until returns the times of the part up to a moment that was marked in time, or lies outside of the part's work. The device is finished.
func (p *Part) Until(at uint64) (s Sum, known bool) {
	switch {
	case at <= p.First:
		return s, true
	case at >= p.Last:
		return p.Times().Until(p.Last), true
	}
	i, known := slices.BinarySearchFunc(p.sums, at, func(s sumAt, at uint64) int { return cmp.Compare(s.at, at) })
	if known {
		s = p.sums[i].Sum
	}
	return s, known
}

// roomOfMarks bounds the idle times that the parts of all devices keep.
const roomOfMarks = 1 << 19

// An idleAt is the idle time of one reason between two marks of a part.
type idleAt struct {
	row    *Row
	before int // index in Part.sums of the mark that ends it
	Seen       // a time each gap
}

// A latest is where a part last kept idle time of a reason.
type latest struct {
	part  *Part
	index int
	now   latestGap
}

// keep keeps idle time of a reason before the mark of an index, in a gap, or the part of one, that begins at a time.
func (p *Part) keep(r *Row, before int, from, ns uint64, weight float64) {
	if at := &r.latest; at.part != p || p.idle[at.index].before != before {
		if p.device.of.idle++; p.device.of.idle > roomOfMarks {
			p.noIdle = true
			return
		}
		*at = latest{part: p, index: len(p.idle)}
		p.idle = append(p.idle, idleAt{row: r, before: before})
	}
	now, more := r.latest.now.add(from, ns)
	p.idle[r.latest.index].add(more, now, ns, weight)
}

// pieces calls take for each part of an interval that no mark divides.
func (p *Part) pieces(from, to uint64, take func(before int, from, to uint64)) {
	if from = max(from, p.First); from >= to {
		return
	}
	i := len(p.sums)
	for i > 0 && p.sums[i-1].at > from {
		i--
	}
	for ; i < len(p.sums) && p.sums[i].at < to; i++ {
		take(i, from, p.sums[i].at)
		from = p.sums[i].at
	}
	take(i, from, to)
}

// late keeps the time of a gap up to the return of the call that launches the next work, a piece of the part.
func (p *Part) late(d *Idle, g *Gap) {
	p.pieces(g.From, g.Ready, func(before int, from, to uint64) {
		spent := g.Spent
		if from > g.From || to < g.Ready {
			d.cut = g.Next.Thread.during(from, to, d.cut[:0])
			spent = d.cut
		}
		for i := range spent {
			p.keep(d.lateRow(&spent[i]), before, from, spent[i].Time, spent[i].Weight)
		}
	})
}

// queued keeps the time of a gap in which the next work, a piece of the part, was queued.
func (p *Part) queued(r *Row, from, to uint64) {
	p.pieces(from, to, func(before int, from, to uint64) { p.keep(r, before, from, to-from, 0) })
}

// Idle adds the idle time of the device between two moments, as far as work of the part ended it. Each moment was marked in time, or lies
// outside of the part's work. The device is finished.
func (p *Part) Idle(from, to uint64, all *Idle) (known bool) {
	first, begins := p.marked(from)
	last, ends := p.marked(to)
	if !begins || !ends || p.noIdle {
		return false
	}
	i, _ := slices.BinarySearchFunc(p.idle, first, func(x idleAt, mark int) int { return cmp.Compare(x.before, mark) })
	for ; i < len(p.idle) && p.idle[i].before < last; i++ {
		x := &p.idle[i]
		r := all.row(x.row.Cause, x.row.What)
		if o := x.row.owner; o != nil {
			r = all.ownedRow(o)
		}
		r.join(&x.Seen)
	}
	return true
}

// marked returns the index of the first of the part's pieces of time after a moment.
func (p *Part) marked(at uint64) (index int, known bool) {
	switch {
	case at <= p.First:
		return 0, true
	case at >= p.Last:
		return len(p.sums) + 1, true
	}
	i, known := slices.BinarySearchFunc(p.sums, at, func(s sumAt, at uint64) int { return cmp.Compare(s.at, at) })
	return i + 1, known
}
