package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// The body of a conditional graph node (IF, WHILE, SWITCH) is a graph inside the graph. CUPTI's
// records of work in a body have the number of the graph that was launched, and no correlation ID.
// Records of top-level work have both. So the launch of a body is found by time: CUDA never runs
// one executable graph twice at once, and a body runs after the top-level work that its
// conditional node depends on. Body work belongs to the launch whose top-level work of this graph
// began last.
//
// This is wrong where body work runs ahead of all top-level work of its launch. A graph is unsure
// as soon as it shows such work, and its body work has no call from then on:
//
//   - body work before any top-level work of the graph
//   - body work that begins before any top-level work of the latest launch has ended
//   - top-level work without a correlation ID: the GPU launched this graph
//
// One case stays unseen: a conditional node that depends on no top-level work, and whose body ran
// behind such work, or not at all, in all launches before.

// A graphKey identifies an executable graph in a program.
type graphKey struct {
	context *timeline.Context
	graph   uint32
}

// A graph is an executable graph with work that was recorded node by node.
type graph struct {
	first, latest uint32              // correlation IDs of two launches, 0 for none
	nodes         map[uint64]struct{} // the nodes of the top level, from the first launch
	begun         uint64              // start of the latest top-level work
	ended         uint64              // earliest end of top-level work of the latest launch
	unsure        bool
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
	graph  *graph
	node   uint64
	orphan orphan
}

// graphs find the launches of body work. The zero value is ready for use.
type graphs struct {
	off    bool // work is missing: no launch is certain
	byKey  map[graphKey]*graph
	recent *graph // value of byKey for the key below
	key    graphKey
	size   int // number of graphs and nodes
	top    []nodeWork
	bodies []bodyWork
	low    uint64 // body work before this time is no longer in bodies
}

// These limits hold for a program. Beyond them body work has no call.
const (
	maxGraphs = 1 << 18 // graphs and nodes
	maxTop    = 1 << 19 // top-level work that waits for work of other streams
)

// isBody says whether work is body work.
func isBody(w *timeline.Work) bool {
	return w.Graph != 0 && w.Correlation == 0 && w.Start != 0 && w.Kind != timeline.GraphWork
}

// take takes the next work of a stream, a node of a graph. It reports whether it is body work
// whose launch settle will look for.
func (l *graphs) take(w *timeline.Work, o *orphan) (waits bool) {
	if l.off || w.Start == 0 || w.Kind == timeline.GraphWork {
		return false
	}
	g := l.graph(graphKey{o.stream.out.Context, w.Graph})
	switch {
	case g == nil:
		return false
	case w.Correlation == 0:
		l.bodies = append(l.bodies, bodyWork{g, w.GraphNode, *o})
		return true
	case len(l.top) == maxTop:
		l.off, l.top = true, nil
	default:
		l.top = append(l.top, nodeWork{g, w.GraphNode, w.Start, timeline.End(w.Start, w.Dur), w.Correlation})
	}
	return false
}

// awaits says whether body work that begins at a time may still be joined with its call.
func (l *graphs) awaits(start uint64) bool { return !l.off && start >= l.low }

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
func (l *graphs) settle(low uint64, p *program, found *workJoiner) {
	l.low = max(l.low, low)
	known := 0 // number of works in top that have been noted
	if len(l.bodies) > 0 {
		slices.SortStableFunc(l.bodies, func(a, b bodyWork) int { return cmp.Compare(a.orphan.start, b.orphan.start) })
		slices.SortStableFunc(l.top, func(a, b nodeWork) int { return cmp.Compare(a.start, b.start) })
		n := 0
		for ; n < len(l.bodies) && l.bodies[n].orphan.start < l.low; n++ {
			b := &l.bodies[n]
			for ; known < len(l.top) && l.top[known].start <= b.orphan.start; known++ {
				l.note(&l.top[known])
			}
			if launch := b.launch(l.off); launch != 0 {
				found.launched(&b.orphan, launch, p)
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
}

// note makes top-level work known to its graph. Work of one launch may come in any order.
func (l *graphs) note(w *nodeWork) {
	g := w.graph
	switch {
	case w.correlation == g.latest:
		g.ended = min(g.ended, w.end)
	case w.start >= g.begun:
		g.latest, g.ended = w.correlation, w.end
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
func (b *bodyWork) launch(off bool) uint32 {
	g := b.graph
	if _, top := g.nodes[b.node]; top || g.latest == 0 || b.orphan.start < g.ended {
		g.unsure = true
	}
	if g.unsure || off {
		return 0
	}
	return g.latest
}
