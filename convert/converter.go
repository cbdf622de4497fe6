package convert

import (
	"math"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An opener opens a log, which a conversion reads several times.
type opener func() (*tracelog.Reader, error)

// findings are the numbers of what was joined.
type findings struct {
	stack    stackStats
	work     workStats
	waits    waitStats
	nvtx     nvtxStats
	overhead uint64 // ns
	forced   uint64 // slices that were shown before all that may belong to them was known
	left     uint64 // slices, spans and pieces of work that a filter left out
}

// slices is how many calls and pieces of work there were so far.
func (f *findings) slices() uint64 { return f.stack.pairs + f.stack.apis + f.work.total() }

// A converter gives the records of a log to a sink. Its catalog is complete before the
// second reading begins.
type converter struct {
	*catalog
	open      opener
	sink      eventSink // takes the events, on their way to out
	relay     *relay    // the same
	out       Sink
	selection *selection // nil shows all
	known     *gpuTable
	pidOffset uint32
	ids       *workIDs // of all logs
	sessions  []*session
	byThread  map[threadKey][]*group
	calling   map[uint32][]*group // calls and API records, by process
	working   map[uint32][]*group // GPU work
	found     findings
	eof       bool
	heldWork  int    // records of work that are held back
	pressed   bool   // too much is held back: what is closed is shown
	ofCalls   bool   // work is shown with its call only
	taken     uint64 // records that the filter took
	progress  func(share float64)
	damage    *tracelog.Damage // what the first reading found, and then the second

	threads     map[threadKey]*rawThread
	threadOrder []*rawThread
	latest      *rawThread
	queues      map[queueKey]*rawQueue
	queueOrder  []*rawQueue
	latestQueue *rawQueue
	chosen      *workQueue // that the sink has
	shapes      *shapes
	chunks      pool[sliceChunk]
	workChunks  pool[workChunk]
	spans       pool[Span]
	arguments   argumentTable
	markerList  markerList
	memoryUse   memoryUse

	sources     pool[callSource]
	workSources pool[workSource]
}

func newConverter(l *catalog, open opener, sink Sink) *converter {
	c := &converter{
		catalog: l, open: open, sink: sink, out: sink, byThread: l.threadGroups(),
		calling: l.processGroups(tracelog.KindCall, tracelog.KindAPI), working: l.processGroups(tracelog.KindKernel),
		threads: make(map[threadKey]*rawThread), queues: make(map[queueKey]*rawQueue), shapes: newShapes(),
		memoryUse: memoryUse{device: make(map[uint32]uint64)},
		progress:  func(float64) {},
	}
	return c
}

// describe gives the sink the processes.
func (c *converter) describe() {
	for _, s := range c.sessions {
		c.out.Process(s.Process)
	}
}

// maxPending is how many slices are held back for what may belong to them.
const maxPending = 1 << 19

// stepRows is how many records are taken in before what is known to be in order is
// shown.
const stepRows = 1 << 14

// run goes through the log with the sink on a goroutine of its own.
func (c *converter) run() error {
	c.relay = newRelay(c.out, &c.chunks, &c.workChunks)
	c.sink = c.relay
	defer c.relay.close()
	return c.join()
}

// join reads the events and hands them on.
func (c *converter) join() error {
	rs, err := c.openReadings()
	if err != nil {
		return err
	}
	defer rs.close()
	for rows := 0; ; {
		r := rs.next()
		if r == nil {
			break
		}
		rows += r.Block().N
		c.block(r)
		if rows >= stepRows {
			rows = 0
			c.steps()
			c.progress(rs.share(c.catalog.first, c.catalog.last))
		}
	}
	if err := rs.err(); err != nil {
		return err
	}
	for _, r := range rs.list {
		c.damage.Join(r.Damage())
	}
	c.steps()
	c.eof = true
	c.step(never)
	for i := range c.marks {
		c.sink.Mark(&c.marks[i])
	}
	return nil
}

// block takes the block that a reader has read.
func (c *converter) block(r *reading) {
	b := r.Block()
	c.advance(b)
	switch b.Kind {
	case tracelog.KindCall, tracelog.KindAPI:
		c.keep(r)
	case tracelog.KindKernel, tracelog.KindMemcpy, tracelog.KindMemset, tracelog.KindGraph:
		c.keepWork(r)
	case tracelog.KindSync:
		c.syncs(b)
	case tracelog.KindOverhead:
		c.overheads(b)
	case tracelog.KindMarker:
		c.markers(b)
	case tracelog.KindMemory:
		c.memory(b)
	case tracelog.KindMemoryPool:
		c.memoryPools(b)
	}
}

// steps shows what is known to be in order, in steps of time that are small enough to
// hold what is on its way from a block to the sink in little memory.
func (c *converter) steps() {
	from, to, rows := uint64(never), uint64(0), 0
	widen := func(f, t uint64, n int) { from, to, rows = min(from, f), max(to, t), rows+n }
	for _, t := range c.threadOrder {
		widen(t.extent(t.low()))
	}
	c.heldWork = 0
	for _, q := range c.queueOrder {
		c.heldWork += q.blocks.rows + q.rows
		widen(q.extent(c.workLow(q)))
	}
	if rows == 0 {
		c.step(never)
		return
	}
	n := uint64(rows/stepRows + 1)
	for i := range n - 1 {
		c.step(from + (to-from)/n*(i+1))
	}
	c.step(never)
}

// workAhead is how far work is gone through ahead of its process's calls, ns.
const workAhead = 10e6

// workLow is the earliest start of work on a stream that is not shown yet: as nothing
// before it will come, nor calls that it would have to wait for.
func (c *converter) workLow(q *rawQueue) uint64 {
	low := q.low()
	if c.heldWork > maxRows/2 {
		return low
	}
	return min(low, end(lowest(c.calling[q.pid]), workAhead))
}

// step shows what begins before a time and is known to be in order: nothing in the blocks
// to come begins before it.
func (c *converter) step(before uint64) {
	for _, t := range c.threadOrder {
		t.advance(c, min(before, t.low()))
	}
	c.relieve()
	c.chosen = nil // the sink may have shown other work meanwhile
	for _, q := range c.queueOrder {
		q.advance(c, min(before, c.workLow(q)))
	}
	if c.eof {
		for _, t := range c.threadOrder {
			for _, part := range t.parts {
				if part != nil {
					part.closeAll(c)
				}
			}
		}
	}
	c.stepJoins(before)
	c.stepEvents()
	for _, t := range c.threadOrder {
		t.calls.trim()
		t.apis.trim()
		for _, part := range t.parts {
			if part != nil {
				part.emit(c)
			}
		}
	}
}

// stepJoins notes how far the work is, and joins the Sync records up to the time that all
// threads and streams of their session are known to.
func (c *converter) stepJoins(before uint64) {
	syncs := c.kindLow(tracelog.KindSync)
	pending := 0
	for _, s := range c.sessions {
		s.unclosed = never
	}
	for _, t := range c.threadOrder {
		for _, part := range t.parts {
			if part != nil {
				pending += part.pending.len()
				part.s.unclosed = min(part.s.unclosed, part.unclosed())
			}
		}
	}
	c.pressed = pending > maxPending
	for _, s := range c.sessions {
		calls := lowest(c.calling[s.pid])
		work := min(before, lowest(c.working[s.pid]), end(calls, workAhead))
		s.join.calls = min(before, calls)
		s.progress.step(work)
		if s.waits != nil {
			s.waits.advance(c, min(syncs, work, calls, s.unclosed))
		}
	}
}

// kindLow is the earliest time of an event of a kind that may still come.
func (c *converter) kindLow(k tracelog.Kind) uint64 { return c.groups[groupKey{kind: k}].low() }

// stepEvents shows what is neither a call nor GPU work.
func (c *converter) stepEvents() {
	c.markerList.advance(c, c.kindLow(tracelog.KindMarker))
	c.memoryUse.advance(c, c.kindLow(tracelog.KindMemory))
	for _, s := range c.sessions {
		switch {
		case s.ranger == nil:
		case c.eof:
			s.ranger.finish(c)
		default:
			s.ranger.advance(c)
		}
		if s.overheads != nil {
			s.overheads.advance(c, c.kindLow(tracelog.KindOverhead))
		}
		if s.pools != nil {
			s.pools.advance(c, c.kindLow(tracelog.KindMemoryPool))
		}
		if s.memory != nil && c.eof {
			s.memory.showAll(c)
		}
	}
}

// A reading is one reader's way through the events of some kinds.
type reading struct {
	*tracelog.Reader
	pos uint64 // the latest beginning of a block so far
}

// readings go through the kinds of event side by side, so that what belongs together is
// read at about the same time however far apart it is in the file.
type readings struct{ list []*reading }

// kindsTogether are the kinds that one reader reads.
var kindsTogether = [][]tracelog.Kind{
	{tracelog.KindCall},
	{tracelog.KindAPI},
	{tracelog.KindKernel, tracelog.KindMemcpy, tracelog.KindMemset, tracelog.KindGraph},
	{tracelog.KindSync, tracelog.KindOverhead, tracelog.KindMarker, tracelog.KindMemory, tracelog.KindMemoryPool},
}

func (c *converter) openReadings() (*readings, error) {
	rs := &readings{}
	for _, kinds := range kindsTogether {
		some := false
		for _, k := range kinds {
			some = some || c.totals[k] > 0
		}
		if !some {
			continue
		}
		r, err := c.open()
		if err != nil {
			rs.close()
			return nil, err
		}
		rs.list = append(rs.list, &reading{Reader: r})
		f := tracelog.Filter{}
		if c.filter != nil {
			f = *c.filter
		}
		f.Kinds = kinds
		if err := r.Select(f); err != nil {
			rs.close()
			return nil, err
		}
		r.Parallel(1)
	}
	return rs, nil
}

func (rs *readings) close() {
	for _, r := range rs.list {
		r.Close()
	}
}

// next has the reader that is furthest behind read a block; it gives nil at the end of all.
func (rs *readings) next() *reading {
	for {
		var behind *reading
		for _, r := range rs.list {
			if r.pos != never && (behind == nil || r.pos < behind.pos) {
				behind = r
			}
		}
		if behind == nil {
			return nil
		}
		if !behind.Next() {
			behind.pos = never
			continue
		}
		b := behind.Block()
		if e, ok := eventKinds[b.Kind]; ok {
			starts := b.Column(e.start)
			behind.pos = min(max(behind.pos, starts.At(0)), never-1)
			return behind
		}
	}
}

// err is the first error that is not damage, which the first reading has found.
func (rs *readings) err() error {
	for _, r := range rs.list {
		if err := r.Err(); err != nil && !isDamage(err) {
			return err
		}
	}
	return nil
}

// share is how far the reader that is furthest behind has come, of the time from first to
// last. (How many bytes have been read says little: each reads its own kinds only.)
func (rs *readings) share(first, last uint64) float64 {
	behind := uint64(never)
	for _, r := range rs.list {
		behind = min(behind, r.pos)
	}
	done, all := min(behind, last)-min(behind, last, first), last-min(last, first)
	return float64(done) / math.Max(1, float64(all))
}
