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
	// tolerance is the largest error of a GPU time against a CPU time, in ns, in addition
	// to the error that the log states for CUPTI's clock.
	tolerance = 10_000

	// lookBack bounds the search from the end of a wait back to its work, past work that
	// another thread launched meanwhile.
	lookBack = 1024

	// maxStreams bounds the streams of a context that a wait may be for.
	maxStreams = 1024

	// maxPending bounds the waits that are held back until threads and streams are known up
	// to the end of the wait.
	maxPending = 1 << 17

	noStream = 1<<32 - 1 // value of tracelog.Sync.Stream for no stream
)

// Stats count arrows and waits.
type Stats struct {
	Arrows    uint64 // from work to a call that waited for it
	Ambiguous uint64 // waits that fit several streams, and Sync records that fit several calls
	Unmatched uint64 // Sync records whose call was not found
}

// A Call is a waiting call of a thread, while its slice is not shown yet.
type Call struct {
	*timeline.Slice
	Type   cudaapi.Wait // the kind of wait of its function
	Stream catalog.StreamHandle
	TID    uint32

	closed bool // the slice is final
	shown  bool
	used   bool // a Sync record without a correlation ID was matched with it
}

// Closed returns a call whose slice is final. Its function is not known to wait, but a Sync
// record may say that it did.
func Closed(sl *timeline.Slice, stream catalog.StreamHandle, tid uint32) *Call {
	return &Call{Slice: sl, Stream: stream, TID: tid, closed: true}
}

// A Thread has the outermost waiting calls of a thread that are not shown yet, by time.
type Thread struct {
	calls []*Call
	known bool // the joiner knows the thread
}

// A Joiner finds the GPU work for which the calls of a program waited.
type Joiner struct {
	stats         *Stats
	byRecord      bool // use Sync records: the log has them
	byCorrelation func(id uint32) *Call
	handles       handles
	threads       []*Thread
	streams       map[streamKey]*Stream
	contexts      map[uint32][]*Stream
	order         []uint32 // contexts in the order of first sight
	tolerance     uint64
	pending       ordered.List[wait]
	done          uint64 // all waits that begin before this time have been joined
}

type streamKey struct{ context, stream uint32 }

// A wait is a Sync record, or a call in place of a record.
type wait struct {
	start, end  uint64
	typ         cudaapi.Wait
	context     uint32
	stream      uint32
	correlation uint32
	call        *Call // the call in place of a record; nil for a record
}

// NewJoiner returns a joiner for a program. With byRecord it uses the Sync records that it
// gets, else the calls themselves. clockError is the largest error of a GPU time, ns.
// byCorrelation finds a closed call that is not shown yet, nil for none.
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

// Stream adds a stream. Streams are searched in the order of their numbers.
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

// Learn notes that work of a call ran on a stream. graph says that the call launched a graph.
func (j *Joiner) Learn(handle catalog.StreamHandle, tid uint32, graph bool, s *Stream) {
	j.handles.learn(user{handle, tid}, graph, s)
}

// Begin adds a waiting call. No call around it waits.
func (j *Joiner) Begin(t *Thread, sl *timeline.Slice, typ cudaapi.Wait, tid uint32) *Call {
	if !t.known {
		t.known = true
		j.threads = append(j.threads, t)
	}
	c := &Call{Slice: sl, Type: typ, TID: tid}
	t.calls = append(t.calls, c)
	return c
}

// Close declares a call final, with the stream that it names.
func (j *Joiner) Close(c *Call, stream catalog.StreamHandle) {
	c.closed, c.Stream = true, stream
	if !j.byRecord && c.Ret == 0 && c.Flags == 0 {
		j.pending.Add(wait{start: c.Start, end: c.End, typ: c.Type, call: c})
	}
}

// Shown removes a call that is about to be shown. It is the thread's first call.
func (t *Thread) Shown(c *Call) {
	c.shown = true
	if len(t.calls) > 0 && t.calls[0] == c {
		t.calls[0] = nil
		t.calls = t.calls[1:]
	}
}

// Record takes a Sync record. Records of streams that wait for events are ignored: no call
// waits.
func (j *Joiner) Record(x *tracelog.Sync) {
	j.byRecord = true // a log that is followed has told only now
	switch typ := cudaapi.Wait(x.Type); typ {
	case cudaapi.EventWait, cudaapi.StreamWait, cudaapi.ContextWait:
		j.pending.Add(wait{start: x.Start, end: timeline.End(x.Start, x.Dur), typ: typ,
			context: x.Context, stream: x.Stream, correlation: x.Correlation})
	}
}

// Advance joins waits, in order, up to the first wait that does not end before ready, or with
// all every wait. Up to ready the program's threads, streams and Sync records are known.
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

// Settled says whether the search for a call's work is over.
func (j *Joiner) Settled(c *Call) bool { return j.done > timeline.End(c.End, j.tolerance) }

// join joins a wait. It reports false when the call is not closed.
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
