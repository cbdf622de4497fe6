package join

import (
	"github.com/cudatrace/cudatrace/convert/catalog"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/convert/waits"
)

// A call is a slice on its way.
type call struct {
	timeline.Slice
	stack  *stack // whose it is
	state  state
	stream catalog.StreamHandle // that the call names, or the driver call inside it; 0 where none does
	fn     *catalog.Function
	wait   *waits.Call // nil for a call that does not wait, or lies within one that does
}

// A state says what a call is made of and how far it has come.
type state uint16

const (
	fromPair state = 1 << iota
	fromAPI
	hasPartner // a runtime record that holds its driver call's pair
	isPartner  // that pair
	closed     // nothing can lie within it or be merged with it any more
	committed  // still open, but shown: nothing is merged with it any more
	awaiting   // the GPU work that its correlation ID names may come
	launching  // its function launches a kernel, which is all that it does on the GPU
	innerPair  // a runtime call's pair that the pair of its driver call is part of
	innerAPI   // the same of the driver call's API record
	preparing  // a driver call of a runtime call that is not shown: what creates the work stands for it

	source = fromPair | fromAPI | hasPartner | isPartner | innerAPI
)

// chunkCalls is how many calls are allocated together.
const chunkCalls = 256

type callChunk [chunkCalls]call

// A callQueue holds calls that are not shown yet, each at one place in memory.
type callQueue struct {
	chunks []*callChunk
	last   *callChunk // of these
	head   int        // index of the first call, in the first chunk
	n      int
}

func (q *callQueue) len() int { return q.n }

// front returns the first calls, as many as are in one place.
func (q *callQueue) front() []call {
	return q.chunks[0][q.head:min(q.head+q.n, chunkCalls)]
}

// push returns a call at the end, which may have any content.
func (q *callQueue) push(pool *pool[callChunk]) *call {
	at := (q.head + q.n) % chunkCalls
	if at == 0 { // a chunk that has been shown is gone
		q.last = pool.get()
		q.chunks = append(q.chunks, q.last)
	}
	q.n++
	return &q.last[at]
}

// pop removes some of the calls at the front.
func (q *callQueue) pop(n int, pool *pool[callChunk]) {
	q.n -= n
	if q.head += n; q.head == chunkCalls {
		pool.put(q.chunks[0])
		n := copy(q.chunks, q.chunks[1:])
		q.chunks[n] = nil
		q.chunks, q.head = q.chunks[:n], 0
	}
}
