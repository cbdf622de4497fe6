package findings

import (
	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// Gap takes a gap of a device.
func (c *Collector) Gap(g *activity.Gap) {
	p := c.process(g.Lane.Stream.Context.Process)
	gpu := g.Lane.Stream.Context.GPU
	if g.To-g.From >= c.limits.Gap {
		p.gap(gpu, g, c.kept)
	}
	if len(g.Spent) == 0 {
		return
	}
	if f := g.Spent[0].Function; f != nil && f.Role == activity.WaitsAll { // it was under way when the gap began
		p.waits.of(f.Name).add(g.From, g.Ready-g.From)
	}
	c.loads(p, g)
	if ns := c.tiny(g); ns > 0 {
		e := p.tiny[gpu]
		if e == nil {
			e = new(evidence)
			p.tiny[gpu] = e
		}
		e.add(g.From, ns)
	}
}

// gap takes a long gap.
func (p *process) gap(gpu uint32, g *activity.Gap, most int) {
	all := p.gaps[gpu]
	if all == nil {
		all = &gaps{most: most}
		p.gaps[gpu] = all
	}
	all.add(g.From, g.To-g.From)
	all.keep(Interval{g.From, g.To})
	for i := range g.Spent {
		s := &g.Spent[i]
		switch {
		case s.Unknown:
			all.did.of(activity.NotKnown).add(g.From, s.Time)
		case s.Function == nil:
			all.did.of(activity.OutsideCalls).add(g.From, s.Time)
		default:
			all.did.of(s.Function.Name).add(g.From, s.Time)
		}
	}
	if queued := g.To - g.Ready; queued > 0 {
		all.did.of(queuedWords).add(g.Ready, queued)
	}
}

// queuedWords are what a person reads of the part of a gap in which work was queued.
const queuedWords = "(work was queued)"

// loads takes the time of a gap in which the launching thread loaded code, or first launched a
// kernel and took long for it.
func (c *Collector) loads(p *process, g *activity.Gap) {
	for i := range g.Spent {
		s := &g.Spent[i]
		if f := s.Function; f != nil && (f.Loads() || f.Role == activity.Launching && s.Time >= c.limits.Gap && c.isFirst(s, g.Next)) {
			p.loads.of(f.Name).add(s.Start, s.Time)
		}
	}
}

// isFirst says whether a call is the first launch of a kernel.
func (c *Collector) isFirst(s *activity.Spent, next *activity.Piece) bool {
	return s.Start == next.CallStart && next.Kind == timeline.KernelWork && c.FirstUse(next.Shape) == next.Start
}

// tiny returns the time that a CUDA graph would save at a gap: that of launching calls between
// pieces of work of which the later one is a kernel shorter than its launch. It is 0 where the
// thread did anything else in CUDA.
func (c *Collector) tiny(g *activity.Gap) (ns uint64) {
	n := g.Next
	if n.Kind != timeline.KernelWork || n.InGraph || g.To-g.From >= c.limits.Gap || n.End-n.Start >= n.CallEnd-min(n.CallStart, n.CallEnd) {
		return 0
	}
	for i := range g.Spent {
		switch s := &g.Spent[i]; {
		case s.Unknown:
			return 0
		case s.Function == nil:
		case s.Function.Role != activity.Launching || s.Function.Loads():
			return 0
		default:
			ns += s.Time
		}
	}
	return ns
}

// Behind takes two pieces of different streams, of which the later one was ready at a time but
// started after the end of the earlier one.
func (c *Collector) Behind(last, next *activity.Piece, lanes [2]*activity.Lane, ready uint64) {
	a, b := lanes[0].Stream, lanes[1].Stream
	if a.Context != b.Context || last.InGraph || next.InGraph || !c.fit(last, next, a.Context.GPU) {
		return
	}
	c.process(b.Context.Process).serial.of(pair{a, b}).add(next.Start, min(last.End-ready, next.End-next.Start))
}

// fit says whether two pieces of work can run at once: each needs its own engine, or they leave
// room for each other.
func (c *Collector) fit(a, b *activity.Piece, gpu uint32) bool {
	x, y := engineOf(a), engineOf(b)
	switch {
	case x == noEngine || y == noEngine:
		return false
	case x != y:
		return true
	case x != multiprocessors:
		return false
	}
	return activity.Blocks(a.Shape.Kernel.Grid)+activity.Blocks(b.Shape.Kernel.Grid) <= c.Multiprocessors(gpu)
}

// An engine is a part of a GPU that works beside the others.
type engine uint8

const (
	noEngine engine = iota // not known
	multiprocessors
	copyToDevice
	copyToHost
)

// engineOf returns the engine of a piece of work. The host has a part in copies of pageable
// memory.
func engineOf(p *activity.Piece) engine {
	switch p.Kind {
	case timeline.KernelWork:
		return multiprocessors
	case timeline.MemcpyWork:
		m := &p.Shape.Memcpy
		switch kind := cudaapi.MemcpyKindName(m.CopyKind); {
		case pageable(m):
		case kind == "HtoD":
			return copyToDevice
		case kind == "DtoH":
			return copyToHost
		}
	}
	return noEngine
}
