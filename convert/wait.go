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
	ambiguous uint64 // waits that several streams may have been the cause of, Sync records that several calls may have made
	unmatched uint64 // Sync records that no call was found for
}

// A waitJoiner finds the work that calls of a session waited for. Where the log has Sync
// records it finds the calls that made them, else it takes the calls themselves, in the
// order in which the waits began.
type waitJoiner struct {
	s         *session
	records   bool // the log has Sync records of the process
	streams   streamTable
	threads   []*waitList
	queues    map[streamKey]*workQueue
	contexts  map[uint32][]*workQueue
	order     []uint32 // contexts by first sight
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
	call        *Slice // that makes up for a record, nil for one that CUPTI made
	list        *waitList
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
	list, known := j.contexts[q.out.Context]
	if !known {
		j.order = append(j.order, q.out.Context)
	}
	if len(list) >= waitStreams {
		return
	}
	i, _ := slices.BinarySearchFunc(list, q, func(a, b *workQueue) int {
		return cmp.Or(cmp.Compare(a.out.Device, b.out.Device), cmp.Compare(a.out.Stream, b.out.Stream))
	})
	j.contexts[q.out.Context] = slices.Insert(list, i, q)
}

// add takes note of a call that waits, unless one around it does.
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
		x.Read(b, i)
		if x.Type != syncEvent && x.Type != syncStream && x.Type != syncContext {
			continue
		}
		until := end(x.Start, x.Dur)
		if j := c.processes[x.PID].parts.at(until).waits; j != nil {
			j.pending = append(j.pending, syncRecord{start: x.Start, end: until, typ: x.Type,
				context: x.Context, stream: x.Stream, correlation: x.Correlation})
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
	if s.call != nil {
		j.joinCall(c, s)
		return true
	}
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
	if call.first[0] != 0 { // a copy that waits for itself
		return true
	}
	c.waited(call.Slice, j.work(s, call.Slice))
	return true
}

// waited draws arrows from work to the call that waited for it.
func (c *converter) waited(call *Slice, work []*recentWork) {
	for _, w := range work {
		w.awaited = true
		l := call.more()
		l.waits = append(l.waits, w.id)
		c.found.waits.arrows++
	}
}
