package convert

// A relay hands what it gets on to a sink, on a goroutine of its own: so
// records are joined on one processor while the trace is encoded on another.
type relay struct {
	sink  Sink
	pool  *pool[sliceChunk]
	work  *pool[workChunk]
	batch *batch
	full  chan *batch
	empty chan *batch
	done  chan struct{}
}

// A batch is a run of calls of a sink's methods, with what they were given by kind. Slices
// stay where they are until the batch has been taken, and their memory with them.
type batch struct {
	runs     []run
	n        int // calls of methods
	slices   []sliceRun
	ends     []uint64
	tracks   []*Track
	spans    []Span
	counters []*Counter
	values   [][2]uint64
	queues   []*Queue
	work     []Work
	works    []workRun
	marks    []*Mark
	retired  []*sliceChunk
	done     []*workChunk
}

// A sliceRun is slices of a thread that follow one another, or the end of all that have
// begun where there are none.
type sliceRun struct {
	stack *sliceStack
	list  []Slice
}

// A workRun is work of a stream.
type workRun struct {
	chunk    *workChunk
	from, to int
}

// A run is one method of a sink, called a number of times.
type run struct {
	op
	n int32
}

// An op is a method of a sink, or two.
type op uint8

const (
	opSlices op = iota
	opEnd
	opTrack
	opBeginSpan
	opInstant
	opCounter
	opValue
	opQueue
	opWork
	opWorks
	opMark
)

const (
	batchOps = 1 << 14
	batches  = 8
)

// An eventSink is what a Sink is for all but calls.
type eventSink interface {
	Track(*Track)
	BeginSpan(*Span)
	Instant(*Span)
	End(ts uint64)
	Counter(*Counter)
	Value(ts, v uint64)
	Queue(*Queue)
	Work(*Work)
	Mark(*Mark)
}

func newRelay(sink Sink, pool *pool[sliceChunk], work *pool[workChunk]) *relay {
	r := &relay{sink: sink, pool: pool, work: work, batch: &batch{}, done: make(chan struct{}),
		full: make(chan *batch, batches), empty: make(chan *batch, batches)}
	for range batches - 1 {
		r.empty <- &batch{}
	}
	go r.run()
	return r
}

func (r *relay) run() {
	defer close(r.done)
	for b := range r.full {
		b.play(r.sink)
		r.empty <- b
	}
}

// play calls the methods of a sink.
func (b *batch) play(s Sink) {
	var at [opMark + 1]int
	for _, r := range b.runs {
		from := at[r.op]
		to := from + int(r.n)
		at[r.op] = to
		switch r.op {
		case opSlices:
			for i := range b.slices[from:to] {
				b.slices[from+i].play(s)
			}
		case opWorks:
			for _, w := range b.works[from:to] {
				for i := w.from; i < w.to; i++ {
					s.Work(&w.chunk[i])
				}
			}
		case opWork:
			for i := range b.work[from:to] {
				s.Work(&b.work[from+i])
			}
		default:
			for i := from; i < to; i++ {
				b.one(s, r.op, i, &at)
			}
		}
	}
}

// A sliceStack has the slices of a thread that have begun, where the sink takes them.
type sliceStack struct {
	out   *Thread
	begun []begun
}

// begun is a slice that the sink has.
type begun struct {
	end    uint64
	hidden bool
}

func (r *sliceRun) play(s Sink) {
	s.Thread(r.stack.out)
	for i := range r.list {
		sl := &r.list[i]
		r.stack.closeTo(s, int(sl.Depth))
		if !sl.hidden {
			s.Begin(sl)
		}
		r.stack.begun = append(r.stack.begun, begun{sl.End, sl.hidden})
	}
	if len(r.list) == 0 {
		r.stack.closeTo(s, 0)
	}
}

// closeTo ends slices until no more than depth have begun.
func (t *sliceStack) closeTo(s Sink, depth int) {
	for n := len(t.begun); n > depth; n-- {
		if last := &t.begun[n-1]; !last.hidden {
			s.End(last.end)
		}
		t.begun = t.begun[:n-1]
	}
}

