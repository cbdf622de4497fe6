package convert

const chunkSlices = 256

type sliceChunk [chunkSlices]Slice

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
func (q *sliceQueue) push(chunks *pool[sliceChunk]) *Slice {
	at := (q.head + q.n) % chunkSlices
	if at == 0 { // a chunk that has been shown is gone
		q.last = chunks.get()
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
