package join

import (
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A call is a slice that is not finished.
type call struct {
	timeline.Slice
	stack  *stack // whose it is
	state  state
	stream read.StreamHandle // named by the call, or by the driver call inside it; 0 for none
	fn     *read.Function
	wait   *waitingCall // nil for a call that does not wait, or that lies within a waiting call
	next   *call        // the next call of its correlationSlot

	allocates *timeline.Call // where to describe it, for the memory that it allocates; nil for none
}

// A state has the sources of a call and its progress.
type state uint16

const (
	fromPair state = 1 << iota
	fromAPI
	hasPartner // a runtime record that contains its driver call's pair
	isPartner  // the driver call's pair in such a record
	closed     // nothing more can lie within it or be merged with it
	committed  // still open, but shown: nothing more is merged with it
	awaiting   // GPU work with its correlation ID may still come
	launching  // its function launches a kernel and does nothing else on the GPU
	innerPair  // a runtime call's pair that includes the pair of its driver call
	innerAPI   // a runtime call's pair that includes the API record of its driver call
	preparing  // prepares the work of a runtime call; another driver call, which creates the work, stands for that call

	source = fromPair | fromAPI | hasPartner | isPartner | innerAPI
)

// chunkCalls is the number of calls that are allocated together.
const chunkCalls = 64

type callChunk [chunkCalls]call

// A callQueue holds calls that are not shown yet. A call in it never moves in memory.
type callQueue struct {
	chunks []*callChunk
	last   *callChunk // last of chunks
	head   int        // index of the first call, in the first chunk
	n      int
}

func (q *callQueue) len() int { return q.n }

// front returns the calls in the first chunk.
func (q *callQueue) front() []call {
	return q.chunks[0][q.head:min(q.head+q.n, chunkCalls)]
}

// push adds a call at the end and returns it. The call may have any content.
func (q *callQueue) push(pool *pool[callChunk]) *call {
	at := (q.head + q.n) % chunkCalls
	if at == 0 { // a chunk whose calls have been shown is gone
		q.last = pool.get()
		q.chunks = append(q.chunks, q.last)
	}
	q.n++
	return &q.last[at]
}

// pop removes n calls from the front.
func (q *callQueue) pop(n int, pool *pool[callChunk]) {
	q.n -= n
	if q.head += n; q.head == chunkCalls || q.n == 0 { // an idle thread holds no chunk
		pool.put(q.chunks[0])
		n := copy(q.chunks, q.chunks[1:])
		q.chunks[n] = nil
		q.chunks, q.head = q.chunks[:n], 0
	}
}
