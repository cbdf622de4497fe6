package convert

// A relay is a sink that hands what it gets on to another, on a goroutine of its own: so
// records are joined on one processor while the trace is encoded on another.
type relay struct {
	sink  Sink
	pool  *chunkPool
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
	threads  []*Thread
	calls    []callEvent
	tracks   []*Track
	spans    []Span
	counters []*Counter
	values   [][2]uint64
	queues   []*Queue
	work     []Work
	marks    []*Mark
	retired  []*sliceChunk
}

// A run is one method of a sink, called a number of times.
type run struct {
	op
	n int32
}

// A callEvent is a Begin, or the End of a slice or span where there is no slice.
type callEvent struct {
	slice *Slice
	end   uint64
}

// An op is a method of a sink, or two.
type op uint8

const (
	opThread op = iota
	opCall
	opTrack
	opBeginSpan
	opInstant
	opCounter
	opValue
	opQueue
	opWork
	opMark
)

const (
	batchOps = 1 << 15
	batches  = 3
)

func newRelay(sink Sink, pool *chunkPool) *relay {
	r := &relay{sink: sink, pool: pool, batch: &batch{}, done: make(chan struct{}),
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
		case opCall:
			playCalls(s, b.calls[from:to])
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

func playCalls(s Sink, calls []callEvent) {
	for i := range calls {
		if c := &calls[i]; c.slice != nil {
			s.Begin(c.slice)
		} else {
			s.End(c.end)
		}
	}
}

// one calls a method of which there are few calls.
func (b *batch) one(s Sink, o op, i int, at *[opMark + 1]int) {
	switch o {
	case opThread:
		s.Thread(b.threads[i])
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
	b.runs, b.n, b.threads, b.calls, b.tracks, b.spans = b.runs[:0], 0, b.threads[:0], b.calls[:0], b.tracks[:0], b.spans[:0]
	b.counters, b.values, b.queues, b.work, b.marks, b.retired = b.counters[:0], b.values[:0], b.queues[:0], b.work[:0], b.marks[:0], b.retired[:0]
}

func (r *relay) add(o op) {
	b := r.batch
	if n := len(b.runs); n > 0 && b.runs[n-1].op == o {
		b.runs[n-1].n++
	} else {
		b.runs = append(b.runs, run{o, 1})
	}
	if b.n++; b.n >= batchOps {
		r.pass()
	}
}

// pass hands the batch on.
func (r *relay) pass() {
	r.full <- r.batch
	b := <-r.empty
	r.pool.free = append(r.pool.free, b.retired...)
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

func (r *relay) GPUs(list []GPU)    { r.sink.GPUs(list) }
func (r *relay) Process(p *Process) { r.sink.Process(p) }

func (r *relay) Thread(t *Thread) {
	r.batch.threads = append(r.batch.threads, t)
	r.add(opThread)
}

func (r *relay) Begin(sl *Slice) {
	r.batch.calls = append(r.batch.calls, callEvent{slice: sl})
	r.add(opCall)
}

func (r *relay) End(ts uint64) {
	r.batch.calls = append(r.batch.calls, callEvent{end: ts})
	r.add(opCall)
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