// one calls a method of which there are few calls.
func (b *batch) one(s Sink, o op, i int, at *[opMark + 1]int) {
	switch o {
	case opEnd:
		s.End(b.ends[i])
	case opTrack:
		s.Track(b.tracks[i])
	case opBeginSpan:
		s.BeginSpan(&b.spans[i+at[opInstant]])
	case opInstant:
		s.Instant(&b.spans[i+at[opBeginSpan]])
	case opCounter:
		s.Counter(b.counters[i])
	case opValue:
		s.Value(b.values[i][0], b.values[i][1])
	case opQueue:
		s.Queue(b.queues[i])
	case opMark:
		s.Mark(b.marks[i])
	}
}

// reset empties a batch. Work and spans point to what should be let go.
func (b *batch) reset() {
	clear(b.spans)
	b.runs, b.n, b.slices, b.ends, b.tracks, b.spans = b.runs[:0], 0, b.slices[:0], b.ends[:0], b.tracks[:0], b.spans[:0]
	b.counters, b.values, b.queues, b.marks = b.counters[:0], b.values[:0], b.queues[:0], b.marks[:0]
	b.work, b.works, b.retired, b.done = b.work[:0], b.works[:0], b.retired[:0], b.done[:0]
}

func (r *relay) add(o op) {
	b := r.batch
	if n := len(b.runs); n > 0 && b.runs[n-1].op == o {
		b.runs[n-1].n++
	} else {
		b.runs = append(b.runs, run{o, 1})
	}
	r.count(1)
}

// count takes note of events, and hands the batch on when there are enough.
func (r *relay) count(n int) {
	if r.batch.n += n; r.batch.n >= batchOps {
		r.pass()
	}
}

// pass hands the batch on.
func (r *relay) pass() {
	r.full <- r.batch
	b := <-r.empty
	r.pool.put(b.retired...)
	r.work.put(b.done...)
	b.reset()
	r.batch = b
}

// close hands on what is left and waits until it has been taken.
func (r *relay) close() {
	r.full <- r.batch
	close(r.full)
	<-r.done
}

// retire takes the memory of slices that have been passed on.
func (r *relay) retire(c *sliceChunk) { r.batch.retired = append(r.batch.retired, c) }

// retireWork takes the memory of work that has been passed on.
// A chunk may have held little: a batch takes in fewer of them than of work.
func (r *relay) retireWork(c *workChunk) {
	r.batch.done = append(r.batch.done, c)
	r.count(chunkWork / 8)
}

// Slices hands on slices of a thread, in pre-order, which stay as they are: the thread's
// choice, their beginnings and the ends of those before them.
func (r *relay) Slices(stack *sliceStack, list []Slice) {
	r.batch.slices = append(r.batch.slices, sliceRun{stack, list})
	r.batch.n += 2 * len(list)
	r.add(opSlices)
}

// EndSlices hands on the ends of all slices of a thread that have begun.
func (r *relay) EndSlices(stack *sliceStack) { r.Slices(stack, nil) }

// Works hands on the work in a place of a chunk, which stays as it is.
func (r *relay) Works(chunk *workChunk, i int) {
	b := r.batch
	if n := len(b.runs); n > 0 && b.runs[n-1].op == opWorks {
		if last := &b.works[len(b.works)-1]; last.chunk == chunk && last.to == i {
			last.to++
			r.count(1)
			return
		}
	}
	b.works = append(b.works, workRun{chunk, i, i + 1})
	r.add(opWorks)
}

func (r *relay) End(ts uint64) {
	r.batch.ends = append(r.batch.ends, ts)
	r.add(opEnd)
}

func (r *relay) Track(t *Track) {
	r.batch.tracks = append(r.batch.tracks, t)
	r.add(opTrack)
}

func (r *relay) BeginSpan(sp *Span) {
	r.batch.spans = append(r.batch.spans, *sp)
	r.add(opBeginSpan)
}

func (r *relay) Instant(sp *Span) {
	r.batch.spans = append(r.batch.spans, *sp)
	r.add(opInstant)
}

func (r *relay) Counter(c *Counter) {
	r.batch.counters = append(r.batch.counters, c)
	r.add(opCounter)
}

func (r *relay) Value(ts, v uint64) {
	r.batch.values = append(r.batch.values, [2]uint64{ts, v})
	r.add(opValue)
}

func (r *relay) Queue(q *Queue) {
	r.batch.queues = append(r.batch.queues, q)
	r.add(opQueue)
}

func (r *relay) Work(w *Work) {
	r.batch.work = append(r.batch.work, *w)
	r.add(opWork)
}

func (r *relay) Mark(m *Mark) {
	r.batch.marks = append(r.batch.marks, m)
	r.add(opMark)
}
