package critical

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A Kind is what a segment is.
type Kind uint8

// The kinds.
const (
	Unknown       Kind = iota // the log does not tell
	Kernel                    // a kernel or a graph ran
	Communication             // a kernel of NCCL or NVSHMEM ran
	Copy                      // a copy ran
	Set                       // a memory set ran
	Start                     // work started: from its launch, or the end of what it waited for
	Return                    // a call returned: from the end of the work that it waited for
	Call                      // a thread was in a CUDA call
	Code                      // a thread ran, outside of calls
	Blocked                   // a thread was blocked
	NoCPU                     // a thread was ready to run, without a processor
	Kinds                     // number of kinds
)

var kindNames = [Kinds]string{
	"unknown", "kernel", "communication", "copy", "set", "start of work", "return", "call", "code", "blocked",
	"no processor",
}

func (k Kind) String() string { return kindNames[k] }

// An Edge is why a segment did not begin earlier: how the path goes on to the segment before it.
type Edge uint8

// The edges.
const (
	NoEdge     Edge = iota // nothing is known to have come before
	Program                // the thread did one thing after the other
	Waited                 // a call waited for work
	Launched               // a call launched the work
	InOrder                // the work came behind other work of its stream
	InGraph                // the work came behind other work of its graph
	Held                   // a thread had what another one waited for
	Event                  // the work came behind work of another stream, by an event
	Collective             // the collective needed the rank that entered it last
	// PyTorch's backward pass came behind the thread that began it, or that thread behind the backward pass
	Backward
)

// A Segment is a part of a path.
type Segment struct {
	From, To uint64
	Kind     Kind
	Edge     Edge
	Name     uint32           // texts: see Text
	By       timeline.Blocker // of Blocked
	Place    uint32           // line of the program, or code, that launched the work or made the call
	Also     uint32           // what else explains when it began, or who waits for it meanwhile
	Thread   *timeline.Thread // nil for work
	Stream   *timeline.Stream // nil for what threads did
	Work     uint64           // ID of the work that ran, 0 for none

	// What a thread did outside of calls is seen by chance.
	Next   uint32  // place of what the thread did next
	Weight float64 // of what was seen: see activity.Spent
	Unseen bool    // it is not known what code ran, or what blocked the thread
}

// Text returns a text by its number.
func (c *Collector) Text(n uint32) string { return c.texts[n] }

// Times that count as one, and as short, in ns.
const (
	together = 2000   // times of GPU and CPU that may be one
	slack    = 10_000 // by which the end of work may be later than the return of a call that waited for it
	starting = 20_000 // an idle GPU starts work within this time from its launch
)

// Bounds of a walk.
const (
	mostOverlap = 16      // pieces of a stream that may run at once
	mostStreams = 64      // of a graph
	mostThreads = 256     // of a process that are looked at
	mostAhead   = 16      // calls
	mostIdle    = 64      // hops without a segment
	mostHops    = 1 << 23 // of a path
	mostHolders = 16      // threads that wait for each other
)

// An End is where a path begins, seen from its end.
type End struct {
	Thread *timeline.Thread // the path is that of what the thread did
	Stream *timeline.Stream // else: the path is that of the start of the stream's work
}

// Path gives the path from one time to a later one, the latest segment first. The segments' times add up to that from
// one to the other. A segment is valid during the call of give. Path returns the number of steps back.
func (c *Collector) Path(from, to uint64, end End, give func(*Segment)) (hops int) {
	c.settle()
	w := walk{c: c, from: from, at: max(from, to), give: give}
	switch {
	case end.Thread != nil && c.byThread[end.Thread] != nil:
		w.thread = c.byThread[end.Thread]
		w.first = w.thread
	case end.Stream != nil && c.byStream[end.Stream] != nil:
		s := c.byStream[end.Stream]
		if i := s.work.search(func(p *piece) bool { return p.start >= to }); i < s.work.n && s.work.at(i).start == to {
			w.reason(s, i).apply(&w)
		}
	}
	w.run()
	return w.hops
}

// A Span is a part of the time.
type Span struct{ From, To uint64 }

