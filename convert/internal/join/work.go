package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A stream is a stream of one program.
type stream struct {
	out     *timeline.Stream
	program *program
	waits   *waitStream // nil where no call waits
	pending workQueue   // work whose call is not known, and the work after it
}

// streamWork is the work of a stream that is not shown yet, of all programs of a process.
type streamWork struct {
	key     read.StreamKey
	process *read.Process
	merger  *read.Merger[read.Work]
	lows    read.Lows
	streams byProgram[*stream]
	active  bool
}

// streams are the streams of a log.
type streams struct {
	catalog   *read.Catalog
	programs  map[uint32][]*program
	works     *read.Works
	out       *pipeline.Pipeline
	contexts  map[contextKey]*timeline.Context
	byKey     map[read.StreamKey]*streamWork
	active    []*streamWork // those with work to come, or to show
	latest    *streamWork
	announced map[streamKey]*timeline.Stream
	chunks    pool[workChunk]
}

// A contextKey identifies a context. In a sound log a context has one device.
type contextKey struct {
	program         *program
	context, device uint32
}

func newStreams(c *read.Catalog, programs map[uint32][]*program, works *read.Works, out *pipeline.Pipeline) *streams {
	return &streams{catalog: c, programs: programs, works: works, out: out,
		contexts: make(map[contextKey]*timeline.Context), byKey: make(map[read.StreamKey]*streamWork),
		announced: make(map[streamKey]*timeline.Stream)}
}

// get returns the work of a stream.
func (l *streams) get(key read.StreamKey) *streamWork {
	if w := l.latest; w != nil && w.key == key {
		return w
	}
	w := l.byKey[key]
	if w == nil {
		p := l.catalog.Processes.Get(key.PID)
		w = &streamWork{key: key, process: p, merger: l.works.Stream(p),
			lows: l.catalog.Watermarks.Stream(key.PID, key.Context, key.Stream)}
		l.byKey[key] = w
	}
	if !w.active {
		w.active = true
		l.active = append(l.active, w)
	}
	l.latest = w
	return w
}

// merger returns the merger of a stream.
func (l *streams) merger(pid, context, id uint32) *read.Merger[read.Work] {
	return l.get(read.StreamKey{PID: pid, Context: context, Stream: id}).merger
}

// stream returns the stream that a piece of work ran on.
func (l *streams) stream(w *streamWork, device uint32, of uint16) *stream {
	return w.streams.get(of, func() *stream { return l.newStream(l.programs[w.key.PID][of], w.key, device) })
}

func (l *streams) newStream(p *program, key read.StreamKey, device uint32) *stream {
	out := l.announce(p, key, device)
	p.streams++
	s := &stream{out: out, program: p, pending: workQueue{pool: &l.chunks}}
	if p.waits != nil {
		s.waits = p.waits.stream(out)
	}
	return s
}

// A streamKey identifies a stream of a program.
type streamKey struct {
	program *program
	key     read.StreamKey
}

// announce returns the timeline's description of the stream, which the sinks have then.
func (l *streams) announce(p *program, key read.StreamKey, device uint32) *timeline.Stream {
	k := streamKey{p, key}
	out := l.announced[k]
	if out == nil {
		out = l.describe(p, key, device)
		l.announced[k] = out
		l.out.Emit(out)
	}
	return out
}

// made returns the description of a stream that a call of a program made; nil where its device is not known.
func (l *streams) made(p *program, key read.StreamKey) *timeline.Stream {
	c, known := l.catalog.GPUs.Contexts[read.ContextKey{PID: key.PID, Context: key.Context}]
	if !known {
		return nil
	}
	return l.announce(p, key, c.Device)
}

// describe returns the timeline's description of the stream.
func (l *streams) describe(p *program, key read.StreamKey, device uint32) *timeline.Stream {
	out := &timeline.Stream{Context: l.context(p, key, device), ID: key.Stream,
		Name: l.catalog.Names.Stream(key.PID, key.Context, key.Stream), Only: l.catalog.GPUs.Only(key), Priority: l.catalog.GPUs.Streams[key].Priority}
	if known, ok := l.catalog.GPUs.Contexts[read.ContextKey{PID: key.PID, Context: key.Context}]; ok {
		out.Default = known.NullStream == key.Stream
	}
	return out
}

func (l *streams) context(p *program, key read.StreamKey, device uint32) *timeline.Context {
	k := contextKey{p, key.Context, device}
	c := l.contexts[k]
	if c == nil {
		gpu, _ := l.catalog.GPUs.Index(key.PID, device)
		c = &timeline.Context{Process: p.out, ID: key.Context, Device: device, GPU: gpu,
			Name: l.catalog.Names.Context(key.PID, key.Context)}
		l.contexts[k] = c
		l.out.Emit(c)
	}
	return c
}

