package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/ordered"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

const (
	// waitTolerance is the largest error of a GPU time against a CPU time, in ns, in addition
	// to the error that the log states for CUPTI's clock.
	waitTolerance = 10_000

	// waitLookBack bounds the search from the end of a wait back to its work, past work that
	// another thread launched meanwhile. A wait beyond it is counted as partial.
	waitLookBack = 1024

	// maxWaitStreams bounds the streams of a context that a wait may be for. With more, all waits for
	// the context, and those that name no stream that is known, are partial.
	maxWaitStreams = 1024
)

// A wait is a call that waits.
type wait struct {
	slice      *timeline.Slice // nil once it is shown
	start, end uint64          // of the slice, once it is final
	kind       cudaapi.Wait    // of its function
	stream     read.StreamHandle
	tid        uint32
}

// A waitJoiner finds the GPU work for which the calls of a program waited: the last work of a call's stream that was
// launched before the wait and had ended by its end. The stream comes from the handle that the call names.
type waitJoiner struct {
	stats     *waitStats
	handles   waitHandles
	streams   map[waitStreamKey]*waitStream
	contexts  []waitContext  // in the order of first sight
	numbers   map[uint32]int // places of contexts there
	tolerance uint64
	pending   ordered.List[*wait]
	partial   bool   // the search for the wait that is looked at met a bound
	done      uint64 // all waits that begin before this time have been joined
}

type waitStreamKey struct{ context, stream uint32 }

// A waitContext has the streams of a context, by their numbers.
type waitContext struct {
	id      uint32
	streams []*waitStream
	more    bool // there are streams beyond maxWaitStreams
}

// newWaitJoiner returns a joiner for a program. clockError is the largest error of a GPU time, ns.
func newWaitJoiner(clockError uint64, stats *waitStats) *waitJoiner {
	return &waitJoiner{
		stats: stats, tolerance: waitTolerance + min(clockError, 1e9),
		streams: make(map[waitStreamKey]*waitStream), numbers: make(map[uint32]int),
		pending: ordered.NewList(func(a, b **wait) bool {
			return cmp.Or(cmp.Compare((*a).start, (*b).start), cmp.Compare((*a).end, (*b).end)) < 0
		}),
	}
}

// stream adds a stream. Streams are searched in the order of their numbers.
func (j *waitJoiner) stream(out *timeline.Stream) *waitStream {
	s := &waitStream{out: out, joiner: j}
	context := out.Context.ID
	key := waitStreamKey{context, out.ID}
	j.streams[key] = s
	if u, made := j.handles.made[key]; made {
		delete(j.handles.made, key)
		delete(j.handles.idle, u.handle)
		j.made(u, key)
	}
	at, known := j.numbers[context]
	if !known {
		at, j.contexts = len(j.contexts), append(j.contexts, waitContext{id: context})
		j.numbers[context] = at
	}
	if c := &j.contexts[at]; len(c.streams) < maxWaitStreams {
		i, _ := slices.BinarySearchFunc(c.streams, s, func(a, b *waitStream) int {
			return cmp.Or(cmp.Compare(a.out.Context.Device, b.out.Context.Device), cmp.Compare(a.out.ID, b.out.ID))
		})
		c.streams = slices.Insert(c.streams, i, s)
	} else {
		c.more = true
	}
	return s
}

// learn notes that work of a call ran on a stream. graph says that the call launched a graph.
func (j *waitJoiner) learn(handle read.StreamHandle, tid uint32, graph bool, s *waitStream) {
	j.handles.learn(handleUser{handle, tid}, graph, s)
}

// closeWait adds a wait whose slice is final, with the stream that it names.
func (j *waitJoiner) closeWait(w *wait, stream read.StreamHandle) {
	w.start, w.end, w.stream = w.slice.Start, w.slice.End, stream
	if w.slice.Ret == 0 && w.slice.Flags == 0 {
		j.pending.Add(w)
	}
}

// joinUntil joins waits, in order, up to the first wait that does not end before ready, or with
// all every wait. Up to ready the program's threads and streams are known.
func (j *waitJoiner) joinUntil(ready uint64, all bool) {
	known := func(w **wait) bool { return timeline.End((*w).end, 2*j.tolerance) < ready || all }
	j.pending.Drain(known, func(w **wait) { j.join(*w) })
	j.done = max(j.done, ready-min(ready, 2*j.tolerance))
	if j.pending.Len() > 0 {
		j.done = min(j.done, j.pending.Values()[0].start)
	}
}