// mostBeside bounds the spans that are looked at of those that overlap.
const mostBeside = 64

// Divided gives the path from the beginning of the first of some spans, which are sorted by their beginnings, to the
// end of the one that ends last. It gives what of each segment lies in each span, with the number of the span. A
// segment is valid during the call of give.
func (c *Collector) Divided(spans []Span, last End, give func(i int, s *Segment)) {
	to, overlap := uint64(0), false
	for _, s := range spans {
		overlap = overlap || s.From < to
		to = max(to, s.To)
	}
	end := len(spans) // those from there on begin behind the segment
	c.Path(spans[0].From, to, last, func(x *Segment) {
		from, to := x.From, x.To
		for end > 0 && spans[end-1].From >= to {
			end--
		}
		for i := end - 1; i >= 0 && (!overlap || i >= end-mostBeside); i-- {
			if x.From, x.To = max(from, spans[i].From), min(to, spans[i].To); x.From < x.To {
				give(i, x)
			}
			if spans[i].From <= from && !overlap {
				break
			}
		}
	})
}

// Last returns the last moment at which a process did anything, and where a path to it begins.
func (c *Collector) Last(of *timeline.Process) (first, last uint64, end End) {
	c.settle()
	p := c.process(of)
	first = timeline.Never
	for _, t := range p.threads {
		if n := t.calls.n; n > 0 {
			first = min(first, t.calls.at(0).start)
			if at := t.calls.at(n - 1).end; at > last {
				last, end = at, End{Thread: t.Thread}
			}
		}
	}
	for _, s := range p.streams {
		if s.work.n > 0 {
			first = min(first, s.work.at(0).start)
		}
	}
	return first, last, end
}

// A walk goes backwards along a path. It is on a thread or at the end of a piece of work.
type walk struct {
	c        *Collector
	from, at uint64
	give     func(*Segment)
	given    Segment // what give gets: give may not keep it
	thread   *Thread // that the walk is on; nil for none
	first    *Thread // that the walk began on
	stream   *Stream // whose piece the walk is at the end of, or within; nil for none
	piece    int
	holding  []holding
	lost     string // why the walk is on no thread and at no piece
	list     []activity.Stretch
	all      []reason // of the piece that was looked at last
	hops     int
	idle     int
}

// A holding is a thread for which another one waits, until the walk comes to a time.
type holding struct {
	waiter *Thread
	until  uint64
	also   uint32
}

// run goes from segment to segment to the beginning of the path.
func (w *walk) run() {
	for w.at > w.from {
		before := w.at
		w.release()
		switch {
		case w.hops >= mostHops || w.idle >= mostIdle:
			w.rest("(too many steps back)")
		case w.stream != nil:
			w.work()
		case w.thread != nil:
			w.onThread()
		default:
			w.rest(cmp.Or(w.lost, activity.NotKnown))
		}
		if w.hops++; w.at == before {
			w.idle++
		} else {
			w.idle = 0
		}
	}
}

// emit gives a segment from a time to where the walk is.
func (w *walk) emit(from uint64, s Segment) {
	from = max(min(from, w.at), w.from)
	if from < w.at {
		s.From, s.To = from, w.at
		if n := len(w.holding); n > 0 && s.Also == 0 && s.Thread != nil {
			s.Also = w.holding[n-1].also
		}
		w.given = s
		w.give(&w.given)
		w.at = from
	}
}

// rest gives what is left of the path as unknown.
func (w *walk) rest(name string) { w.emit(w.from, Segment{Name: w.c.text(name)}) }

// A reason is why a piece of work started when it did.
type reason struct {
	at     uint64 // when the last of what it waited for was there
	start  uint64
	edge   Edge
	thread *Thread // that launched it
	stream *Stream // of the piece that it waited for
	piece  int
	also   uint32
	behind bool // it started later than an idle GPU takes
}

