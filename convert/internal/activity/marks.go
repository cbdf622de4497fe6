package activity

import (
	"cmp"
	"slices"
)

// A mark is a moment at which the times of a part are wanted.
type mark struct {
	at    uint64
	part  *Part
	stage bool
}

// Mark has the part keep its times up to a moment, for [Part.Until] and [Part.Idle]. At a moment at which a stage of
// its process may begin, it keeps them for [Part.Stages], too.
func (p *Part) Mark(at uint64, stage bool) {
	d := p.device
	if at < d.order.settled {
		return // too late
	}
	i := len(d.marks)
	for i > 0 && d.marks[i-1].at > at {
		i--
	}
	d.marks = slices.Insert(d.marks, i, mark{at, p, stage})
}

// reach keeps the times at the marks up to a moment. The work that starts before that is in the times, and no other.
func (d *Device) reach(at uint64) {
	n := 0
	for ; n < len(d.marks) && d.marks[n].at <= at; n++ {
		m := d.marks[n]
		m.part.sums = append(m.part.sums, m.part.Times().Until(m.at))
		m.part.idle[byMark].ends = append(m.part.idle[byMark].ends, m.at)
		if m.stage {
			m.part.idle[byStage].ends = append(m.part.idle[byStage].ends, m.at)
			for _, l := range m.part.lanes {
				l.stages = append(l.stages, l.Busy.until(m.at))
			}
		}
	}
	d.marks = slices.Delete(d.marks, 0, n)
}

// Until returns the times of the part up to a moment that was marked in time, or lies outside of the part's work. The
// device is finished.
func (p *Part) Until(at uint64) (s Sum, known bool) {
	switch {
	case at <= p.First:
		return s, true
	case at >= p.Last:
		return p.Times().Until(p.Last), true
	}
	i, known := slices.BinarySearch(p.idle[byMark].ends, at)
	if known {
		s = p.sums[i]
	}
	return s, known
}

// Until returns the time that the lane was busy up to a moment at which a stage may have begun, or that lies outside of
// its work. The device is finished.
func (l *Lane) Until(at uint64) (busy uint64, known bool) {
	switch {
	case at <= l.First:
		return 0, true
	case at >= l.Last:
		return l.Busy.Total, true
	}
	i, known := slices.BinarySearch(l.Part.idle[byStage].ends, at)
	if known {
		busy = l.stages[i]
	}
	return busy, known
}

// roomOfMarks bounds the idle times of a scale that the parts of all devices keep.
const roomOfMarks = 1 << 19

// A scale is one of the divisions of time for which the parts keep their idle time. That of stages needs little room,
// however many steps there are.
type scale uint8

const (
	byMark  scale = iota // at all marks
	byStage              // at those of stages alone
	scales
)

// A division is the idle time that work of a part ended, between marks.
type division struct {
	ends []uint64 // marks that were reached, by time
	list []idleAt // before and between these, by time, and after the last
	lost bool     // list does not have all: there was no room
	seen lastSeen
}

// beforeWork is the place of idle time before the first work of a part.
const beforeWork = -1

// An idleAt is the idle time of one reason between two marks of a part.
type idleAt struct {
	row    *Row
	before int // index in division.ends of the mark that ends it, or beforeWork
	Seen       // a time each gap
}

// A latest is where a part last kept idle time of a reason.
type latest struct {
	part  *Part
	index int
	now   latestGap
}

// keep keeps idle time of a reason before the mark of an index, in a gap, or the part of one, that begins at a time.
func (p *Part) keep(by scale, r *Row, before int, from uint64, s *Spent) {
	d := &p.idle[by]
	at := &r.latest[by]
	if at.part != p || d.list[at.index].before != before {
		if p.device.of.idle[by]++; p.device.of.idle[by] > roomOfMarks {
			d.lost = true
			return
		}
		*at = latest{part: p, index: len(d.list)}
		d.list = append(d.list, idleAt{row: r, before: before})
	}
	now, more := at.now.add(from, s.Time)
	x := &d.list[at.index]
	x.add(more, now, s)
	x.Turns += d.seen.shows(r, s)
}

// pieces calls take for each part of an interval that no mark divides.
func (p *Part) pieces(from, to uint64, take func(before int, from, to uint64)) {
	if from = max(from, p.First); from >= to {
		return
	}
	ends := p.idle[byMark].ends
	i := p.place(byMark, from)
	for ; i < len(ends) && ends[i] < to; i++ {
		take(i, from, ends[i])
		from = ends[i]
	}
	take(i, from, to)
}

// place returns the index of the first mark after a moment.
func (p *Part) place(by scale, at uint64) int {
	ends := p.idle[by].ends
	i := len(ends)
	for i > 0 && ends[i-1] > at {
		i--
	}
	return i
}

// stageOf returns the place of the stage in which a gap begins: all of it belongs there, as in the findings.
func (p *Part) stageOf(g *Gap) int {
	if g.From < p.First {
		return beforeWork
	}
	return p.place(byStage, g.From)
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
			p.keep(byMark, d.lateRow(&spent[i]), before, from, &spent[i])
		}
	})
	for i, stage := 0, p.stageOf(g); i < len(g.Spent); i++ {
		p.keep(byStage, d.lateRow(&g.Spent[i]), stage, g.From, &g.Spent[i])
	}
}

// queued keeps the time of a gap in which the next work, a piece of the part, was queued.
func (p *Part) queued(r *Row, g *Gap) {
	p.pieces(g.Ready, g.To, func(before int, from, to uint64) {
		p.keep(byMark, r, before, from, &Spent{Time: to - from})
	})
	p.keep(byStage, r, p.stageOf(g), g.Ready, &Spent{Time: g.To - g.Ready})
}

// Idle adds the idle time of the device between two moments, as far as work of the part ended it. Each moment was
// marked in time, or lies outside of the part's work. The device is finished.
func (p *Part) Idle(from, to uint64, all *Idle) (known bool) {
	first, begins := p.marked(byMark, from)
	last, ends := p.marked(byMark, to)
	return begins && ends && p.idle[byMark].add(first, last, all)
}

// Stages adds the idle time of the device in gaps that began before a moment at which a stage began, and in others, as
// far as work of the part ended them. What lies before the first work of the part is in before. The device is finished.
func (p *Part) Stages(at uint64, before, after *Idle) (known bool) {
	i, known := p.marked(byStage, at)
	d := &p.idle[byStage]
	return known && d.add(beforeWork, i, before) && d.add(i, len(d.ends)+1, after)
}

// add adds the idle time between two marks.
func (d *division) add(first, last int, all *Idle) (known bool) {
	if d.lost {
		return false
	}
	i, _ := slices.BinarySearchFunc(d.list, first, func(x idleAt, mark int) int { return cmp.Compare(x.before, mark) })
	for ; i < len(d.list) && d.list[i].before < last; i++ {
		x := &d.list[i]
		r := all.row(x.row.Cause, x.row.What)
		if o := x.row.Owner; o != nil {
			r = all.ownedRow(o)
		}
		r.Function = x.row.Function
		r.join(&x.Seen)
	}
	return true
}

// marked returns the index of the first of the part's pieces of time after a moment.
func (p *Part) marked(by scale, at uint64) (index int, known bool) {
	switch d := &p.idle[by]; {
	case at <= p.First:
		return 0, true
	case at >= p.Last:
		return len(d.ends) + 1, true
	default:
		i, known := slices.BinarySearch(d.ends, at)
		return i + 1, known
	}
}
