package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// The body of a conditional graph node (IF, WHILE, SWITCH) is a graph inside the graph. CUPTI's
// records of work in a body have the number of the graph that was launched, and no correlation ID.
// Records of top-level work have both. So the launch of a body is found by time.
//
// First, by the calls: the launch is certain where every other launch of the graph had finished, or
// was called later (see graphLaunches), and where top-level work of the graph runs: CUDA never runs
// one executable graph twice at once.
//
// Else by the top-level work: a body runs after the top-level work that its conditional node depends
// on. Body work belongs to the launch whose top-level work of this graph began last. This is wrong
// where body work runs ahead of all top-level work of its launch. A graph is unsure as soon as it shows
// such work, and from then on its body work has a call only where the calls make it certain:
//
//   - body work before any top-level work of the graph; a graph may have no such work at all
//   - body work that begins before any top-level work of the latest launch has ended
//   - body work that is certain to be of another launch than the latest
//
// Top-level work without a correlation ID is of a graph that the GPU launched: work of this graph has no
// call.
//
// One case stays unseen: a conditional node that depends on no top-level work, and whose body ran
// behind such work, or not at all, in all launches before.

// A graph is an executable graph with work that was recorded node by node.
type graph struct {
	first, latest uint32              // correlation IDs of two launches, 0 for none
	nodes         map[uint64]struct{} // the nodes of the top level, from the first launch
	begun         uint64              // start of the latest top-level work
	ended         uint64              // earliest end of top-level work of the latest launch
	busy          uint64              // its latest end
	unsure        bool
	byGPU         bool   // the GPU launched it
	exec          uint64 // its handle, 0 while it is unknown: one for all its life
}

// A graphKey identifies an executable graph in a program.
type graphKey struct {
	context *timeline.Context
	id      uint32
}

// A nodeWork is work of a graph's top level.
type nodeWork struct {
	graph       *graph
	node        uint64
	start, end  uint64
	correlation uint32
}

// A bodyWork is work in a body that waits for its launch.
type bodyWork struct {
	graph *graph
	node  uint64
	work  waitingWork
}

// graphs find the launches of body work. The zero value is ready for use.
type graphs struct {
	off      bool // work is missing: no launch is certain
	launches graphLaunches
	certain  bool // the log has every launch, and the calls that waited for it
	one      bool // the program has one context
	byKey    map[graphKey]*graph
	recent   *graph // value of byKey for the key below
	key      graphKey
	size     int // number of graphs and nodes
	top      []nodeWork
	bodies   []bodyWork
	low      uint64 // body work before this time is no longer in bodies
}

// maxGraphs bounds the graphs and nodes of a program. Body work of further ones has no call, and counts as such.
const maxGraphs = 1 << 18

// isBody reports whether work is body work.
func isBody(w *timeline.Work) bool {
	return w.Graph != 0 && w.Correlation == 0 && w.Start != 0
}

// matchNode matches the next work of a stream, a node of a graph, with a launch. It reports whether it is body work
// whose launch settle will look for.
func (l *graphs) matchNode(w *timeline.Work, o *waitingWork) (waits bool) {
	if l.off || w.Start == 0 {
		return false
	}
	g := l.graph(graphKey{o.stream.out.Context, w.Graph})
	switch {
	case g == nil:
		return false
	case w.Correlation == 0:
		l.bodies = append(l.bodies, bodyWork{g, w.GraphNode, *o})
		return true
	default:
		l.top = append(l.top, nodeWork{g, w.GraphNode, w.Start, timeline.End(w.Start, w.Dur), w.Correlation})
	}
	return false
}

// awaits reports whether body work that begins at a time may still be joined with its call.
func (l *graphs) awaits(start uint64) bool { return !l.off && start >= l.low }

// unsettledWork returns the number of pieces of work that wait for earlier ones.
func (l *graphs) unsettledWork() int { return len(l.top) + len(l.bodies) }