// apply goes to what the piece waited for. The walk is at the start of the piece.
func (r *reason) apply(w *walk) {
	w.thread, w.stream, w.piece = nil, nil, 0
	switch {
	case r.edge == NoEdge:
		w.lost = activity.NoCall
		return
	case r.behind:
		w.emit(r.at, Segment{Name: w.c.text("(queued, not known behind what)"), Edge: r.edge, Also: r.also})
	default:
		w.emit(r.at, Segment{Kind: Start, Name: w.c.text("(start of work)"), Edge: r.edge})
	}
	if r.thread != nil {
		w.thread = r.thread
		return
	}
	w.stream, w.piece = r.stream, r.piece
}

// reasons appends all that a piece of work is known to have waited for.
func (w *walk) reasons(s *Stream, i int, all []reason) []reason {
	p := s.work.at(i)
	if p.thread != 0 {
		all = append(all, reason{at: min(p.callEnd, p.start), edge: Launched, thread: w.c.threads[p.thread-1]})
	}
	if p.graph != 0 {
		for _, n := range s.process.nodes(p, p.start) {
			if n.stream != nil {
				all = append(all, reason{at: n.end, edge: InGraph, stream: n.stream, piece: n.piece})
			}
		}
	}
	if k := s.before(i); k >= 0 {
		of := s
		if q := s.work.at(k); q.graph != 0 {
			of, k = w.lastOfGraph(s, k, p.start)
		}
		all = append(all, reason{at: min(of.work.at(k).end, p.start), edge: InOrder, stream: of, piece: k})
	}
	event, known := s.awaitedBy(i)
	if event != nil {
		all = append(all, reason{
			at: min(event.stream.work.at(event.piece).end, p.start), edge: Event, stream: event.stream, piece: event.piece,
		})
	}
	if !known {
		since := uint64(0)
		for _, x := range all {
			since = max(since, x.at)
		}
		if of, k := w.onlyOne(s, p, since); of != nil && p.start-since > together {
			all = append(all, reason{at: of.work.at(k).end, edge: Event, stream: of, piece: k})
		}
	}
	return all
}

// reason finds out why a piece of work started.
func (w *walk) reason(s *Stream, i int) *reason {
	p := s.work.at(i)
	r := &reason{start: p.start}
	all := w.reasons(s, i, w.all[:0])
	w.all = all
	if len(all) == 0 {
		return r
	}
	slices.SortStableFunc(all, func(a, b reason) int { return cmp.Compare(b.at, a.at) })
	*r = all[0]
	r.start = p.start
	r.behind = p.start-r.at > starting
	if len(all) > 1 && all[0].at-all[1].at <= together && all[1].at > w.from {
		r.also = w.c.text("or " + w.describe(&all[1]))
	}
	if r.behind {
		r.also = w.beside(s, p)
	}
	return r
}

// describe says what a piece waited for.
func (w *walk) describe(r *reason) string {
	if r.thread != nil {
		return "its launch"
	}
	name := w.c.texts[r.stream.work.at(r.piece).name]
	return fmt.Sprintf("%s on stream %d", name, r.stream.ID)
}

// before returns the number of the last piece of a stream that ended before another one of the stream, or runs on
// beside it; -1 for none. Pieces of the same launch of a graph are in no order.
func (s *Stream) before(i int) int {
	p := s.work.at(i)
	best := -1
	for k := i - 1; k >= 0 && k >= i-mostOverlap; k-- {
		q := s.work.at(k)
		switch {
		case p.graph != 0 && q.sameLaunch(p):
			continue
		case best < 0:
			best = k
			if q.graph == 0 {
				return best
			}
		case !q.sameLaunch(s.work.at(best)):
			return best
		case q.end > s.work.at(best).end:
			best = k
		}
	}
	return best
}

func (p *piece) sameLaunch(o *piece) bool {
	return p.graph == o.graph && p.thread == o.thread && p.callStart == o.callStart && p.thread != 0
}

// lastOfGraph returns the piece of the launch of a graph that was the last to end before a time, whatever its stream:
// what is behind a graph waits for all of it. A piece of the launch is given, which may be under way.
func (w *walk) lastOfGraph(s *Stream, i int, before uint64) (*Stream, int) {
	if last := s.process.nodes(s.work.at(i), before)[0]; last.stream != nil && last.end > s.work.at(i).end {
		return last.stream, last.piece
	}
	return s, i
}

