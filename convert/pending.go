package convert

const chunkSlices = 256

type sliceChunk [chunkSlices]Slice

// chunkPool has chunks without a use.
type chunkPool struct{ free []*sliceChunk }

func (p *chunkPool) get() *sliceChunk {
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c
	}
	return new(sliceChunk)
}

// A sliceQueue holds slices that are not shown yet, each at one place in memory.
type sliceQueue struct {
	chunks []*sliceChunk
	last   *sliceChunk // of these
	head   int         // of the first slice, in the first chunk
	n      int
}

func (q *sliceQueue) len() int { return q.n }

// front are the first slices, as many as are in one place.
func (q *sliceQueue) front() []Slice {
	return q.chunks[0][q.head:min(q.head+q.n, chunkSlices)]
}

// push returns a slice at the end, which may be anything.
func (q *sliceQueue) push(pool *chunkPool) *Slice {
	at := (q.head + q.n) % chunkSlices
	if at == 0 { // a chunk that has been shown is gone
		q.last = pool.get()
		q.chunks = append(q.chunks, q.last)
	}
	q.n++
	return &q.last[at]
}

// pop removes some of the slices at the front. Their memory goes with that of those
// around them.
func (q *sliceQueue) pop(n int, retire func(*sliceChunk)) {
	q.n -= n
	if q.head += n; q.head == chunkSlices {
		retire(q.chunks[0])
		n := copy(q.chunks, q.chunks[1:])
		q.chunks[n] = nil
		q.chunks, q.head = q.chunks[:n], 0
	}
}

// chunkWork is how much work of a block is taken at once; see sourceRows.
const chunkWork = sourceRows

type workChunk [chunkWork]Work

// workPool has chunks without a use.
type workPool struct{ free []*workChunk }

func (p *workPool) get() *workChunk {
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c
	}
	return new(workChunk)
}
