package waits

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/catalog"
	"github.com/cudatrace/cudatrace/convert/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

const (
	// tolerance is by how much a GPU time may be behind a CPU time, in ns, beside the
	// error that the log states for CUPTI's clock.
	tolerance = 10_000

	// lookBack bounds the look back from the end of a wait to the work that it was for,
	// over work that another thread launched meanwhile.
	lookBack = 1024

	// maxStreams bounds the streams of a context that a wait is for.
	maxStreams = 1024

	// maxPending bounds the waits that are held back because a thread or a stream is not
	// known up to their end.
	maxPending = 1 << 17

	noStream = 1<<32 - 1 // tracelog.Sync.Stream where there is none
)

// Stats count what was found.
type Stats struct {
	Arrows    uint64 // from work to a call that waited for it
	Ambiguous uint64 // waits that several streams may have been the cause of, Sync records that several calls may have made
	Unmatched uint64 // Sync records that no call was found for
}

// A Call is a call on a thread that waited, while its slice is not shown yet.
type Call struct {
	*timeline.Slice
	Type   cudaapi.Wait // of its function
	Stream catalog.StreamHandle
	TID    uint32

	closed bool // the slice is what it will be
	shown  bool
	used   bool // by a Sync record without a correlation ID
}

// Closed returns a call whose slice is what it will be, and which may wait for work
// though its function is not known to.
func Closed(sl *timeline.Slice, stream catalog.StreamHandle, tid uint32) *Call {
	return &Call{Slice: sl, Stream: stream, TID: tid, closed: true}
}

// A Thread has the outermost waiting calls of a thread that are not shown yet, by time.
type Thread struct {
	calls []*Call
	known bool // to the joiner
}

// A Joiner finds the work that calls of a program waited for.
type Joiner struct {
	stats         *Stats
	byRecord      bool // by Sync records: the log has them
	byCorrelation func(id uint32) *Call
	handles       handles
	threads       []*Thread
	streams       map[streamKey]*Stream
	contexts      map[uint32][]*Stream
	order         []uint32 // contexts by first sight
	tolerance     uint64
	pending       ordered.List[wait]
	done          uint64 // every wait that begins before it has been joined
}

type streamKey struct{ context, stream uint32 }

// A wait is a Sync record, or a call that stands in for one.
type wait struct {
	start, end  uint64
	typ         cudaapi.Wait
	context     uint32
	stream      uint32
	correlation uint32
	call        *Call // that stands in for a record, nil for a record
}

// NewJoiner returns a joiner for a program: with byRecord by the Sync records that it is
// given, else by the calls themselves. clockError is the largest error of a GPU time,
// ns. byCorrelation finds a call that is closed and not shown, nil without one.
func NewJoiner(byRecord bool, clockError uint64, byCorrelation func(id uint32) *Call, stats *Stats) *Joiner {
	return &Joiner{
		stats: stats, byRecord: byRecord, byCorrelation: byCorrelation,
		tolerance: tolerance + min(clockError, 1e9),
		streams:   make(map[streamKey]*Stream), contexts: make(map[uint32][]*Stream),
		pending: ordered.NewList(func(a, b *wait) bool {
			return a.start < b.start || a.start == b.start && a.end < b.end
		}),
	}
}

// Stream makes a stream known. Streams are searched in the order of their numbers.
func (j *Joiner) Stream(out *timeline.Stream) *Stream {
	s := &Stream{out: out}
	context := out.Context.ID
	j.streams[streamKey{context, out.ID}] = s
	list, known := j.contexts[context]
	if !known {
		j.order = append(j.order, context)
	}
	if len(list) < maxStreams {
		i, _ := slices.BinarySearchFunc(list, s, func(a, b *Stream) int {
			return cmp.Or(cmp.Compare(a.out.Context.Device, b.out.Context.Device), cmp.Compare(a.out.ID, b.out.ID))
		})
		j.contexts[context] = slices.Insert(list, i, s)
	}
	return s
}

// Learn takes in that work of a call ran on a stream; graph says that the call launched
// a graph.
func (j *Joiner) Learn(handle catalog.StreamHandle, tid uint32, graph bool, s *Stream) {
	j.handles.learn(user{handle, tid}, graph, s)
}

// Begin takes a call that waits. No call around it does.
func (j *Joiner) Begin(t *Thread, sl *timeline.Slice, typ cudaapi.Wait, tid uint32) *Call {
	if !t.known {
		t.known = true
		j.threads = append(j.threads, t)
	}
	c := &Call{Slice: sl, Type: typ, TID: tid}
	t.calls = append(t.calls, c)
	return c
}

// Close takes in that a call is what it will be, with the stream that it names.
func (j *Joiner) Close(c *Call, stream catalog.StreamHandle) {
	c.closed, c.Stream = true, stream
	if !j.byRecord && c.Ret == 0 && c.Flags == 0 {
		j.pending.Add(wait{start: c.Start, end: c.End, typ: c.Type, call: c})
	}
}

// Shown forgets a call that is about to be shown. It is the thread's first.
func (t *Thread) Shown(c *Call) {
	c.shown = true
	if len(t.calls) > 0 && t.calls[0] == c {
		t.calls[0] = nil
		t.calls = t.calls[1:]
	}
}

// Record takes a Sync record. Streams that wait for events make no call wait.
func (j *Joiner) Record(x *tracelog.Sync) {
	switch typ := cudaapi.Wait(x.Type); typ {
	case cudaapi.EventWait, cudaapi.StreamWait, cudaapi.ContextWait:
		j.pending.Add(wait{start: x.Start, end: timeline.End(x.Start, x.Dur), typ: typ,
			context: x.Context, stream: x.Stream, correlation: x.Correlation})
	}
}

// Advance joins waits, in order, up to the first that does not end before ready, a time
// up to which the program's threads, streams and Sync records are known; or with all,
// every one.
func (j *Joiner) Advance(ready uint64, all bool) {
	left := j.pending.Len()
	j.pending.Drain(func(w *wait) bool {
		known := timeline.End(w.end, 2*j.tolerance) < ready || all || left > maxPending
		left--
		return known && j.join(w, all)
	}, func(*wait) {})
	j.done = max(j.done, ready-min(ready, 2*j.tolerance))
	if j.pending.Len() > 0 {
		j.done = min(j.done, j.pending.Values()[0].start)
	}
	for _, s := range j.streams {
		s.forget(j.done)
	}
}

// Settled says whether what a call waited for has been found, if it is to be.
func (j *Joiner) Settled(c *Call) bool { return j.done > timeline.End(c.End, j.tolerance) }

// join joins a wait. It reports false where its call is not closed.
func (j *Joiner) join(w *wait, all bool) bool {
	if w.call != nil {
		j.joinCall(w)
		return true
	}
	return j.joinRecord(w, all)
}

// waited adds work to the call that waited for it.
func (j *Joiner) waited(call *Call, list []found) {
	for _, w := range list {
		w.awaited = true
		call.AddWait(timeline.Awaited{Work: w.id, Stream: w.stream.out, Start: w.start, End: w.end()})
		j.stats.Arrows++
	}
}