// A node is a piece of the launch of a graph; one without a stream is none.
type node struct {
	stream *Stream
	piece  int
	end    uint64
}

// nodes returns the pieces of the launch of a piece that were the last to end before a time: the last one, and the one
// before it.
func (p *keptProcess) nodes(of *piece, before uint64) (last [2]node) {
	if of.thread == 0 {
		return last
	}
	for n, s := range p.streams {
		if n >= mostStreams {
			break
		}
		first := s.work.search(func(q *piece) bool { return q.start >= before }) - 1
		for k := first; k >= 0 && k > first-mostOverlap; k-- {
			q := s.work.at(k)
			switch x := (node{s, k, q.end}); {
			case !q.sameLaunch(of) || q.end > before:
			case last[0].stream == nil || q.end > last[0].end:
				last[0], last[1] = x, last[0]
			case last[1].stream == nil || q.end > last[1].end:
				last[1] = x
			}
		}
	}
	return last
}

// beside names the work of another stream of the device that ended when a piece started, "" for none.
func (w *walk) beside(s *Stream, p *piece) uint32 {
	of, k := s.endedAt(p)
	if of == nil {
		return none
	}
	return w.c.text(fmt.Sprintf("%s on stream %d ended then", w.c.texts[of.work.at(k).name], of.ID))
}

// endedAt returns the work of another stream of the device that ended when a piece started, nil for none.
func (s *Stream) endedAt(p *piece) (last *Stream, at int) {
	latest := uint64(0)
	for n, of := range s.process.streams {
		if n >= mostStreams || of == s || of.Context.GPU != s.Context.GPU {
			continue
		}
		k := of.work.search(func(q *piece) bool { return q.start >= p.start })
		for i := k - 1; i >= 0 && i >= k-4; i-- {
			if q := of.work.at(i); q.end <= p.start && p.start-q.end <= slack && q.end > latest {
				latest, last, at = q.end, of, i
			}
		}
	}
	return last, at
}

// work gives the piece of work that the walk is at the end of, or within.
func (w *walk) work() {
	s, p := w.stream, w.stream.work.at(w.piece)
	if p.part != 0 && w.c.parts[p.part-1].waits && w.collective(s, p, &w.c.parts[p.part-1]) {
		return
	}
	r := w.reason(s, w.piece)
	x := Segment{Kind: p.kind, Name: p.name, Place: p.place, Stream: s.Stream, Work: p.id, Edge: r.edge}
	if !r.behind {
		x.Also = r.also
	}
	w.emit(p.start, x)
	r.apply(w)
}

// collective gives the part of a collective behind the moment at which the last rank entered it, and goes on there. It
// reports false where the clocks do not tell who was the last one, and where the walk is before that moment.
func (w *walk) collective(s *Stream, p *piece, x *part) bool {
	if w.at <= x.entered {
		return false
	}
	seg := Segment{Kind: p.kind, Name: p.name, Place: p.place, Stream: s.Stream, Work: p.id, Edge: Collective}
	if !x.sure {
		r := w.reason(s, w.piece)
		seg.Edge, seg.Also = r.edge, w.c.text("or waiting for "+w.c.texts[x.last]+": the clocks do not tell")
		w.emit(p.start, seg)
		r.apply(w)
		return true
	}
	w.emit(x.entered, seg)
	if at, known := w.c.lasts[x.collective]; known {
		last := w.c.streams[at.stream]
		if i := last.work.search(func(q *piece) bool { return q.start >= at.start }); i < last.work.n &&
			w.at <= last.process.until {
			w.reason(last, i).apply(w)
			return true
		}
	}
	r := w.reason(s, w.piece)
	w.emit(p.start, Segment{
		Name: w.c.text("(waiting for " + w.c.texts[x.last] + ", of which nothing is known)"), Stream: s.Stream, Edge: r.edge,
	})
	r.apply(w)
	return true
}

