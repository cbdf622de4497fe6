package convert

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// workStats counts GPU work and how much of it found its call.
type workStats struct {
	kernels, copies, sets, graphs uint64
	matched                       uint64
	early                         uint64 // started before the call that caused it
}

// total is the number of all pieces of work.
func (s *workStats) total() uint64 { return s.kernels + s.copies + s.sets + s.graphs }

func (s *workStats) count(k WorkKind) {
	switch k {
	case WorkKernel:
		s.kernels++
	case WorkMemcpy:
		s.copies++
	case WorkMemset:
		s.sets++
	case WorkGraph:
		s.graphs++
	}
}

type queueKey struct{ pid, context, stream uint32 }

// A rawQueue has the work of a stream that can't be shown yet, as blocks to come may
// reach back to before it.
type rawQueue struct {
	queueKey
	h      *history
	groups []*group
	blocks keptBlocks
	mixed  []rawWork // of blocks of several streams
	head   int       // of the first of these that is still there
	sorted int       // up to here they are in order
	active []*workSource
	rows   int          // of the blocks among these, that are to come
	part   int          // of the PID's sessions, of the latest work with a time
	parts  []*workQueue // by session of the PID, nil for one without its work
}

type rawWork struct {
	Work
	device uint32
	part   uint16
}

func (w *rawWork) before(o *rawWork) bool { return w.Start < o.Start }

// A workQueue is a stream of one session.
type workQueue struct {
	out    *Queue
	s      *session
	serial uint64       // of the next work
	recent []recentWork // the latest work, by start; kept where calls wait for it
}

// recentWork is what a waiting call may have waited for.
type recentWork struct {
	start, dur  uint64
	id          uint64
	launch      uint64 // when its call was entered, 0 when not known
	correlation uint32
	awaited     bool // a call has waited for it
}

func (w *recentWork) end() uint64 { return end(w.start, w.dur) }

// rawQueue returns the stream of a record.
func (c *converter) rawQueue(pid, context, stream uint32) *rawQueue {
	key := queueKey{pid, context, stream}
	if q := c.latestQueue; q != nil && q.queueKey == key {
		return q
	}
	q := c.queues[key]
	if q == nil {
		h := c.processes[pid]
		q = &rawQueue{queueKey: key, h: h, parts: make([]*workQueue, len(h.parts))}
		if g := c.groups[groupKey{kind: tracelog.KindKernel, pid: pid, context: context, id: stream}]; g != nil {
			q.groups = append(q.groups, g)
		}
		q.groups = append(q.groups, c.mixed(tracelog.KindKernel)...)
		c.queues[key] = q
		c.queueOrder = append(c.queueOrder, q)
	}
	c.latestQueue = q
	return q
}

// low is the earliest start of work that may still come.
func (q *rawQueue) low() uint64 { return lowest(q.groups) }

// keepWork takes a block of GPU work. One of a single stream is kept as it is.
func (c *converter) keepWork(r *reading) {
	b := r.Block()
	key := c.groupOf(b, eventKinds[b.Kind])
	if key.mixed || len(c.processes[key.pid].parts) > 1 { // without a time it goes with its neighbour
		c.anyWork(b)
		return
	}
	c.rawQueue(key.pid, key.context, key.id).blocks.add(r.Keep(), false)
}

// anyWork takes a block of GPU work of several streams apart.
func (c *converter) anyWork(b *tracelog.Block) {
	s := c.workSources.get()
	defer c.endWork(s)
	s.of(c, keptBlock{Block: b, sorted: true})
	pids, contexts, streams := b.Column("pid"), b.Column("context"), b.Column("stream")
	for i := range b.N {
		if !c.wanted(b, i) {
			continue
		}
		q := c.rawQueue(uint32(pids.At(i)), uint32(contexts.At(i)), uint32(streams.At(i)))
		q.mixed = append(q.mixed, rawWork{})
		w := &q.mixed[len(q.mixed)-1]
		s.work(i, &w.Work)
		w.device = uint32(s.device.At(i))
		if w.Start != 0 && len(q.h.parts) > 1 { // without a time it goes with its neighbour
			q.part = q.h.parts.place(w.Start)
		}
		w.part = uint16(q.part)
	}
}

// advance shows the work that begins before low.
func (q *rawQueue) advance(c *converter, low uint64) {
	q.sortMixed()
	for {
		first := q.blocks.any()
		at := q.blocks.first()
		var s *workSource
		if n := len(q.active); n > 0 {
			if s = q.active[n-1]; s.begin < at {
				first, at = false, s.begin
			}
		}
		var w *rawWork
		if q.head < len(q.mixed) && (!first && s == nil || q.mixed[q.head].Start <= at) {
			w = &q.mixed[q.head]
			at = w.Start
		}
		switch {
		case w == nil && !first && s == nil, at >= low && !c.eof:
			q.tidy()
			return
		case w != nil:
			q.head++
			c.showWork(c.workQueue(q, w.device, w.part), &w.Work, nil, 0)
		case first && len(q.active) >= maxActive:
			q.flatten(c, low)
		case first:
			q.open(c)
		default:
			c.showWork(c.workQueue(q, s.onDevice, 0), s.head(), s.chunk, s.at)
			q.next(c, s)
		}
	}
}

// open begins with the first of the blocks.
func (q *rawQueue) open(c *converter) {
	if s := c.beginWork(q, q.blocks.take()); s != nil {
		q.insert(s)
	}
}

