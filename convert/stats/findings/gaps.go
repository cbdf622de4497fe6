package findings

import (
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A doing is what a launching thread did while a GPU was idle.
type doing struct {
	kind doingKind
	name string // of the function, or a text
}

// A doingKind is a kind of doing. Each has a remedy of its own.
type doingKind uint8

const (
	nothingKnown doingKind = iota
	outside                // of CUDA calls
	loads                  // code, or launches a kernel for the first time and takes long for it
	captures               // or instantiates graphs
	allocates
	waits
	launches
	callsElse
	queued // it did its part

	// What it did outside of CUDA calls, where that was recorded.
	computes
	computesUnseen // not known what
	blocked        // by another thing than the two below
	sleeps         // by itself
	locked         // waits for a lock
	blockedUnseen  // not known by what
	ready          // to run, and had no processor
)

// owned is the kind of what a thread did outside of calls, but for activity.Waited.
var owned = [...]doingKind{
	activity.RanCode: computes, activity.Ran: computesUnseen, activity.WasBlocked: blockedUnseen,
	activity.WaitedForCPU: ready, activity.RanUnread: computesUnseen,
}

// blockedBy is the kind of a thread that was blocked by a known thing.
var blockedBy = [...]doingKind{timeline.OtherBlocker: blocked, timeline.OwnSleep: sleeps, timeline.SomeLock: locked}

// kindOutside returns the kind of what a thread did outside of calls.
func kindOutside(d activity.OwnerKind, by timeline.Blocker) doingKind {
	if d == activity.Waited {
		return blockedBy[by]
	}
	return owned[d]
}

// does returns what a thread did before it launched a piece of work.
func (c *Collector) does(s *activity.Spent, next *activity.Piece) doing {
	f := s.Function
	switch {
	case s.Unknown:
		return doing{nothingKnown, activity.NotKnown}
	case s.Owner != nil:
		return doing{kindOutside(s.Owner.OwnerKind, s.Owner.By), s.Owner.Text}
	case f == nil:
		return doing{outside, activity.OutsideCalls}
	case f.Loads() || f.Role == activity.Launching && s.Time >= leastGap && c.isFirst(s, next):
		return doing{loads, f.Name}
	}
	return doing{kindOf(f), f.Title()}
}

// kindOf returns the kind of a call.
func kindOf(f *activity.Function) doingKind {
	switch f.Role {
	case activity.Loading:
		return loads
	case activity.Capturing:
		return captures
	case activity.Allocating:
		return allocates
	case activity.Waits, activity.WaitsAll:
		return waits
	case activity.Launching:
		return launches
	}
	return callsElse
}

// Gap takes a gap of a device. The process that ends it must have worked there before.
func (c *Collector) Gap(g *activity.Gap) {
	p := c.process(g.Lane.Stream.Context.Process)
	gpu := g.Lane.Stream.Context.GPU
	if p.worked[gpu].first >= g.To {
		return
	}
	idle := p.idle[gpu]
	if idle == nil {
		idle = &timed{stages: &p.stages}
		p.idle[gpu] = idle
	}
	idle.add(g.From, g.To-g.From)
	loading := uint64(0)
	for i := range g.Spent {
		s := &g.Spent[i]
		if d := c.does(s, g.Next); d.kind == loads {
			p.loads.of(loadOf(d.name, g.Next)).add(max(s.Start, g.From), s.Time)
			loading += s.Time
			if from := max(s.Start, g.From); len(p.loading) < mostKept {
				p.loading = append(p.loading, lost(g, from, from+s.Time))
			}
		}
	}
	if g.To-g.From-loading >= leastGap {
		c.gap(p, gpu, g, loading)
	}
	if len(g.Spent) == 0 {
		return
	}
	if f := g.Spent[0].Function; f != nil && f.Role == activity.WaitsAll { // it was under way when the gap began
		p.waits.of(f).add(g.From, g.Ready-g.From)
	}
	if ns := c.tiny(g); ns > 0 {
		t := p.tiny[gpu]
		if t == nil {
			t = &tiny{timed: timed{stages: &p.stages}}
			p.tiny[gpu] = t
		}
		t.add(g.From, ns)
		t.kernels.Add(g.Next.End - g.Next.Start)
		t.launches.Add(g.Next.CallEnd - g.Next.CallStart)
	}
}

// lost is a time in a gap, of the thread that launched the next work.
func lost(g *activity.Gap, from, ready uint64) critical.Lost {
	x := critical.Lost{From: from, To: g.To, Ready: ready}
	if g.Next.Thread != nil {
		x.By = g.Next.Thread.Thread
	}
	return x
}

// A load is a function that loaded code, and the mangled name of the kernel that was launched next.
type load struct {
	function, kernel string
	hasKernel        bool
}

func loadOf(function string, next *activity.Piece) load {
	if next.Kind != timeline.KernelWork {
		return load{function: function}
	}
	return load{function, next.Shape.Kernel.Name, true}
}

// named joins what was loaded by its names for people.
func (c *Collector) named(loads tally[load]) tally[string] {
	named := make(tally[string])
	for l, e := range loads {
		if l.hasKernel {
			l.function += " for " + c.KernelName(l.kernel)
		}
		named.of(l.function).join(e)
	}
	return named
}

// gap takes a long gap, of which the thread loaded code for a part.
func (c *Collector) gap(p *processHabits, gpu uint32, g *activity.Gap, loading uint64) {
	all := p.gaps[gpu]
	if all == nil {
		all = &gaps{
			timed: timed{stages: &p.stages}, did: record[doing]{stages: &p.stages},
			ends: record[*timeline.PythonFrame]{stages: &p.stages}, most: c.kept,
		}
		p.gaps[gpu] = all
	}
	all.add(g.From, g.To-g.From-loading)
	seen(&all.ends, p.lines.of(g.Next.Python, g.Next.Operator), g.From, g.To-g.From-loading)
	all.keep(lost(g, g.From, g.Ready))
	for i := range g.Spent {
		s := &g.Spent[i]
		if d := c.does(s, g.Next); d.kind != loads {
			e := all.did.of(d).at(g.From)
			e.add(g.From, s.Time)
			e.weigh(s.Weight)
		}
	}
	if rest := g.To - g.Ready; rest > 0 {
		all.did.of(doing{queued, "(work was queued)"}).add(g.From, rest)
	}
}

// isFirst reports whether a call is the first launch of a kernel.
func (c *Collector) isFirst(s *activity.Spent, next *activity.Piece) bool {
	return s.Start == next.CallStart && next.Kind == timeline.KernelWork && c.FirstUse(next.Shape) == next.Start
}

// mostBetween is the longest time between two launches, in ns, that belongs to what a launch costs a program: beyond,
// the program does something else.
const mostBetween = 20e3

// tiny returns the time that a CUDA graph would save at a gap: that of launching calls, and what the thread needs from
// one to the next, between pieces of work of which the later one is a kernel shorter than its launch. It is 0 where the
// thread did anything else in CUDA.
func (c *Collector) tiny(g *activity.Gap) (ns uint64) {
	n := g.Next
	if n.Kind != timeline.KernelWork || n.InGraph || g.To-g.From >= leastGap ||
		n.End-n.Start >= n.CallEnd-min(n.CallStart, n.CallEnd) {
		return 0
	}
	between := uint64(0)
	for i := range g.Spent {
		s := &g.Spent[i]
		switch c.does(s, n).kind {
		case outside, computes, computesUnseen, blocked, sleeps, locked, blockedUnseen, ready:
			between += s.Time
		case launches:
			ns += s.Time
		default:
			return 0
		}
	}
	if ns > 0 && between <= mostBetween {
		ns += between
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

// fit reports whether two pieces of work can run at once: each needs its own engine, or they leave
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
		switch {
		case m.Pageable():
		case m.CopyKind == cudaapi.MemcpyHtoD:
			return copyToDevice
		case m.CopyKind == cudaapi.MemcpyDtoH:
			return copyToHost
		}
	}
	return noEngine
}

// gaps finds long gaps. At least half of their time must be of one kind: the remedy follows from it.
func (r *report) gaps() {
	for _, gpu := range sortedKeys(r.process.gaps) {
		g := r.process.gaps[gpu]
		e := g.since(r.steady.From)
		if !r.worth(e, 1) {
			continue
		}
		cause, did := g.mostly(r.steady.From), g.did.since(r.steady.From)
		text := r.idleTime.on(r.process, gpu).inAll(r.steady)
		for kind, ns := range meanwhile(did) {
			if remedies[kind] != "" && ns > e.cost/2 {
				title := fmt.Sprintf("%s is idle for %s", r.collector.gpuName(gpu), figures.Duration(e.cost))
				if e.count > 1 {
					title = fmt.Sprintf("%s is idle %s times, for up to %s", r.collector.gpuName(gpu),
						figures.Group(e.count), figures.Duration(e.longest[0].cost))
				}
				part := partOf(cause, did, r.idleTime.on(r.process, gpu))
				r.add("gaps", e, Finding{
					Title: causedBy(titleOf(cause, did), title), Cause: cause, Effect: title, GPU: &gpu,
					Without: g.without(kind, part), Part: part,
					Evidence: text + r.atLines(&g.ends, "; the gaps end with launches at ", e.count),
					Try:      tryFor(cause, kind, did, g.ends.since(r.steady.From)),
					most:     mostOf(did), allocating: kind == allocates,
					Copying: strings.HasPrefix(cause, "cudaMemcpy") || strings.HasPrefix(cause, "cuMemcpy"),
				})
			}
		}
	}
}

// without takes away what the launching threads did in the gaps, of one kind; of what they did outside of calls a part.
func (g *gaps) without(kind doingKind, part float64) func(*critical.Without) {
	roles := map[doingKind][]activity.Role{captures: {activity.Capturing}, allocates: {activity.Allocating},
		waits: {activity.Waits, activity.WaitsAll}, launches: {activity.Launching},
		callsElse: {activity.OtherRole, activity.Ordering, activity.Initialising, activity.Loading}}[kind]
	switch {
	case kind == queued:
		return func(x *critical.Without) { x.Queued(g.kept) }
	case roles != nil:
		return func(x *critical.Without) { x.In(g.kept, roles...) }
	}
	return func(x *critical.Without) { x.Outside(g.kept, part) }
}