// settled reports whether the search for a call's work is over.
func (j *waitJoiner) settled(w *wait) bool { return j.done > timeline.End(w.slice.End, j.tolerance) }

// waited adds work to the call that waited for it.
func (j *waitJoiner) waited(call *timeline.Slice, list []lastWork) {
	for _, w := range list {
		w.awaited = true
		call.AddWait(timeline.Awaited{Work: w.id, Stream: w.stream.out, Start: w.start, End: w.end()})
		j.stats.Arrows++
	}
}

// join finds the work for which a call waited.
func (j *waitJoiner) join(w *wait) {
	if w.slice == nil || w.slice.HasWork() {
		return
	}
	var list []lastWork
	var ambiguous bool
	j.partial = false
	switch w.kind {
	case cudaapi.ContextWait:
		list, ambiguous = j.ofContext(w)
	case cudaapi.StreamWait:
		list, ambiguous = j.ofStream(w)
	default:
		list, ambiguous = j.onlyOne(w, j.all())
	}
	if ambiguous {
		j.stats.Ambiguous++
	}
	if j.partial {
		j.stats.Partial++
	}
	j.waited(w.slice, list)
}

// all returns the program's streams, by context.
func (j *waitJoiner) all() (streams []*waitStream) {
	for _, c := range j.contexts {
		streams = append(streams, c.streams...)
		j.partial = j.partial || c.more
	}
	return streams
}

// ofStream returns the work for which a call with a stream's handle waited: the stream's last
// work. A handle may have stood for several streams, one after the other.
func (j *waitJoiner) ofStream(w *wait) (list []lastWork, ambiguous bool) {
	streams := j.handles.of(w)
	j.partial = j.partial || j.handles.full(w, streams)
	last := j.lastOf(w, streams)
	if last.recentWork == nil {
		last = j.unseen(w)
	}
	if len(streams) == 0 && last.recentWork == nil {
		return j.onlyOne(w, unnamed(j.all()))
	}
	if w.stream <= read.ThreadStream && !oneContext(streams) {
		return j.onlyOne(w, streams)
	}
	if last.recentWork == nil || last.end() <= w.start && last.awaited {
		return nil, false
	}
	return []lastWork{last}, false
}

// lastOf returns the last work of some streams before a wait.
func (j *waitJoiner) lastOf(w *wait, streams []*waitStream) (last lastWork) {
	for _, s := range streams {
		if r := j.last(s, w); r != nil && (last.recentWork == nil || r.end() > last.end()) {
			last = lastWork{r, s}
		}
	}
	return last
}

// unseen returns the last work before a wait of the only stream that had some then and whose handle nobody saw.
func (j *waitJoiner) unseen(w *wait) (last lastWork) {
	if h := w.stream; h <= read.ThreadStream || j.handles.idle[h] {
		return lastWork{} // the default stream, or one that was made and has no work
	}
	if len(j.handles.unseen) == maxUnseenStreams {
		j.partial = true
		return lastWork{}
	}
	for _, s := range unnamed(j.all()) { // one that was made while nothing was recorded
		key := waitStreamKey{s.out.Context.ID, s.out.ID}
		if !s.out.Default && !slices.Contains(j.handles.unseen, key) && j.last(s, w) != nil {
			return lastWork{}
		}
	}
	for _, key := range j.handles.unseen {
		if s := j.streams[key]; s != nil {
			if r := j.last(s, w); r != nil {
				if last.recentWork != nil {
					return lastWork{}
				}
				last = lastWork{r, s}
			}
		}
	}
	return last
}

// onlyOne returns the last work of the only stream whose work ended within the wait. With
// several such streams nothing tells which one the call waited for.
func (j *waitJoiner) onlyOne(w *wait, streams []*waitStream) (list []lastWork, ambiguous bool) {
	for _, s := range streams {
		if r := j.last(s, w); r != nil && r.end() > w.start {
			list = append(list, lastWork{r, s})
		}
	}
	if len(list) > 1 {
		return nil, true
	}
	return list, false
}

// ofContext returns the work for which a call waited that waits for a whole context without
// naming it. The context is that of the thread, if its launches tell it, or else the only
// context that had work and has none left at the end.
func (j *waitJoiner) ofContext(w *wait) (list []lastWork, ambiguous bool) {
	own, tells := j.handles.callers[w.tid]
	tells = tells && !own.several
	fitting := 0
	for _, c := range j.contexts {
		j.partial = j.partial || c.more
		r := j.ends(w, c.streams)
		if len(j.contexts) == 1 || tells && own.context == c.id {
			return r, false
		}
		if len(r) > 0 && !slices.ContainsFunc(c.streams, func(s *waitStream) bool { return j.busy(s, w) }) {
			list = r
			fitting++
		}
	}
	if fitting > 1 {
		return nil, true
	}
	return list, false
}