// onThread gives what the thread did last.
func (w *walk) onThread() {
	t := w.thread
	i := t.calls.search(func(x *call) bool { return x.start >= w.at }) - 1
	if i < 0 || t.calls.at(i).end < w.at {
		from := w.from
		if i >= 0 {
			from = max(from, t.calls.at(i).end)
		}
		next := t.comesTo(i + 1)
		x := Segment{
			Kind: Unknown, Name: w.c.text(activity.OutsideCalls), Place: next, Next: next, Thread: t.Thread, Edge: Program,
		}
		other, at := w.passed(t, from)
		switch {
		case other == nil:
			x.Also = w.meanwhile(t, from)
		case t.Autograd():
			w.thread = other
			return
		default:
			from, x.Edge = at, Backward
		}
		if w.did(from, x); other != nil && w.at <= from && w.thread == t {
			w.thread = other
		}
		return
	}
	x := t.calls.at(i)
	if s, k := w.waitedFor(t, x); s != nil {
		end := s.work.at(k).end
		w.did(end, Segment{Kind: Return, Name: x.name, Place: x.place, Thread: t.Thread, Edge: Waited})
		if w.thread == t && w.at <= max(end, w.from) || end > w.at {
			w.thread, w.stream, w.piece = nil, s, k
		}
		return
	}
	w.did(x.start, Segment{Kind: Call, Name: x.name, Place: x.place, Thread: t.Thread, Edge: Program})
}

// waitedFor returns the work for whose end a call waited, nil for none.
func (w *walk) waitedFor(t *Thread, x *call) (*Stream, int) {
	if a := t.awaited(x); a != nil && a.end > x.start && a.start < w.at && a.end <= w.at+slack {
		if s := w.c.streams[a.stream]; s != nil {
			if k, found := s.find(a); found {
				return s, k
			}
		}
	}
	if w.c.frees(x) {
		if s, k := w.c.jam(t, x); s != nil && s.work.at(k).end <= w.at {
			return s, k
		}
	}
	return nil, 0
}

// comesTo returns the place of a call that comes next. Calls that make no work have no line of the program: it is that
// of the next one that has.
func (t *Thread) comesTo(next int) uint32 {
	if next >= t.calls.n {
		return none
	}
	for i := next; i < min(next+mostAhead, t.calls.n); i++ {
		if x := t.calls.at(i); x.line {
			return x.place
		}
	}
	return t.calls.at(next).place
}

// passed returns the thread on which PyTorch goes on while another one is outside of calls: a backward pass runs on
// threads of its own while the thread that began it waits, and these threads do nothing else. It also returns the end
// of that thread's last call; nil for none.
func (w *walk) passed(t *Thread, from uint64) (best *Thread, at uint64) {
	if !t.process.autograd || !t.Autograd() && !w.begins(t) {
		return nil, 0
	}
	for n, o := range t.process.threads {
		if o.Autograd() == t.Autograd() || n >= mostThreads || !o.Autograd() && !w.begins(o) {
			continue
		}
		if x := o.lastCall(w.at); x != nil && x.end > max(from, at) && x.end <= w.at {
			best, at = o, x.end
		}
	}
	return best, at
}

// begins reports whether a thread is one that begins backward passes: the main thread, or the one whose step it is.
// Others, such as those that load data, make calls at the same time.
func (w *walk) begins(t *Thread) bool { return t.Main || t == w.first }

// meanwhile names the thread that made calls while another one was outside of calls for long.
func (w *walk) meanwhile(t *Thread, from uint64) uint32 {
	if w.at-from < starting || len(t.process.threads) > mostThreads || len(w.holding) > 0 {
		return none
	}
	for _, o := range t.process.threads {
		if x := o.lastCall(w.at); o != t && x != nil && x.end > from {
			return w.c.text("meanwhile calls of " + title(o.Thread))
		}
	}
	return none
}

// lastCall returns the last call of a thread that begins before a time, nil for none.
func (t *Thread) lastCall(before uint64) *call {
	if i := t.calls.search(func(x *call) bool { return x.start >= before }) - 1; i >= 0 {
		return t.calls.at(i)
	}
	return nil
}

// awaited is the work that a call waited for, nil for none.
func (t *Thread) awaited(x *call) *awaited {
	if x.wait != 0 {
		return &t.waits[x.wait-1]
	}
	i, _ := slices.BinarySearchFunc(t.copies, x.end, func(o ownCopy, at uint64) int {
		if o.call <= at {
			return -1
		}
		return 1
	})
	if i > 0 && t.copies[i-1].call >= x.start {
		return &t.copies[i-1].awaited
	}
	return nil
}

