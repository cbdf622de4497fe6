package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A graphKey identifies an executable graph in a program.
type graphKey struct {
	Context *timeline.Context
	ID      uint32
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
	graph    graphKey // zero while it is unknown
	finished uint64   // a time by which the launch had finished; Never while none is known
}

// maxGraphRuns bounds the launches that may be running. A GPU accepts about as many before it runs them.
const maxGraphRuns = 1 << 10

// graphLaunches find the launch of a graph that was running at a time, from the calls alone: the only launch that can
// have been running, or none where several can. They know the calls that launched graphs, and what shows that a launch
// had finished: a wait for it, later work on its stream, a later launch of the same graph.
//
// This rests on two rules of CUDA: an executable graph never runs twice at once, and a stream runs its work in order.
// The zero value is ready for use.
type graphLaunches struct {
	list     []graphRun          // in the order of Start
	execs    map[graphKey]uint64 // handles of executable graphs, as far as they are known
	marks    []finishMark        // for Advance
	launched bool
	unseen   bool // launches that are in no list may be running
}

// maxGraphExecs bounds the graphs whose handle is remembered.
const maxGraphExecs = 1 << 16

// missLaunch notes that a launch is missing: nothing is certain from now on.
func (l *graphLaunches) missLaunch() { l.unseen, l.list, l.marks = true, nil, nil }

// addLaunch adds a launch. The records of the runtime's call and of the driver call inside it are one launch.
func (l *graphLaunches) addLaunch(x graphLaunch) {
	l.launched = true
	if l.unseen {
		return
	}
	at, _ := slices.BinarySearchFunc(l.list, x.Start, func(o graphRun, start uint64) int { return cmp.Compare(o.Start, start) })
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
	l.list = slices.Insert(l.list, at, graphRun{x, graphKey{}, timeline.Never})
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

// mark adds a mark. It counts from the next Advance on.
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
func (l *graphLaunches) ran(correlation uint32, g graphKey, at uint64) {
	i := slices.IndexFunc(l.list, func(x graphRun) bool { return x.Correlation == correlation })
	if i < 0 {
		return
	}
	l.list[i].graph = g
	l.learn(g, l.list[i].Exec)
	for j := range l.list[:i] {
		if x := &l.list[j]; x.graph == g {
			x.finished = min(x.finished, at)
		}
	}
}

func (l *graphLaunches) learn(g graphKey, exec uint64) {
	if exec == 0 || len(l.execs) >= maxGraphExecs {
		return
	}
	if l.execs == nil {
		l.execs = make(map[graphKey]uint64)
	}
	l.execs[g] = exec
}

// onlyRunning returns the correlation ID of the only launch of a graph that can have been running at a time, 0 for none. Times
// of one graph go up.
func (l *graphLaunches) onlyRunning(g graphKey, at uint64) uint32 {
	if l.unseen {
		return 0
	}
	var found *graphRun
	for i := range l.list {
		x := &l.list[i]
		if x.Start > at {
			break
		}
		if x.finished <= at || !l.may(x, g) {
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

// may reports whether a launch may be of a graph. An executable graph has one handle for all its life.
func (l *graphLaunches) may(x *graphRun, g graphKey) bool {
	if x.graph != (graphKey{}) {
		return x.graph == g
	}
	exec := l.execs[g]
	return exec == 0 || x.Exec == 0 || x.Exec == exec
}

// passed forgets the launches that had finished by a time. Of is not asked for earlier times.
func (l *graphLaunches) passed(at uint64) {
	l.list = slices.DeleteFunc(l.list, func(x graphRun) bool { return x.finished <= at })
}
