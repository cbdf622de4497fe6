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
	ops      []op
	threads  []*Thread
	slices   []*Slice
	ends     []uint64
	tracks   []*Track
	spans    []Span
	counters []*Counter
	values   [][2]uint64
	queues   []*Queue
	work     []Work
	marks    []*Mark
	retired  []*sliceChunk
}

// An op is a method of a sink.
type op uint8

const (
	opThread op = iota
	opBegin
	opEnd
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
	for _, o := range b.ops {
		i := at[o]
		at[o]++
		switch o {
		case opThread:
			s.Thread(b.threads[i])
		case opBegin:
			s.Begin(b.slices[i])
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
		case opWork:
			s.Work(&b.work[i])
		case opMark:
			s.Mark(b.marks[i])
		}
	}
}

// reset empties a batch. Work and spans point to what should be let go.
func (b *batch) reset() {
	clear(b.spans)
	b.ops, b.threads, b.slices, b.ends, b.tracks, b.spans = b.ops[:0], b.threads[:0], b.slices[:0], b.ends[:0], b.tracks[:0], b.spans[:0]
	b.counters, b.values, b.queues, b.work, b.marks, b.retired = b.counters[:0], b.values[:0], b.queues[:0], b.work[:0], b.marks[:0], b.retired[:0]
}

func (r *relay) add(o op) {
	r.batch.ops = append(r.batch.ops, o)
	if len(r.batch.ops) >= batchOps {
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
	r.batch.slices = append(r.batch.slices, sl)
	r.add(opBegin)
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