// find returns the number of a piece of work.
func (s *Stream) find(a *awaited) (i int, found bool) {
	for i = s.work.search(func(p *piece) bool { return p.start >= a.start }); i < s.work.n &&
		s.work.at(i).start == a.start; i++ {
		if s.work.at(i).end == a.end {
			return i, true
		}
	}
	return 0, false
}

// did gives what the thread did from a time to where the walk is. as is what is known without its states. The walk
// stops early where the thread waited for another one.
func (w *walk) did(from uint64, as Segment) {
	from = max(from, w.from)
	if n := len(w.holding); n > 0 {
		from = max(from, w.holding[n-1].until)
	}
	if from >= w.at {
		return
	}
	t := w.thread
	if t.History == nil || !t.History.Seen(from, w.at) {
		w.emit(from, as)
		return
	}
	w.list = t.History.Stretches(from, w.at, w.list[:0])
	for k := len(w.list) - 1; k >= 0; k-- {
		x := &w.list[k]
		s := as
		outside := as.Kind == Unknown
		if outside && x.Owner != nil && x.Owner.OwnerKind != activity.WasBlocked {
			s.Also = none
		}
		switch {
		case x.Owner == nil:
		case x.Owner.OwnerKind == activity.WaitedForCPU:
			s.Kind, s.Name = NoCPU, w.c.text(x.Owner.Text)
		case x.Owner.Holder != nil && w.hold(x):
			return
		case !outside:
		case x.Owner.OwnerKind == activity.Waited:
			s.Kind, s.Name, s.By, s.Place, s.Weight = Blocked, w.c.text(x.Owner.Text), x.Owner.By, none, x.Weight
		case x.Owner.OwnerKind == activity.WasBlocked:
			s.Kind, s.Name, s.Unseen = Blocked, w.c.text(x.Owner.Text), true
		case x.Owner.OwnerKind == activity.Ran:
			s.Kind, s.Name, s.Unseen = Code, w.c.text(x.Owner.Text), true
		default:
			s.Kind, s.Name, s.Place, s.Weight = Code, w.c.text(x.Owner.Text), none, x.Weight
		}
		w.emit(x.Start, s)
	}
}

// hold goes to the thread that had what another one waited for. It reports whether that is known to have done anything.
func (w *walk) hold(x *activity.Stretch) bool {
	holder := w.c.byThread[x.Owner.Holder]
	if holder == nil || holder == w.thread || len(w.holding) >= mostHolders || !holder.seen(x.Start, w.at) {
		return false
	}
	if slices.ContainsFunc(w.holding, func(h holding) bool { return h.waiter == holder }) {
		return false
	}
	w.holding = append(w.holding, holding{
		w.thread, x.Start, w.c.text("meanwhile " + title(w.thread.Thread) + ": " + x.Owner.Text),
	})
	w.thread = holder
	return true
}

// seen reports whether anything is known of what a thread did from one time to another.
func (t *Thread) seen(from, to uint64) bool {
	if t.History != nil && t.History.Seen(from, to) {
		return true
	}
	x := t.lastCall(to)
	return x != nil && x.end > from
}

// release goes back to a thread that waited for another one, where it began to wait.
func (w *walk) release() {
	for n := len(w.holding) - 1; n >= 0; n-- {
		h := w.holding[n]
		if w.at > h.until {
			return
		}
		if w.holding = w.holding[:n]; w.at == h.until && w.stream == nil {
			w.thread = h.waiter
		}
	}
}

// title names a thread.
func title(t *timeline.Thread) string {
	if n := t.Title(); n != "" {
		return fmt.Sprintf("thread %d (%s)", t.TID, n)
	}
	return fmt.Sprintf("thread %d", t.TID)
}

// async reports whether the call that makes a copy returns before the copy has ended.
func async(w *timeline.Work) bool {
	return w.Call.Async && w.Shape.Memcpy.DstKind != cudaapi.PageableKind
}
