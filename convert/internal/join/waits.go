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
	// another thread launched meanwhile.
	waitLookBack = 1024

	// maxWaitStreams bounds the streams of a context that a wait may be for.
	maxWaitStreams = 1024

	// maxPendingWaits bounds the waits that are held back until threads and streams are known up
	// to the end of the wait.
	maxPendingWaits = 1 << 17
)

// waitStats count arrows and waits.
type waitStats struct {
	Arrows    uint64 // from work to a call that waited for it
	Ambiguous uint64 // waits that fit several streams
}

// A waitingCall is a waiting call of a thread, while its slice is not shown yet.
type waitingCall struct {
	*timeline.Slice
	Type   cudaapi.Wait // the kind of wait of its function
	Stream read.StreamHandle
	TID    uint32

	shown bool
}

// A waitJoiner finds the GPU work for which the calls of a program waited: the last work of a call's stream that was
// launched before the wait and had ended by its end. The stream comes from the handle that the call names.
type waitJoiner struct {
	stats     *waitStats
	handles   waitHandles
	streams   map[waitStreamKey]*waitStream
	contexts  map[uint32][]*waitStream
	order     []uint32 // contexts in the order of first sight
	tolerance uint64
	pending   ordered.List[wait]
	done      uint64 // all waits that begin before this time have been joined
}

type waitStreamKey struct{ context, stream uint32 }

// A wait is a call whose slice is final. The slice itself may be gone once it is shown.
type wait struct {
	start, end uint64
	call       *waitingCall
}

// newWaitJoiner returns a joiner for a program. clockError is the largest error of a GPU time, ns.
func newWaitJoiner(clockError uint64, stats *waitStats) *waitJoiner {
	return &waitJoiner{
		stats: stats, tolerance: waitTolerance + min(clockError, 1e9),
		streams: make(map[waitStreamKey]*waitStream), contexts: make(map[uint32][]*waitStream),
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

// closeWait adds a call whose slice is final, with the stream that it names.
func (j *waitJoiner) closeWait(c *waitingCall, stream read.StreamHandle) {
	c.Stream = stream
	if c.Ret == 0 && c.Flags == 0 {
		j.pending.Add(wait{c.Start, c.End, c})
	}
}

// joinUntil joins waits, in order, up to the first wait that does not end before ready, or with
// all every wait. Up to ready the program's threads and streams are known.
func (j *waitJoiner) joinUntil(ready uint64, all bool) {
	left := j.pending.Len()
	j.pending.Drain(func(w *wait) bool {
		known := timeline.End(w.end, 2*j.tolerance) < ready || all || left > maxPendingWaits
		left--
		return known
	}, j.join)
	j.done = max(j.done, ready-min(ready, 2*j.tolerance))
	if j.pending.Len() > 0 {
		j.done = min(j.done, j.pending.Values()[0].start)
	}
}

// settled reports whether the search for a call's work is over.
func (j *waitJoiner) settled(c *waitingCall) bool { return j.done > timeline.End(c.End, j.tolerance) }

// waited adds work to the call that waited for it.
func (j *waitJoiner) waited(call *waitingCall, list []lastWork) {
	for _, w := range list {
		w.awaited = true
		call.AddWait(timeline.Awaited{Work: w.id, Stream: w.stream.out, Start: w.start, End: w.end()})
		j.stats.Arrows++
	}
}
