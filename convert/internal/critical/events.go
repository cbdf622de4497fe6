package critical

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A function is what is known of a function by its name.
type function struct {
	name   uint32 // text
	role   role
	stream int // index of the argument that is the stream's handle; -1 for none
	event  int
	own    bool // its default stream is that of the thread
}

// A role is what calls of a function do to the order of work.
type role uint8

const (
	nothing role = iota
	puts         // work on the stream that it names
	records      // an event
	orders       // has a stream wait for an event
	syncs        // waits for an event
	captures
	captured
)

func (c *Collector) function(of *timeline.Function) *function {
	f := c.functions[of]
	if f != nil {
		return f
	}
	f = &function{name: c.text(of.Name), stream: -1, event: -1, own: of.PerThread}
	for i, p := range of.Params {
		switch p.Of {
		case timeline.StreamHandle:
			f.stream = i
		case timeline.EventHandle:
			f.event = i
		}
	}
	traits := cudaapi.TraitsOf(of.Name)
	switch base := strings.TrimSuffix(cudaapi.Unversioned(of.Name), "WithFlags"); {
	case base == "cudaEventRecord" || base == "cuEventRecord":
		f.role = records
	case base == "cudaStreamWaitEvent" || base == "cuStreamWaitEvent":
		f.role = orders
	case traits.Waits == cudaapi.EventWait:
		f.role = syncs
	case traits.Role == cudaapi.CaptureBegin:
		f.role = captures
	case traits.Role == cudaapi.CaptureEnd:
		f.role = captured
	case f.stream >= 0 && !strings.Contains(base, "Graph"):
		f.role = puts
	}
	if f.event < 0 && (f.role == records || f.role == orders || f.role == syncs) || f.stream < 0 &&
		(f.role == records || f.role == orders) {
		f.role = nothing
	}
	c.functions[of], c.roles[f.name] = f, activity.RoleOf(of.Name)
	return f
}

// A handle is that of a stream. The default stream of a thread is one of the thread.
type handle struct {
	stream uint64
	thread uint32 // and 1
}

// Values of handles of default streams.
const (
	legacyStream = 1
	threadStream = 2
)

func (t *Thread) handle(sl *timeline.Slice, f *function) (h handle, known bool) {
	if sl.Arguments == nil || f.stream < 0 || f.stream >= len(sl.Args) {
		return h, false
	}
	h.stream = sl.Args[f.stream]
	if h.stream == 0 {
		if h.stream = legacyStream; f.own {
			h.stream = threadStream
		}
	}
	if h.stream == threadStream {
		h.thread = t.index + 1
	}
	return h, true
}

// A use is the stream for which a handle stood, from a time on.
type use struct {
	at     uint64
	stream *Stream
}

// An event is a call that names an event.
type event struct {
	at     uint64 // when it began
	event  uint64
	stream handle
	call   uint64 // its end
}

// Bounds of what is known of handles. Beyond them a path may lack the order that calls with a handle gave to streams.
const (
	mostHandles = 1 << 16
	mostUses    = 64
)

// order notes what a call does to the order of work.
func (t *Thread) order(sl *timeline.Slice, f *function, c *Collector) {
	p := t.process
	switch f.role {
	case captures:
		t.capture = true
		return
	case captured:
		t.capture = false
		return
	}
	if t.capture || sl.Ret != 0 {
		return
	}
	h, known := t.handle(sl, f)
	if f.role == puts {
		if known && sl.Stream != nil {
			p.learn(h, sl.Start, c.Stream(sl.Stream))
		}
		return
	}
	if sl.Arguments == nil || f.event >= len(sl.Args) || f.role != syncs && !known || !p.keep(sl.Start) {
		return
	}
	e := event{sl.Start, sl.Args[f.event], h, sl.End}
	switch f.role {
	case records:
		p.records = append(p.records, e)
	case orders:
		p.orders = append(p.orders, e)
	case syncs:
		t.synced = append(t.synced, e)
	}
}

// learn notes that work of a call with a handle ran on a stream.
func (p *keptProcess) learn(h handle, at uint64, s *Stream) {
	if s.handle == h {
		return
	}
	if p.handles == nil {
		p.handles = make(map[handle][]use)
	}
	list := p.handles[h]
	if n := len(list); n > 0 && (list[n-1].stream == s || n >= mostUses) || n == 0 && len(p.handles) >= mostHandles {
		return
	}
	if n := len(list); n > 0 {
		list[n-1].stream.handle = handle{}
	}
	p.handles[h], s.handle = append(list, use{at, s}), h
}

// stream returns the stream that a handle stood for at a time, nil if that is not known.
func (p *keptProcess) stream(h handle, at uint64) *Stream {
	list := p.handles[h]
	if len(list) == 0 && h.stream > threadStream {
		return p.unnamed
	}
	if len(list) == 0 || len(list) > 1 && h.stream <= threadStream {
		return nil // a default stream of one of several contexts
	}
	i, _ := slices.BinarySearchFunc(list, at, func(u use, at uint64) int { return cmp.Compare(u.at, at) })
	return list[max(i, 1)-1].stream
}

// onlyUnnamed returns the only stream with work for which no handle is known, nil for none, or several: a process makes
// it before it is recorded.
func (p *keptProcess) onlyUnnamed() (only *Stream) {
	named := make(map[*Stream]bool)
	for _, list := range p.handles {
		for _, u := range list {
			named[u.stream] = true
		}
	}
	for _, s := range p.streams {
		if s.Default || named[s] {
			continue
		}
		if only != nil {
			return nil
		}
		only = s
	}
	return only
}