// newestWork returns a time by which all work that waits begins.
func (l *graphs) newestWork() (at uint64) {
	for i := range l.top {
		at = max(at, l.top[i].start+1)
	}
	for i := range l.bodies {
		at = max(at, l.bodies[i].work.start+1)
	}
	return at
}

// graph finds or makes a graph. It is nil when there is no room.
func (l *graphs) graph(key graphKey) *graph {
	if l.recent != nil && l.key == key {
		return l.recent
	}
	g := l.byKey[key]
	if g == nil {
		if l.size >= maxGraphs {
			return nil
		}
		if l.byKey == nil {
			l.byKey = make(map[graphKey]*graph)
		}
		l.size++
		g = new(graph)
		l.byKey[key] = g
	}
	l.key, l.recent = key, g
	return g
}

// settle joins the body work that begins before low with its calls. All work of the program that
// begins before low has been taken.
func (l *graphs) settle(low uint64, join func(body *waitingWork, launch uint32)) {
	l.low = max(l.low, low)
	l.launches.advance(l.low)
	known := 0 // number of works in top that have been noted
	if len(l.bodies) > 0 {
		slices.SortStableFunc(l.bodies, func(a, b bodyWork) int { return cmp.Compare(a.work.start, b.work.start) })
		slices.SortStableFunc(l.top, func(a, b nodeWork) int { return cmp.Compare(a.start, b.start) })
		n := 0
		for ; n < len(l.bodies) && l.bodies[n].work.start < l.low; n++ {
			b := &l.bodies[n]
			for ; known < len(l.top) && l.top[known].start <= b.work.start; known++ {
				l.note(&l.top[known])
			}
			if launch := l.launch(b); launch != 0 {
				join(&b.work, launch)
			}
		}
		l.bodies = slices.Delete(l.bodies, 0, n)
	}
	rest := l.top[:0]
	for i := known; i < len(l.top); i++ {
		if l.top[i].start < l.low {
			l.note(&l.top[i])
		} else {
			rest = append(rest, l.top[i])
		}
	}
	l.top = rest
	l.launches.passed(l.low)
}

// note makes top-level work known to its graph. Work of one launch may come in any order.
func (l *graphs) note(w *nodeWork) {
	g := w.graph
	switch {
	case w.correlation == g.latest:
		g.ended, g.busy = min(g.ended, w.end), max(g.busy, w.end)
	case w.start >= g.begun:
		g.latest, g.ended, g.busy = w.correlation, w.end, w.end
		l.launches.ran(w.correlation, g, w.start)
	}
	g.begun = max(g.begun, w.start)
	if g.first == 0 {
		g.first, g.nodes = w.correlation, make(map[uint64]struct{})
	}
	if w.correlation != g.first {
		return
	}
	if l.size++; l.size > maxGraphs {
		g.unsure = true
		return
	}
	g.nodes[w.node] = struct{}{}
}

// launch returns the correlation ID of the launch that body work belongs to, 0 if it is unknown.
func (l *graphs) launch(b *bodyWork) uint32 {
	g := b.graph
	if _, top := g.nodes[b.node]; top {
		g.unsure, g.byGPU = true, true
	}
	if g.latest == 0 || b.work.start < g.ended {
		g.unsure = true
	}
	if l.off || g.byGPU {
		return 0
	}
	if b.work.start < g.busy {
		return g.latest
	}
	if l.certain {
		if certain := l.launches.onlyRunning(g, b.work.start); certain != 0 {
			g.unsure = g.unsure || certain != g.latest
			return certain
		}
	}
	if g.unsure {
		return 0
	}
	return g.latest
}

