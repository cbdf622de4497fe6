package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/ordered"
	"github.com/cudatrace/cudatrace/convert/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

const (
	// waitTolerance is the largest error of a GPU time against a CPU time, in ns, in addition
	// to the error that the log states for CUPTI's clock.
	waitTolerance = 10_000

	// waitLookBack bounds the search from the end of a wait back to its work, past work that
	// another thread launched meanwhile.
	waitLookBack = 1024

	// maxWaitStreams bounds the streams of a context that a wait may be for.
	maxWaitStreams = 1024

	// maxPendingWaits bounds the waits that are held back until threads and streams are known up
	// to the end of the wait.
	maxPendingWaits = 1 << 17

	noStream = 1<<32 - 1 // value of tracelog.Sync.Stream for no stream
)

// waitStats count arrows and waits.
type waitStats struct {
	Arrows    uint64 // from work to a call that waited for it
	Ambiguous uint64 // waits that fit several streams, and Sync records that fit several calls
	Unmatched uint64 // Sync records whose call was not found
}

// A waitingCall is a waiting call of a thread, while its slice is not shown yet.
type waitingCall struct {
	*timeline.Slice
	Type   cudaapi.Wait // the kind of wait of its function
	Stream read.StreamHandle
	TID    uint32

	closed bool // the slice is final
	shown  bool
	used   bool // a Sync record without a correlation ID was matched with it
}

// closedWait returns a call whose slice is final. Its function is not known to wait, but a Sync
// record may say that it did.
func closedWait(sl *timeline.Slice, stream read.StreamHandle, tid uint32) *waitingCall {
	return &waitingCall{Slice: sl, Stream: stream, TID: tid, closed: true}
}

// A waitThread has the outermost waiting calls of a thread that are not shown yet, by time.
type waitThread struct {
	calls []*waitingCall
	known bool // the joiner knows the thread
}

// A waitJoiner finds the GPU work for which the calls of a program waited: the last work of a call's stream that was
// launched before the wait and had ended by its end. The stream comes from CUPTI's Sync records, where the log has
// them, else from the handle that the call names.
type waitJoiner struct {
	stats         *waitStats
	byRecord      bool // use Sync records: the log has them
	byCorrelation func(id uint32) *waitingCall
	handles       waitHandles
	threads       []*waitThread
	streams       map[waitStreamKey]*waitStream
	contexts      map[uint32][]*waitStream
	order         []uint32 // contexts in the order of first sight
	tolerance     uint64
	pending       ordered.List[wait]
	done          uint64 // all waits that begin before this time have been joined
}

type waitStreamKey struct{ context, stream uint32 }

// A wait is a Sync record, or a call in place of a record.
type wait struct {
	start, end  uint64
	typ         cudaapi.Wait
	context     uint32
	stream      uint32
	correlation uint32
	call        *waitingCall // the call in place of a record; nil for a record
}

// newWaitJoiner returns a joiner for a program. With byRecord it uses the Sync records that it
// gets, else the calls themselves. clockError is the largest error of a GPU time, ns.
// byCorrelation finds a closed call that is not shown yet, nil for none.
func newWaitJoiner(byRecord bool, clockError uint64, byCorrelation func(id uint32) *waitingCall, stats *waitStats) *waitJoiner {
	return &waitJoiner{
		stats: stats, byRecord: byRecord, byCorrelation: byCorrelation,
		tolerance: waitTolerance + min(clockError, 1e9),
		streams:   make(map[waitStreamKey]*waitStream), contexts: make(map[uint32][]*waitStream),
		pending: ordered.NewList(func(a, b *wait) bool {
			return a.start < b.start || a.start == b.start && a.end < b.end
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
	list, known := j.contexts[context]
	if !known {
		j.order = append(j.order, context)
	}
	if len(list) < maxWaitStreams {
		i, _ := slices.BinarySearchFunc(list, s, func(a, b *waitStream) int {
			return cmp.Or(cmp.Compare(a.out.Context.Device, b.out.Context.Device), cmp.Compare(a.out.ID, b.out.ID))
		})
		j.contexts[context] = slices.Insert(list, i, s)
	}
	return s
}

// learn notes that work of a call ran on a stream. graph says that the call launched a graph.
func (j *waitJoiner) learn(handle read.StreamHandle, tid uint32, graph bool, s *waitStream) {
	j.handles.learn(handleUser{handle, tid}, graph, s)
}

// beginWait adds a waiting call. No call around it waits.
func (j *waitJoiner) beginWait(t *waitThread, sl *timeline.Slice, typ cudaapi.Wait, tid uint32) *waitingCall {
	if !t.known {
		t.known = true
		j.threads = append(j.threads, t)
	}
	c := &waitingCall{Slice: sl, Type: typ, TID: tid}
	t.calls = append(t.calls, c)
	return c
}

// closeWait declares a call final, with the stream that it names.
func (j *waitJoiner) closeWait(c *waitingCall, stream read.StreamHandle) {
	c.closed, c.Stream = true, stream
	if !j.byRecord && c.Ret == 0 && c.Flags == 0 {
		j.pending.Add(wait{start: c.Start, end: c.End, typ: c.Type, call: c})
	}
}

// shown removes a call that is about to be shown. It is the thread's first call.
func (t *waitThread) shown(c *waitingCall) {
	c.shown = true
	if len(t.calls) > 0 && t.calls[0] == c {
		t.calls[0] = nil
		t.calls = t.calls[1:]
	}
}

// addSync takes a Sync record. Records of streams that wait for events are ignored: no call
// waits.
func (j *waitJoiner) addSync(x *tracelog.Sync) {
	j.byRecord = true // a log that is followed has told only now
	switch typ := cudaapi.Wait(x.Type); typ {
	case cudaapi.EventWait, cudaapi.StreamWait, cudaapi.ContextWait:
		j.pending.Add(wait{start: x.Start, end: timeline.End(x.Start, x.Dur), typ: typ,
			context: x.Context, stream: x.Stream, correlation: x.Correlation})
	}
}

// joinUntil joins waits, in order, up to the first wait that does not end before ready, or with
// all every wait. Up to ready the program's threads, streams and Sync records are known.
func (j *waitJoiner) joinUntil(ready uint64, all bool) {
	left := j.pending.Len()
	j.pending.Drain(func(w *wait) bool {
		known := timeline.End(w.end, 2*j.tolerance) < ready || all || left > maxPendingWaits
		left--
		return known && j.join(w, all)
	}, func(*wait) {})
	j.done = max(j.done, ready-min(ready, 2*j.tolerance))
	if j.pending.Len() > 0 {
		j.done = min(j.done, j.pending.Values()[0].start)
	}
}

// settled reports whether the search for a call's work is over.
func (j *waitJoiner) settled(c *waitingCall) bool { return j.done > timeline.End(c.End, j.tolerance) }

// join joins a wait. It reports false when the call is not closed.
func (j *waitJoiner) join(w *wait, all bool) bool {
	if w.call != nil {
		j.joinCall(w)
		return true
	}
	return j.joinRecord(w, all)
}

// waited adds work to the call that waited for it.
func (j *waitJoiner) waited(call *waitingCall, list []lastWork) {
	for _, w := range list {
		w.awaited = true
		call.AddWait(timeline.Awaited{Work: w.id, Stream: w.stream.out, Start: w.start, End: w.end()})
		j.stats.Arrows++
	}
}