// ends returns the last work before a wait, for each stream of a context.
func (j *waitJoiner) ends(w *wait, streams []*waitStream) (list []lastWork) {
	for _, s := range streams {
		if r := j.last(s, w); r != nil && (r.end() > w.start || !r.awaited) {
			list = append(list, lastWork{r, s})
		}
	}
	return list
}

// A waitStream has the latest work of a stream, by start.
type waitStream struct {
	out    *timeline.Stream
	joiner *waitJoiner
	named  bool   // launches name it by a handle
	added  uint64 // number of pieces of work so far
	lacks  bool   // it had to drop work for which waits may look
	recent []recentWork
}

// recentWork is work for which a call may have waited. There may be a lot of it, so it has no
// pointers that the garbage collector would have to follow.
type recentWork struct {
	start, dur  uint64
	id          uint64
	launch      uint64 // entry of its call, 0 when not known
	correlation uint32
	awaited     bool // a call has waited for it
}

// A lastWork is work for which a call waited, with its stream.
type lastWork struct {
	*recentWork
	stream *waitStream
}

func (w *recentWork) end() uint64 { return timeline.End(w.start, w.dur) }

// addWork adds a piece of work. It returns the work's number, for launched.
func (s *waitStream) addWork(w *timeline.Work) (nth uint64) {
	if len(s.recent) == cap(s.recent) || len(s.recent) > 2*maxRecent {
		s.forget(s.joiner.done)
	}
	s.recent = append(s.recent, recentWork{w.Start, w.Dur, w.ID, 0, w.Correlation, false})
	s.added++
	return s.added - 1
}

// launched notes the entry of the call that caused a piece of work.
func (s *waitStream) launched(nth, at uint64) {
	if back := s.added - nth; back <= uint64(len(s.recent)) {
		s.recent[uint64(len(s.recent))-back].launch = at
	}
}

// maxRecent is the number of pieces of work that a stream keeps; it has up to twice as many before it drops some.
const maxRecent = 1 << 18

// forget drops work that began long before a time up to which all waits have been joined.
func (s *waitStream) forget(done uint64) {
	i, _ := slices.BinarySearchFunc(s.recent, done, func(w recentWork, at uint64) int { return cmp.Compare(w.start, at) })
	looked := i - waitLookBack
	i = max(looked, len(s.recent)-maxRecent)
	if i > len(s.recent)/2 {
		s.lacks = i > looked
		s.recent = s.recent[:copy(s.recent, s.recent[i:])]
	}
}

// last returns a stream's last work that was launched before a wait and ended before the wait
// did, nil for none.
func (j *waitJoiner) last(s *waitStream, w *wait) (last *recentWork) {
	limit := timeline.End(w.end, j.tolerance)
	i, _ := slices.BinarySearchFunc(s.recent, limit, func(w recentWork, limit uint64) int {
		if w.start <= limit {
			return -1
		}
		return 1
	})
	steps := 0
	for ; i > 0 && steps < waitLookBack; steps++ {
		i--
		r := &s.recent[i]
		switch {
		case last != nil && r.correlation != last.correlation:
			return last
		case r.end() > limit || r.launch > w.start:
		case last == nil || r.end() > last.end(): // nodes of a graph overlap
			last = r
		}
	}
	j.partial = j.partial || last == nil && (steps == waitLookBack || i == 0 && s.lacks)
	return last
}

// overlapping is the number of pieces of work of a stream that may run at once: the nodes of a
// graph.
const overlapping = 16

// busy reports whether work that was launched before a wait was still running on a stream after
// the wait.
func (j *waitJoiner) busy(s *waitStream, w *wait) bool {
	limit := timeline.End(w.end, j.tolerance)
	i, _ := slices.BinarySearchFunc(s.recent, limit, func(w recentWork, at uint64) int { return cmp.Compare(w.start, at) })
	for i = max(i-overlapping, 0); i < len(s.recent); i++ {
		r := &s.recent[i]
		if r.launch != 0 && r.launch < w.start && r.end() > limit {
			return true
		}
		if r.start > limit {
			break
		}
	}
	return false
}