// announceIdle announces the streams without work on GPUs that were used. The log has no times
// for these streams, so they belong to the last program.
func (l *streams) announceIdle() {
	gpus := &l.catalog.GPUs
	for _, key := range gpus.StreamKeys() {
		context, known := gpus.Contexts[read.ContextKey{PID: key.PID, Context: key.Context}]
		if _, used := gpus.Index(key.PID, context.Device); !known || !used || l.byKey[key] != nil {
			continue
		}
		programs := l.programs[key.PID]
		l.announce(programs[len(programs)-1], key, context.Device)
	}
}

// rest takes the streams out of those that are active that have nothing left to show: a program may make a stream for
// each request.
func (l *streams) rest() {
	l.active = slices.DeleteFunc(l.active, func(w *streamWork) bool {
		waits := func(s *stream) bool { return s.pending.len() > 0 }
		w.active = w.lows.Low() != timeline.Never || w.merger.Held() > 0 || slices.ContainsFunc(w.streams.values, waits)
		if !w.active && l.latest == w {
			l.latest = nil
		}
		return !w.active
	})
}

// each calls f with every active stream.
func (l *streams) each(f func(*stream)) {
	for _, w := range l.active {
		for _, s := range w.streams.values {
			f(s)
		}
	}
}

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

// groupSlack is the time, in ns, after a launch for which its kernel waits for the end of a group of NCCL's calls. A group
// that lasts longer has kernels without bytes.
const groupSlack = 100e6

// awaitsNCCL reports whether a kernel waits until all launches of its group of NCCL's calls have been counted.
func (p *program) awaitsNCCL(k timeline.WorkKind, ranges *timeline.RangeStack, callEnd uint64) bool {
	g := ranges.Group()
	return g != nil && k == timeline.KernelWork && !g.Settled(p.correlation.calls) && p.correlation.calls < timeline.End(callEnd, groupSlack)
}

// nccl gives a kernel what the calls of NCCL that launched it say. Where records are missing, other calls may have launched it,
// too.
func (p *program) nccl(w *timeline.Work) {
	if g := w.Call.Ranges.Group(); g != nil && !p.lacks && w.Kind == timeline.KernelWork {
		w.NCCL = g.OfKernel(p.correlation.calls)
	}
}

// A lateWork is a piece of work that is shown apart from the order of its stream, when its group of NCCL's calls is known.
type lateWork struct {
	stream *stream
	work   *timeline.Work
}

// showLate shows the work whose group is known by now; with all, all of it.
func (j *workJoiner) showLate(all bool) {
	rest := j.late[:0]
	for _, l := range j.late {
		if w := l.work; !all && l.stream.program.awaitsNCCL(w.Kind, w.Call.Ranges, w.Call.End) {
			rest = append(rest, l)
		} else {
			j.show(l.stream, w)
		}
	}
	clear(j.late[len(rest):])
	j.late = rest
}

// WorkIDs number the GPU work of a timeline. Work of the first program with work gets its
// correlation ID as its number, since a trace with two equal numbers side by side compresses
// better. Where other work has that number already, and in all other programs, numbers are
// counted from countedIDs on.
type WorkIDs struct {
	owner   *program
	taken   [takenWords]uint64 // a bit for each of the latest correlation IDs
	newest  uint32             // number of the newest word of taken
	counted uint64             // number of counted IDs so far
}

const (
	// countedIDs is larger than any correlation ID.
	countedIDs = 1 << 32

	// takenWords is enough for 4 million correlation IDs, far more than the disorder of
	// work. IDs before these count as taken.
	takenWords = 1 << 16
)

// next returns the number of a piece of work.
func (d *WorkIDs) next(p *program, correlation uint32) uint64 {
	if d.owner == nil && correlation != 0 {
		d.owner = p
	}
	if d.owner == p && correlation != 0 && d.claim(correlation) {
		return uint64(correlation)
	}
	d.counted++
	return countedIDs + d.counted
}

// claim marks a correlation ID as used. It reports whether the ID was free.
func (d *WorkIDs) claim(correlation uint32) bool {
	word := correlation / 64
	if word > d.newest {
		for i := range min(word-d.newest, takenWords) {
			d.taken[(word-i)%takenWords] = 0
		}
		d.newest = word
	}
	if d.newest-word >= takenWords {
		return false
	}
	bits, bit := &d.taken[word%takenWords], uint64(1)<<(correlation%64)
	free := *bits&bit == 0
	*bits |= bit
	return free
}