// called takes a call that has ended: a launch of a graph, or what shows that launches had finished.
func (l *graphs) called(c *call) {
	switch {
	case !l.certain || c.Ret != 0:
	case c.fn.LaunchesGraph && c.Correlation != 0:
		l.launches.addLaunch(graphLaunch{Correlation: c.Correlation, Start: c.Start, End: c.End,
			Stream: l.ordered(c.stream), Exec: c.fn.Argument("graphExec", c.Args)})
	case c.fn.LaunchesGraph:
		l.missing(c)
	case c.Flags&timeline.Unfinished != 0:
	case c.fn.Waits == cudaapi.ContextWait && l.one:
		l.launches.mark(finishMark{After: c.Start, At: c.End})
	case c.fn.Waits == cudaapi.StreamWait && l.ordered(c.stream) != 0:
		l.launches.mark(finishMark{Stream: c.stream, After: c.Start, At: c.End})
	case c.fn.DestroysStream && l.ordered(c.stream) != 0:
		l.launches.mark(finishMark{Stream: c.stream, After: c.Start, Destroyed: true})
	}
}

// missing notes a launch without a correlation ID, unless it is part of a launch that has one.
func (l *graphs) missing(c *call) {
	if c.Depth == 0 && c.state&(hasPartner|innerAPI) == 0 {
		l.launches.missLaunch()
	}
}

// ran takes the first work of a call that began: what was launched before on its stream had finished.
func (l *graphs) ran(c *call, start uint64) {
	if stream := l.ordered(c.stream); l.certain && stream != 0 && start != 0 && l.launches.launched {
		l.launches.mark(finishMark{Stream: stream, After: c.Start, At: start})
	}
}

// ordered returns a handle that stands for one stream, 0 for another: each context, and each thread, has a default
// stream of its own.
func (l *graphs) ordered(s read.StreamHandle) read.StreamHandle {
	if s > read.ThreadStream || s == read.LegacyStream && l.one {
		return s
	}
	return 0
}

// A graphLaunch is a call that launched a graph.
type graphLaunch struct {
	Correlation uint32
	Start, End  uint64            // of the call
	Stream      read.StreamHandle // 0 if it is unknown, or may stand for several streams
	Exec        uint64            // handle of the executable graph, 0 if it is unknown
}

// A finishMark shows that launches had finished: those whose calls returned by After, and that ran on Stream.
type finishMark struct {
	Stream    read.StreamHandle // 0 for all streams
	After, At uint64
	Destroyed bool // nothing had finished, but the handle may stand for another stream from After on
}

// A graphRun is a graphLaunch that may be running.
type graphRun struct {
	graphLaunch
	graph    *graph // nil while it is unknown
	finished uint64 // a time by which the launch had finished; Never while none is known
}

// maxGraphRuns bounds the launches that may be running. A GPU accepts about as many before it runs
// them. With more, body work has no call, and counts as such.
const maxGraphRuns = 1 << 10

// graphLaunches find the launch of a graph that was running at a time, from the calls alone: the only launch that can
// have been running, or none where several can. They know the calls that launched graphs, and what shows that a launch
// had finished: a wait for it, later work on its stream, a later launch of the same graph.
//
// This rests on two rules of CUDA: an executable graph never runs twice at once, and a stream runs its work in order.
// The zero value is ready for use.
type graphLaunches struct {
	list     []graphRun   // in the order of Start
	marks    []finishMark // for advance
	launched bool
	unseen   bool // launches that are in no list may be running
}

// missLaunch notes that a launch is missing: nothing is certain from now on.
func (l *graphLaunches) missLaunch() { l.unseen, l.list, l.marks = true, nil, nil }

// addLaunch adds a launch. The records of the runtime's call and of the driver call inside it are one launch.
func (l *graphLaunches) addLaunch(x graphLaunch) {
	l.launched = true
	if l.unseen {
		return
	}
	byStart := func(o graphRun, start uint64) int { return cmp.Compare(o.Start, start) }
	at, _ := slices.BinarySearchFunc(l.list, x.Start, byStart)
	for i := at - 1; i >= 0 && l.list[i].End >= x.Start; i-- {
		if l.list[i].same(&x) {
			return
		}
	}
	for i := at; i < len(l.list) && l.list[i].Start <= x.End; i++ {
		if l.list[i].same(&x) {
			l.list[i].Start = x.Start // no launch lies between the two: at most the one of another thread
			slices.SortStableFunc(l.list, func(a, b graphRun) int { return cmp.Compare(a.Start, b.Start) })
			return
		}
	}
	if len(l.list) == maxGraphRuns {
		l.missLaunch()
		return
	}
	l.list = slices.Insert(l.list, at, graphRun{x, nil, timeline.Never})
}