// An order is that work of a stream that is launched from a time on waits for work of another stream.
type order struct {
	at     uint64
	stream *Stream // nil where the record of the event is not known
	piece  int
}

// settle finds out which work streams and threads waited for by events.
func (p *keptProcess) settle() {
	p.unnamed = p.onlyUnnamed()
	for _, s := range p.streams {
		s.after = s.after[:0]
	}
	byTime := func(a, b event) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(p.records, byTime)
	slices.SortStableFunc(p.orders, byTime)
	latest, next := make(map[uint64][]order), 0
	var all []*event
	for i := range p.orders {
		all = append(all, &p.orders[i])
	}
	syncs := make(map[*event]*Thread)
	for _, t := range p.threads {
		for i := range t.synced {
			all = append(all, &t.synced[i])
			syncs[&t.synced[i]] = t
		}
	}
	slices.SortStableFunc(all, func(a, b *event) int { return byTime(*a, *b) })
	for _, e := range all {
		for ; next < len(p.records) && p.records[next].at < e.at; next++ {
			r := &p.records[next]
			latest[r.event] = p.recorded(r)
		}
		work, known := latest[e.event]
		if t := syncs[e]; t != nil {
			t.synchronized(e, work, known)
			continue
		}
		on := p.stream(e.stream, e.at)
		if on == nil {
			continue
		}
		if !known {
			on.after = append(on.after, order{at: e.at})
		}
		for _, o := range work {
			on.after = append(on.after, order{e.at, o.stream, o.piece})
		}
	}
}

// recorded returns the work that an event stands for: the last work of its stream, and what the stream was told to wait
// for since.
func (p *keptProcess) recorded(r *event) (work []order) {
	s := p.stream(r.stream, r.at)
	if s == nil {
		return []order{{}}
	}
	piece, known := s.launchedBefore(r.at)
	if !known {
		return []order{{}}
	}
	since := uint64(0)
	if piece >= 0 {
		work, since = append(work, order{stream: s, piece: piece}), s.work.at(piece).callStart
	}
	for i := len(s.after) - 1; i >= 0 && s.after[i].at >= since && len(work) < mostOverlap; i-- {
		work = append(work, s.after[i])
	}
	return work
}

// synchronized notes what a call waited for by an event. The calls of the thread are in order.
func (t *Thread) synchronized(e *event, work []order, known bool) {
	x := t.lastCall(e.at + 1)
	if x == nil || x.end < e.call {
		return
	}
	x.unknown = !known || slices.ContainsFunc(work, func(o order) bool { return o.stream == nil })
	if len(work) == 0 || x.unknown {
		return
	}
	x.wait = 0 // what it waited for by the stream of the event's record is less exact
	for _, o := range work {
		q := o.stream.work.at(o.piece)
		t.wait(x, awaited{start: q.start, end: q.end, stream: o.stream.index})
	}
}

// launchedBefore returns the number of the last piece of a stream whose launch had begun before a time; -1 for none. It
// is not known where the order of the launches is not that of the work, nor where another thread was just launching
// work.
func (s *Stream) launchedBefore(at uint64) (i int, known bool) {
	if s.mixed {
		return -1, false
	}
	i = s.work.search(func(p *piece) bool { return p.callStart >= at }) - 1
	if i < 0 || s.work.at(i).thread == 0 || s.work.at(i).callEnd > at {
		return -1, i < 0
	}
	best := i
	for k := i - 1; k >= 0 && k > i-mostOverlap && s.work.at(k).sameLaunch(s.work.at(i)); k-- {
		if s.work.at(k).end > s.work.at(best).end {
			best = k
		}
	}
	return best, true
}

// awaitedBy returns the work of other streams that a piece waited for by events: the piece that was the last to end.
// known is false where a stream waited for an event whose record is not known.
func (s *Stream) awaitedBy(i int) (best *order, known bool) {
	p := s.work.at(i)
	if len(s.after) == 0 || p.thread == 0 || i > 0 && s.work.at(i-1).sameLaunch(p) {
		return nil, true
	}
	since := uint64(0)
	for k := i - 1; k >= 0; k-- {
		if q := s.work.at(k); q.callStart < p.callStart {
			since = q.callStart
			break
		}
	}
	n, _ := slices.BinarySearchFunc(s.after, p.callStart, func(o order, at uint64) int { return cmp.Compare(o.at, at) })
	known = true
	for n--; n >= 0 && s.after[n].at >= since; n-- {
		o := &s.after[n]
		if o.stream == nil {
			known = false
			continue
		}
		if q := o.stream.work.at(o.piece); q.end <= p.start+together &&
			(best == nil || q.end > best.stream.work.at(best.piece).end) {
			best = o
		}
	}
	return best, known
}

// onlyOne returns the work of the only other stream of the process whose work ended between a time and the start of a
// piece, shortly before that; nil for none, or several.
func (w *walk) onlyOne(s *Stream, p *piece, since uint64) (best *Stream, at int) {
	for n, of := range s.process.streams {
		if n >= mostStreams {
			return nil, 0
		}
		if of == s {
			continue
		}
		k := of.work.search(func(q *piece) bool { return q.start >= p.start })
		for i := k - 1; i >= 0 && i >= k-mostOverlap; i-- {
			q := of.work.at(i)
			if q.end > p.start || q.end <= since || p.start-q.end > slack || q.callStart > p.callStart {
				continue
			}
			if best != nil && best != of {
				return nil, 0
			}
			if best == nil || q.end > best.work.at(at).end {
				best, at = of, i
			}
		}
	}
	return best, at
}
