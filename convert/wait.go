package convert

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

const (
	// waitTolerance is by how much a GPU time may be behind a CPU time, in ns,
	// beside the error that the log states for CUPTI's clock.
	waitTolerance = 10_000

	// waitSteps bounds the look back from the end of a wait to the work that it
	// was for, over work that another thread launched meanwhile.
	waitSteps = 1024

	// waitStreams bounds the streams of a context that a wait is for.
	waitStreams = 1024

	// maxSyncs bounds the records that are held back because a thread or a stream is not
	// known up to their end.
	maxSyncs = 1 << 17

	noStream = 1<<32 - 1 // tracelog.Sync.Stream where there is none
)

// waitStats counts arrows from work to the calls that waited for it.
type waitStats struct {
	arrows    uint64
	ambiguous uint64 // Sync records that several calls may have made
	unmatched uint64 // Sync records that no call was found for
}

// A waitJoiner finds for a session's Sync records the calls that made them and the
// work that these waited for. It takes them in the order in which the waits began.
type waitJoiner struct {
	s         *session
	threads   []*waitList
	queues    map[streamKey]*workQueue
	contexts  map[uint32][]*workQueue
	tolerance uint64
	pending   []syncRecord
	done      uint64 // every record that begins before it has been joined
}

type syncRecord struct {
	start, end  uint64
	typ         uint32
	context     uint32
	stream      uint32
	correlation uint32
}

// A waitList has the outermost waiting calls of a thread that are not shown yet, by time.
type waitList struct {
	calls []waitCall
	known bool // to the joiner
}

type waitCall struct {
	*Slice
	used bool // by a record without a correlation ID
}

func newWaitJoiner(s *session, clockError uint64) *waitJoiner {
	return &waitJoiner{s: s, tolerance: waitTolerance + min(clockError, 1e9),
		queues: make(map[streamKey]*workQueue), contexts: make(map[uint32][]*workQueue)}
}

// queue takes note of a stream. Streams are searched in the order of their numbers.
func (j *waitJoiner) queue(q *workQueue) {
	j.queues[streamKey{q.out.Context, q.out.Stream}] = q
	list := j.contexts[q.out.Context]
	if len(list) >= waitStreams {
		return
	}
	i, _ := slices.BinarySearchFunc(list, q, func(a, b *workQueue) int {
		return cmp.Or(cmp.Compare(a.out.Device, b.out.Device), cmp.Compare(a.out.Stream, b.out.Stream))
	})
	j.contexts[q.out.Context] = slices.Insert(list, i, q)
}

// add takes note of a waiting call, unless one around it waits.
func (j *waitJoiner) add(t *callThread, sl *Slice) {
	sl.state |= waiting
	for _, o := range t.open {
		if o.wait != 0 {
			sl.state &^= waiting
			return
		}
	}
	if !t.waits.known {
		t.waits.known = true
		j.threads = append(j.threads, &t.waits)
	}
	t.waits.calls = append(t.waits.calls, waitCall{Slice: sl})
}

// remove forgets a call that is about to be shown. It is the first.
func (l *waitList) remove(sl *Slice) {
	if len(l.calls) > 0 && l.calls[0].Slice == sl {
		l.calls = l.calls[1:]
	}
}

// syncs takes a block of Sync records. Streams that wait for events make no call wait.
func (c *converter) syncs(b *tracelog.Block) {
	var x tracelog.Sync
	for i := range b.N {
		if !c.wanted(b, i) {
			continue
		}
		b.Sync(i, &x)
		if x.Type != syncEvent && x.Type != syncStream && x.Type != syncContext {
			continue
		}
		until := end(x.Start, x.Dur)
		if j := c.processes[x.PID].parts.at(until).waits; j != nil {
			j.pending = append(j.pending, syncRecord{x.Start, until, x.Type, x.Context, x.Stream, x.Correlation})
		}
	}
}

// advance joins the records up to the first that does not end before ready, a time up to which the session's
// threads and streams and its Sync records are known.
func (j *waitJoiner) advance(c *converter, ready uint64) {
	slices.SortStableFunc(j.pending, func(a, b syncRecord) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	n := 0
	for ; n < len(j.pending); n++ {
		s := &j.pending[n]
		known := end(s.end, 2*j.tolerance) < ready || c.eof || len(j.pending)-n > maxSyncs
		if !known || !j.join(c, s) {
			break
		}
	}
	j.pending = j.pending[:copy(j.pending, j.pending[n:])]
	j.done = max(j.done, ready-min(ready, 2*j.tolerance))
	if len(j.pending) > 0 {
		j.done = min(j.done, j.pending[0].start)
	}
	for _, q := range j.queues {
		q.forget(j.done)
	}
}

// join joins one record. It reports false when its call is not closed.
func (j *waitJoiner) join(c *converter, s *syncRecord) bool {
	call, ambiguous := j.call(s)
	if call == nil {
		c.found.waits.unmatched++
		return true
	}
	if call.state&closed == 0 && !c.eof && len(j.pending) <= maxSyncs {
		return false
	}
	call.used = true
	if ambiguous {
		c.found.waits.ambiguous++
	}
	if len(call.Work) > 0 { // a copy that waits for itself
		return true
	}
	for _, w := range j.work(s, call.Slice) {
		w.awaited = true
		call.Waits = append(call.Waits, w.id)
		c.found.waits.arrows++
	}
	return true
}