// waitHandles remember the streams on which the work of launches with a handle ran, and the
// contexts in which the work of threads ran.
type waitHandles struct {
	recent   [recentUses]use // lets nearly all launches do without a map
	launches map[handleUser][]*waitStream
	graphs   map[handleUser][]*waitStream // for launches of graphs, whose work may run on other streams too
	made     map[waitStreamKey]handleUser // streams without work so far, by the call that made them
	idle     map[read.StreamHandle]bool   // their handles
	unseen   []waitStreamKey              // streams that were made by calls without a handle
	callers  map[uint32]caller
}

const (
	recentUses = 64

	// maxStreamsOfHandle bounds the streams that a handle may stand for, one after the
	// other.
	maxStreamsOfHandle = 64

	// maxUnseenStreams bounds the streams without a handle: with many nothing is certain.
	maxUnseenStreams = 16

	// maxHandles bounds the handles, for a program that keeps making streams.
	maxHandles = 1 << 16
)

// full reports whether a wait may be for streams of its handle beyond the bounds.
func (h *waitHandles) full(w *wait, streams []*waitStream) bool {
	return len(streams) >= maxStreamsOfHandle ||
		len(streams) == 0 && w.stream > read.ThreadStream && (len(h.launches) >= maxHandles || len(h.made) >= maxHandles)
}

// A handleUser is a handle on a thread.
type handleUser struct {
	handle read.StreamHandle
	tid    uint32
}

type use struct {
	handleUser
	stream *waitStream
}

// A caller has the context of a thread's work.
type caller struct {
	context uint32
	several bool
}

// key drops the thread from handles that mean one stream on all threads. Only the thread's
// default stream differs from thread to thread.
func (u handleUser) key() handleUser {
	if u.handle != read.ThreadStream {
		u.tid = 0
	}
	return u
}

// learn notes that work of a call ran on a stream.
func (h *waitHandles) learn(u handleUser, graph bool, s *waitStream) {
	latest := use{u, s}
	slot := &h.recent[(uint64(u.handle)^uint64(u.tid)<<32)*0x9E3779B97F4A7C15>>58]
	if *slot == latest {
		return
	}
	*slot = latest
	h.begin()
	c, known := h.callers[u.tid]
	if known {
		c.several = c.several || c.context != s.out.Context.ID
	} else {
		c.context = s.out.Context.ID
	}
	h.callers[u.tid] = c
	if u.handle == 0 {
		return
	}
	if graph {
		note(h.graphs, u.key(), s)
		return
	}
	note(h.launches, u.key(), s)
	s.named = true
}

func (h *waitHandles) begin() {
	if h.launches == nil {
		h.launches, h.graphs = make(map[handleUser][]*waitStream), make(map[handleUser][]*waitStream)
		h.callers = make(map[uint32]caller)
		h.made, h.idle = make(map[waitStreamKey]handleUser), make(map[read.StreamHandle]bool)
	}
}

// made notes that a call made a stream: launches that CUPTI alone records do not name theirs.
func (j *waitJoiner) made(u handleUser, key waitStreamKey) {
	h := &j.handles
	h.begin()
	if s := j.streams[key]; s != nil {
		note(h.launches, u.key(), s)
		s.named = true
	} else if len(h.made) < maxHandles {
		h.made[key], h.idle[u.handle] = u, true
	}
}

func note(known map[handleUser][]*waitStream, u handleUser, s *waitStream) {
	list := known[u]
	if slices.Contains(list, s) || len(list) >= maxStreamsOfHandle || list == nil && len(known) >= maxHandles {
		return
	}
	known[u] = append(list, s)
}

// of returns the streams that a wait names, none if no launch has named them. Each context has
// a default stream: of several contexts the thread's context counts.
func (h *waitHandles) of(w *wait) []*waitStream {
	if w.stream == 0 {
		return nil
	}
	u := handleUser{w.stream, w.tid}.key()
	list := h.launches[u]
	if graphs := h.graphs[u]; len(list) == 0 && len(graphs) == 1 {
		list = graphs
	}
	if w.stream > read.ThreadStream {
		return list
	}
	own, known := h.callers[w.tid]
	if !known || own.several {
		return list
	}
	var streams []*waitStream
	for _, s := range list {
		if s.out.Context.ID == own.context {
			streams = append(streams, s)
		}
	}
	return streams
}

// unnamed returns the streams of a list that no handle is known for.
func unnamed(streams []*waitStream) (list []*waitStream) {
	for _, s := range streams {
		if !s.named {
			list = append(list, s)
		}
	}
	return list
}

// oneContext reports whether all streams belong to one context.
func oneContext(streams []*waitStream) bool {
	for _, s := range streams {
		if s.out.Context.ID != streams[0].out.Context.ID {
			return false
		}
	}
	return true
}