// flatten takes apart what is gone through and all blocks that begin before low.
func (q *rawQueue) flatten(c *converter, low uint64) {
	active := q.active
	q.active = q.active[:0]
	for _, s := range active {
		q.takeApart(c, s)
	}
	clear(active)
	for q.blocks.any() && (q.blocks.first() < low || c.eof) {
		if s := c.beginWork(q, q.blocks.take()); s != nil {
			q.takeApart(c, s)
		}
	}
	q.sortMixed()
}

// takeApart puts what is left of a source with the work of blocks of several streams.
func (q *rawQueue) takeApart(c *converter, s *workSource) {
	for ok := true; ok; ok = s.next(c, q) {
		q.mixed = append(q.mixed, rawWork{Work: *s.head(), device: s.onDevice})
	}
	c.endWork(s)
}

func (q *rawQueue) sortMixed() {
	if len(q.mixed) > 0 {
		insertSorted(q.mixed[q.head:], q.sorted-q.head, (*rawWork).before)
		q.sorted = len(q.mixed)
	}
}

// next goes on with the source that comes first.
func (q *rawQueue) next(c *converter, s *workSource) {
	last := len(q.active) - 1
	if !s.next(c, q) {
		q.active = q.active[:last]
		c.endWork(s)
		return
	}
	if last > 0 {
		q.active = q.active[:last]
		q.insert(s)
	}
}

// insert puts a source among those that are gone through.
func (q *rawQueue) insert(s *workSource) {
	q.active = append(q.active, s)
	for i := len(q.active) - 1; i > 0 && q.active[i-1].comes(s); i-- {
		q.active[i], q.active[i-1] = q.active[i-1], s
	}
}

// tidy moves what is left of the mixed work up once that is little.
func (q *rawQueue) tidy() {
	if left := len(q.mixed) - q.head; left <= q.head {
		copy(q.mixed, q.mixed[q.head:])
		clear(q.mixed[left:])
		q.mixed, q.head, q.sorted = q.mixed[:left], 0, left
	}
}

// extent is the time between the earliest and the latest start of what is held back in
// blocks and begins below a time.
func (q *rawQueue) extent(below uint64) (from, to uint64, rows int) {
	from, to, rows = q.blocks.extent(below)
	for _, s := range q.active {
		if s.begin < below {
			from, to, rows = min(from, s.begin), max(to, min(s.block.to, below)), rows+1+s.left()
		}
	}
	return from, to, rows
}

// workQueue returns the stream that work is shown on.
func (c *converter) workQueue(q *rawQueue, device uint32, part uint16) *workQueue {
	out := q.parts[part]
	if out != nil {
		return out
	}
	s := q.h.parts[part]
	out = &workQueue{s: s, out: &Queue{Process: s.Process, Device: device, Context: q.context, Stream: q.stream,
		GPU: c.gpu(q.pid, device), Priority: c.streams[objectKey{q.pid, q.context, q.stream}].Priority}}
	if known, ok := c.contexts[threadKey{q.pid, q.context}]; ok {
		out.out.Default = known.NullStream == q.stream
	}
	c.nameQueue(s.pid, out.out)
	q.parts[part] = out
	s.streams++
	if s.waits != nil {
		s.waits.queue(out)
	}
	return out
}

// gpu returns the number of a process's device in the trace.
func (c *converter) gpu(pid, device uint32) uint32 {
	return c.known.number[c.catalog][threadKey{pid, device}]
}

// showWork numbers work, joins it with its call and gives it to the sink. It stays as it is
// where it is in a chunk.
func (c *converter) showWork(q *workQueue, w *Work, chunk *workChunk, at int) {
	st := &c.found.work
	q.s.progress.worked++
	w.ID = c.ids.next(q.s, w.Correlation)
	if c.ofCalls {
		c.found.left++ // until its call is found
	} else {
		st.count(w.Kind)
	}
	join := claim{id: w.ID, start: w.Start, queue: q, serial: never}
	if q.s.waits != nil && w.Start != 0 {
		join.serial = q.serial
		q.serial++
		q.recent = append(q.recent, recentWork{w.Start, w.Dur, w.ID, 0, w.Correlation, false})
	}
	hold := w.Start == 0 || c.ofCalls
	if hold {
		held := *w
		join.held = &held
	}
	c.claim(q.s, w.Correlation, &join)
	if !hold && c.showsWork(w) {
		if c.chosen != q {
			c.chosen = q
			c.sink.Queue(q.out)
		}
		if chunk != nil {
			c.relay.Works(chunk, at)
		} else {
			c.sink.Work(w)
		}
	}
}

// launched notes when the call of a piece of work was entered.
func (q *workQueue) launched(serial, at uint64) {
	if back := q.serial - serial; serial != never && back <= uint64(len(q.recent)) {
		q.recent[uint64(len(q.recent))-back].launch = at
	}
}

// maxRecent is how much of a stream's work is kept for calls that wait.
const maxRecent = 1 << 18

// forget drops work that began long before a time up to which all waits are known.
func (q *workQueue) forget(done uint64) {
	i, _ := slices.BinarySearchFunc(q.recent, done, func(w recentWork, at uint64) int { return cmp.Compare(w.start, at) })
	i = max(i-waitSteps, len(q.recent)-maxRecent)
	if i > len(q.recent)/2 {
		q.recent = q.recent[:copy(q.recent, q.recent[i:])]
	}
}