// same reports whether a launch is that of another record, and takes over what only that record has.
func (o *graphRun) same(x *graphLaunch) bool {
	if o.Correlation != x.Correlation {
		return false
	}
	o.End = max(o.End, x.End)
	o.Stream, o.Exec = cmp.Or(o.Stream, x.Stream), cmp.Or(o.Exec, x.Exec)
	return true
}

// mark adds a mark. It counts from the next advance on.
func (l *graphLaunches) mark(m finishMark) {
	if !l.unseen {
		l.marks = append(l.marks, m)
	}
}

// advance applies the marks. All launches whose calls began before low have been added.
func (l *graphLaunches) advance(low uint64) {
	slices.SortStableFunc(l.marks, func(a, b finishMark) int { return cmp.Compare(a.After, b.After) })
	running := make(graphRuns)
	n, known := 0, 0
	for ; n < len(l.marks) && l.marks[n].After < low; n++ {
		m := &l.marks[n]
		for ; known < len(l.list) && l.list[known].Start <= m.After; known++ {
			if x := &l.list[known]; x.finished == timeline.Never {
				running[x.Stream] = append(running[x.Stream], x)
			}
		}
		running.apply(m)
	}
	l.marks = slices.Delete(l.marks, 0, n)
}

// graphRuns are the launches for which nothing shows that they had finished, by stream.
type graphRuns map[read.StreamHandle][]*graphRun

func (r graphRuns) apply(m *finishMark) {
	if m.Stream != 0 {
		r.applyTo(m.Stream, m)
		return
	}
	for stream := range r {
		r.applyTo(stream, m)
	}
}

func (r graphRuns) applyTo(stream read.StreamHandle, m *finishMark) {
	list := r[stream]
	if len(list) == 0 {
		return
	}
	r[stream] = slices.DeleteFunc(list, func(x *graphRun) bool {
		switch {
		case m.Destroyed:
			x.Stream = 0
			r[0] = append(r[0], x)
		case x.End <= m.After:
			x.finished = m.At
		default:
			return false
		}
		return true
	})
}

// ran notes that a launch is of a graph and was running at a time. The earlier launches of the graph had finished.
func (l *graphLaunches) ran(correlation uint32, g *graph, at uint64) {
	i := slices.IndexFunc(l.list, func(x graphRun) bool { return x.Correlation == correlation })
	if i < 0 {
		return
	}
	l.list[i].graph = g
	g.exec = cmp.Or(l.list[i].Exec, g.exec)
	for j := range l.list[:i] {
		if x := &l.list[j]; x.graph == g {
			x.finished = min(x.finished, at)
		}
	}
}

// onlyRunning returns the correlation ID of the only launch of a graph that can have been running at a time, 0 for
// none. Times of one graph go up.
func (l *graphLaunches) onlyRunning(g *graph, at uint64) uint32 {
	if l.unseen {
		return 0
	}
	var found *graphRun
	for i := range l.list {
		x := &l.list[i]
		if x.Start > at {
			break
		}
		if x.finished <= at || !x.may(g) {
			continue
		}
		if found != nil {
			return 0
		}
		found = x
	}
	if found == nil {
		return 0
	}
	l.ran(found.Correlation, g, at)
	return found.Correlation
}

// may reports whether a launch may be of a graph.
func (o *graphRun) may(g *graph) bool {
	if o.graph != nil {
		return o.graph == g
	}
	return g.exec == 0 || o.Exec == 0 || o.Exec == g.exec
}

// passed forgets the launches that had finished by a time. onlyRunning is not asked for earlier times.
func (l *graphLaunches) passed(at uint64) {
	l.list = slices.DeleteFunc(l.list, func(x graphRun) bool { return x.finished <= at })
}
