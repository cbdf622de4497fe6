package join

import (
	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A workJoiner numbers work, joins it with its call and shows it.
type workJoiner struct {
	out       *pipeline.Pipeline
	selection *selection.Selection
	found     *Found
	ids       *WorkIDs
	spans     *spanOutput
	ofCalls   bool       // show only work that has a call
	late      []lateWork // a few
}

// joinWork joins the next piece of work of a stream to its call.
func (j *workJoiner) joinWork(s *stream, w *timeline.Work) {
	s.program.work.done++
	if w.Start != 0 {
		j.found.Span.widen(w.Start, w.Start+w.Dur)
	}
	w.ID = j.ids.next(s.program, w.Correlation)
	w.Call, w.NCCL = timeline.Call{}, nil
	if j.ofCalls {
		j.found.LeftOut++ // counted as left out until its call is found
	} else {
		j.found.Work.Add(w.Kind)
		if isBody(w) {
			j.found.Work.Bodies++
		}
	}
	o := orphan{id: w.ID, shape: w.Shape, start: w.Start, graph: w.Graph, stream: s, awaited: timeline.Never, nth: timeline.Never}
	if s.waits != nil && w.Start != 0 {
		o.awaited = s.waits.addWork(w)
	}
	c := s.program.correlation.certain(w.Correlation)
	switch {
	case w.Start == 0 || j.ofCalls:
		held := *w
		o.held, c = &held, nil
	case c != nil && s.pending.empty() && !s.program.awaitsNCCL(w.Kind, c.Ranges, c.End) && !s.program.captures.awaits(w, c.Start):
		w.Call = c.asCause()
	default:
		o.nth, c = s.pending.push(w), nil
	}
	if w.Graph != 0 && s.program.graphs.matchNode(w, &o) {
		return
	}
	if c == nil {
		s.program.adopt(w.Correlation, &o, j)
		return
	}
	j.attach(&o, c)
	j.show(s, w)
}

// launched joins body work of a graph with its call, now or when the call comes.
func (j *workJoiner) launched(o *orphan, correlation uint32, p *program) {
	o.body = true
	switch {
	case o.held != nil:
		o.held.Correlation = correlation
	case o.stream.pending.has(o.nth):
		o.stream.pending.at(o.nth).Correlation = correlation
	}
	p.adopt(correlation, o, j)
}

// asCause returns the part of a call that its work carries.
func (c *call) asCause() timeline.Call {
	return timeline.Call{Function: c.Function, Thread: c.stack.thread, Caller: c.Caller, Python: c.Python, Ranges: c.Ranges, Start: c.Start, End: c.End}
}

// attach links work and its call.
func (j *workJoiner) attach(o *orphan, c *call) {
	s := o.stream
	if !c.HasWork() {
		c.Launched = o.shape
		s.program.captures.launched(o.graph, c)
		if !o.body {
			s.program.graphs.ran(c, o.start)
		}
	}
	c.AddWork(o.id)
	if !o.body || c.Stream == nil {
		c.Stream = s.out
	}
	chosen := !j.ofCalls || j.selection.Causes(&c.Slice)
	if chosen {
		j.found.Work.Matched++
		if o.body && !j.ofCalls {
			j.found.Work.Bodies--
		}
	}
	switch {
	case o.held != nil && chosen:
		j.showHeld(o, c)
	case s.pending.has(o.nth):
		s.pending.at(o.nth).Call = c.asCause()
	}
	if o.start != 0 && o.start < c.Start {
		j.found.Work.Early++
	}
	if s.waits != nil {
		if o.awaited != timeline.Never {
			s.waits.launched(o.awaited, c.Start)
		}
		if !o.body {
			s.program.waits.learn(c.stream, c.stack.tid, c.fn.LaunchesGraph, s.waits)
		}
	}
	if c.state&launching != 0 {
		c.state &^= awaiting // a launch has one kernel
	}
}

// showHeld shows work that could not be placed without its call. Work without times from CUPTI
// is placed at its call's return, with no length.
func (j *workJoiner) showHeld(o *orphan, c *call) {
	w := o.held
	w.Call = c.asCause()
	if w.Start == 0 {
		w.Start, w.Dur, w.Untimed = c.End, 0, true
	}
	if j.ofCalls {
		j.found.Work.Add(w.Kind)
		j.found.LeftOut--
	}
	if o.stream.program.awaitsNCCL(w.Kind, w.Call.Ranges, w.Call.End) {
		j.late = append(j.late, lateWork{o.stream, w})
		return
	}
	j.show(o.stream, w)
}

func (j *workJoiner) show(s *stream, w *timeline.Work) {
	s.program.nccl(w)
	s.program.captures.name(w)
	switch {
	case w.Captured != nil:
		j.found.Work.Captured++
	case w.Uncaptured != timeline.Named:
		j.found.Work.Uncaptured[w.Uncaptured]++
	}
	s.program.project(j.spans, s.out, w)
	if j.selection.Work(w) {
		j.out.Work(s.out, w)
	}
}

// callSlack is the time, in ns, by which a call may seem to begin after its work and still be
// waited for.
const callSlack = 1e6

// emit shows the work of a stream up to the first piece whose call may still come. All calls
// that begin before known are known. With all it shows everything.
func (j *workJoiner) emit(s *stream, known uint64, all bool) {
	for !s.pending.empty() {
		w := s.pending.front()
		if !all && (s.program.awaitsNCCL(w.Kind, w.Call.Ranges, w.Call.End) || w.Call.Function == nil && w.Correlation != 0 && timeline.End(w.Start, callSlack) >= known ||
			isBody(w) && s.program.graphs.awaits(w.Start) || w.Call.Function != nil && s.program.captures.awaits(w, w.Call.Start)) {
			return
		}
		j.show(s, w)
		s.pending.pop()
	}
}

// chunkWork is the number of pieces of work that are allocated together.
const chunkWork = 64

type workChunk [chunkWork]timeline.Work

// A workQueue holds work. A piece of work in it never moves in memory.
type workQueue struct {
	pool   *pool[workChunk]
	chunks []*workChunk
	popped uint64 // number of pieces popped so far
	pushed uint64
}

func (q *workQueue) empty() bool { return q.popped == q.pushed }

func (q *workQueue) len() int { return int(q.pushed - q.popped) }

// push adds a piece of work. It returns the piece's number, for at.
func (q *workQueue) push(w *timeline.Work) (nth uint64) {
	if q.pushed%chunkWork == 0 || q.empty() {
		q.chunks = append(q.chunks, q.pool.get())
	}
	nth = q.pushed
	q.pushed++
	*q.at(nth) = *w
	return nth
}

// has reports whether the piece of work with a number has not been popped.
func (q *workQueue) has(nth uint64) bool { return nth >= q.popped && nth < q.pushed }

func (q *workQueue) at(nth uint64) *timeline.Work {
	return &q.chunks[nth/chunkWork-q.popped/chunkWork][nth%chunkWork]
}

func (q *workQueue) front() *timeline.Work { return &q.chunks[0][q.popped%chunkWork] }

func (q *workQueue) pop() {
	if q.popped++; q.popped%chunkWork == 0 || q.empty() { // an idle stream holds no chunk
		q.pool.put(q.chunks[0])
		q.chunks = q.chunks[:copy(q.chunks, q.chunks[1:])]
	}
}
