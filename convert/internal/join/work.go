package join

import (
	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// streams have the work of the streams of a log.
type streams struct {
	owners[read.StreamKey, read.Work, *stream]
	catalog   *read.Catalog
	programs  map[uint32][]*program
	out       *pipeline.Pipeline
	contexts  map[contextKey]*timeline.Context
	announced map[streamKey]*timeline.Stream
	chunks    pool[chunk[timeline.Work]]
}

// A contextKey identifies a context. In a sound log a context has one device.
type contextKey struct {
	program         *program
	context, device uint32
}

type streamWork = owner[read.StreamKey, read.Work, *stream]

func newStreams(c *read.Catalog, programs map[uint32][]*program, works *read.Works, out *pipeline.Pipeline) *streams {
	l := &streams{catalog: c, programs: programs, out: out,
		contexts: make(map[contextKey]*timeline.Context), announced: make(map[streamKey]*timeline.Stream)}
	l.byKey = make(map[read.StreamKey]*streamWork)
	l.open = func(key read.StreamKey) (*read.Merger[read.Work], read.Lows) {
		return works.Stream(c.Processes.Get(key.PID)), c.Watermarks.Stream(key.PID, key.Context, key.Stream)
	}
	l.waits = func(s *stream) bool { return s.pending.len() > 0 }
	return l
}

// merger returns the merger of a stream.
func (l *streams) merger(pid, context, id uint32) *read.Merger[read.Work] {
	return l.get(read.StreamKey{PID: pid, Context: context, Stream: id}).merger
}

// stream returns the stream that a piece of work ran on.
func (l *streams) stream(w *streamWork, device uint32, of uint16) *stream {
	return w.parts.get(of, func() *stream { return l.newStream(l.programs[w.key.PID][of], w.key, device) })
}

func (l *streams) newStream(p *program, key read.StreamKey, device uint32) *stream {
	out := l.announce(p, key, device)
	p.streams++
	s := &stream{out: out, pending: queue[timeline.Work]{pool: &l.chunks}}
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

// madeBy returns the stream that the call with a correlation ID made.
func (l *streams) madeBy(p *program, correlation uint32) (key read.StreamKey, ok bool) {
	key, ok = l.catalog.GPUs.Made[read.MadeKey{PID: p.PID, Correlation: correlation}]
	return key, ok
}

// describe returns the timeline's description of the stream.
func (l *streams) describe(p *program, key read.StreamKey, device uint32) *timeline.Stream {
	out := &timeline.Stream{Context: l.context(p, key, device), ID: key.Stream,
		Name: l.catalog.Names.Stream(key.PID, key.Context, key.Stream), Only: l.catalog.GPUs.Only(key),
		Largest:  max(l.catalog.GPUs.LargestStream(key.PID), key.Stream),
		Priority: l.catalog.GPUs.Streams[key].Priority}
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

// each calls f with every active stream.
func (l *streams) each(f func(*program, *stream)) {
	for _, w := range l.active {
		for i, s := range w.parts.values {
			f(l.programs[w.key.PID][w.parts.programs[i]], s)
		}
	}
}

// A workJoiner numbers work, joins it with its call and shows it.
type workJoiner struct {
	out       *pipeline.Pipeline
	selection *selection.Selection
	found     *Found
	ids       *WorkIDs
	streams   *streams
	spans     *spanOutput
	ofCalls   bool       // show only work that has a call
	late      []lateWork // a few
}

// joinWork joins the next piece of work of a stream to its call.
func (j *workJoiner) joinWork(p *program, s *stream, w *timeline.Work) {
	p.work.done++
	if w.Start != 0 {
		j.found.Span.widen(w.Start, w.Start+w.Dur)
	}
	w.ID = j.ids.next(p, w.Correlation)
	w.Call, w.NCCL = timeline.Call{}, nil
	if j.ofCalls {
		j.found.LeftOut++ // counted as left out until its call is found
	} else {
		j.found.Work.Add(w.Kind)
		if isBody(w) {
			j.found.Work.Bodies++
		}
	}
	o := waitingWork{id: w.ID, shape: w.Shape, start: w.Start, graph: w.Graph, stream: s,
		awaited: timeline.Never, nth: timeline.Never}
	if s.waits != nil && w.Start != 0 {
		o.awaited = s.waits.addWork(w)
	}
	c := p.correlation.certain(w.Correlation)
	switch {
	case w.Start == 0 || j.ofCalls:
		held := *w
		o.held, c = &held, nil
	case c != nil && s.pending.len() == 0 && !p.awaitsNCCL(w.Kind, c.Ranges, c.End) && !p.captures.awaits(w, c.Start):
		w.Call = c.asCause()
	default:
		var row *timeline.Work
		row, o.nth = s.pending.push()
		*row, c = *w, nil
	}
	if w.Graph != 0 && p.graphs.matchNode(w, &o) {
		return
	}
	if c == nil {
		j.match(p, w.Correlation, &o)
		return
	}
	j.link(p, &o, c)
	j.show(p, s, w)
}

// register joins a closed call with its work. If the work has not come, the call waits for it.
func (j *workJoiner) register(p *program, c *call) {
	p.graphs.called(c)
	p.captures.called(c)
	if c.Correlation == 0 || !p.hasWork {
		return
	}
	if c.fn.MakesStream && c.stream != 0 && p.waits != nil {
		j.made(p, c)
	}
	t := &p.correlation
	slot := t.slot(c.Correlation)
	switch {
	case slot == nil:
		j.found.Forced++
		return
	case slot.call == nil && slot.first == 0: // nearly always, where the call comes before its work
		slot.call = c
		c.state |= awaiting
		return
	case slot.holdsCause(c):
		return
	}
	c.state |= awaiting
	if slot.insertCall(c) {
		j.found.Forced++
	}
	t.reverse(slot)
	for slot.first != 0 {
		w := t.popWork(slot)
		j.match(p, c.Correlation, &w)
	}
}

// match joins work with its call: now, when the call comes, or when it is certain which call it is.
func (j *workJoiner) match(p *program, correlation uint32, w *waitingWork) {
	if correlation == 0 {
		return
	}
	t := &p.correlation
	switch slot := t.slot(correlation); {
	case slot == nil:
		j.found.Forced++
	case slot.call == nil:
		t.keep(slot, *w)
	case w.body || w.start == 0 || slot.certain() != nil:
		j.link(p, w, slot.cause(w.start))
	default:
		t.held = append(t.held, heldWork{*w, correlation})
	}
}

// joinHeld joins the held work that begins before a time up to which all calls of its call's thread are known; with
// all, all of it. Calls with one correlation ID have one thread.
func (j *workJoiner) joinHeld(p *program, all bool) {
	t := &p.correlation
	rest := t.held[:0]
	for i := range t.held {
		w := &t.held[i]
		switch slot := t.find(w.correlation); {
		case slot == nil || slot.call == nil: // the call has been shown
			j.match(p, w.correlation, &w.waitingWork)
		case all || w.start < min(slot.call.thread.known, slot.call.thread.opened(w.correlation)):
			j.link(p, &w.waitingWork, slot.cause(w.start))
		default:
			rest = append(rest, *w)
		}
	}
	clear(t.held[len(rest):])
	t.held = rest
}

// launched joins body work of a graph with its call, now or when the call comes.
func (j *workJoiner) launched(p *program, o *waitingWork, correlation uint32) {
	o.body = true
	switch {
	case o.held != nil:
		o.held.Correlation = correlation
	case o.stream.pending.has(o.nth):
		o.stream.pending.at(o.nth).Correlation = correlation
	}
	j.match(p, correlation, o)
}

// link links work and its call.
func (j *workJoiner) link(p *program, o *waitingWork, c *call) {
	s := o.stream
	if !c.HasWork() {
		c.Launched = o.shape
		p.captures.launched(o.graph, c)
		if !o.body {
			p.graphs.ran(c, o.start)
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
		j.showHeld(p, o, c)
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
			p.waits.learn(c.stream, c.thread.tid, c.fn.LaunchesGraph, s.waits)
		}
	}
	if c.state&launching != 0 {
		c.state &^= awaiting // a launch has one kernel
	}
}

// showHeld shows work that could not be placed without its call. Work without times from CUPTI
// is placed at its call's return, with no length.
func (j *workJoiner) showHeld(p *program, o *waitingWork, c *call) {
	w := o.held
	w.Call = c.asCause()
	if w.Start == 0 {
		w.Start, w.Dur, w.Untimed = c.End, 0, true
	}
	if j.ofCalls {
		j.found.Work.Add(w.Kind)
		j.found.LeftOut--
	}
	if p.awaitsNCCL(w.Kind, w.Call.Ranges, w.Call.End) {
		j.late = append(j.late, lateWork{p, o.stream, w})
		return
	}
	j.show(p, o.stream, w)
}

func (j *workJoiner) show(p *program, s *stream, w *timeline.Work) {
	p.nccl(w)
	p.captures.name(w)
	switch {
	case w.Captured != nil:
		j.found.Work.Captured++
	case w.Uncaptured != timeline.Named:
		j.found.Work.Uncaptured[w.Uncaptured]++
	}
	p.project(j.spans, s.out, w)
	if j.selection.Work(w) {
		j.out.Work(s.out, w)
	}
}

// callSlack is the time, in ns, by which a call may seem to begin after its work and still be
// waited for.
const callSlack = 1e6

// emit shows the work of a stream up to the first piece whose call may still come. All calls
// that begin before known are known. With all it shows everything.
func (j *workJoiner) emit(p *program, s *stream, known uint64, all bool) {
	for s.pending.len() > 0 {
		w := &s.pending.front()[0]
		called := w.Call.Function != nil
		if !all && (p.awaitsNCCL(w.Kind, w.Call.Ranges, w.Call.End) ||
			!called && w.Correlation != 0 && timeline.End(w.Start, callSlack) >= known ||
			isBody(w) && p.graphs.awaits(w.Start) || called && p.captures.awaits(w, w.Call.Start)) {
			return
		}
		j.show(p, s, w)
		s.pending.pop(1)
	}
}

// groupSlack is the time, in ns, after a launch for which its kernel waits for the end of a group of NCCL's calls.
// A group that lasts longer has kernels without bytes.
const groupSlack = 100e6

// awaitsNCCL reports whether a kernel waits until all launches of its group of NCCL's calls have been counted.
func (p *program) awaitsNCCL(k timeline.WorkKind, ranges *timeline.RangeStack, callEnd uint64) bool {
	g := ranges.Group()
	known := p.correlation.calls
	return g != nil && k == timeline.KernelWork && !g.Settled(known) && known < timeline.End(callEnd, groupSlack)
}

// nccl gives a kernel the communicator and the bytes of the calls of NCCL that launched it. Where records are
// missing, other calls may have launched it, too.
func (p *program) nccl(w *timeline.Work) {
	if g := w.Call.Ranges.Group(); g != nil && !p.lacks && w.Kind == timeline.KernelWork {
		w.NCCL = g.OfKernel(p.correlation.calls)
	}
}

// A lateWork is a piece of work that is shown apart from the order of its stream, when its group of NCCL's calls is
// known.
type lateWork struct {
	program *program
	stream  *stream
	work    *timeline.Work
}

// showLate shows the work whose group is known by now; with all, all of it.
func (j *workJoiner) showLate(all bool) {
	rest := j.late[:0]
	for _, l := range j.late {
		if w := l.work; !all && l.program.awaitsNCCL(w.Kind, w.Call.Ranges, w.Call.End) {
			rest = append(rest, l)
		} else {
			j.show(l.program, l.stream, w)
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

// made notes that a call made a stream, if it did.
func (j *workJoiner) made(p *program, c *call) {
	if key, ok := j.streams.madeBy(p, c.Correlation); ok {
		p.waits.made(handleUser{c.stream, c.thread.tid}, waitStreamKey{key.Context, key.Stream})
		c.Stream = j.streams.made(p, key)
	}
}

// madeUnseen notes that a call made a stream whose handle is not known: no probe saw it.
func (j *workJoiner) madeUnseen(p *program, correlation uint32) {
	if key, ok := j.streams.madeBy(p, correlation); ok && p.waits != nil {
		if h := &p.waits.handles; len(h.unseen) < maxUnseenStreams {
			h.unseen = append(h.unseen, waitStreamKey{key.Context, key.Stream})
		}
	}
}
