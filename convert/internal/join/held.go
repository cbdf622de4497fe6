package join

import (
	"slices"
)

// A Budget bounds the calls and work that the logs of one timeline together hold back. Beyond
// it events are shown before everything that belongs to them is known; the summaries count
// these events.
type Budget struct {
	Records int // calls and pieces of work that wait for later blocks
	Calls   int // calls and pieces of work that wait for each other

	records, calls int // held back now
}

// DefaultBudget suits any machine: at most about 200 MiB.
func DefaultBudget() *Budget { return &Budget{Records: 1 << 21, Calls: 1 << 19} }

// A share is one log's part of a budget.
type share struct{ records, calls int }

// holdRecords sets the number of records that a log holds. It reports whether all logs together
// hold too many.
func (b *Budget) holdRecords(s *share, n int) (over bool) {
	b.records += n - s.records
	s.records = n
	return b.records > b.Records
}

// holdCalls is holdRecords for calls.
func (b *Budget) holdCalls(s *share, n int) (over bool) {
	b.calls += n - s.calls
	s.calls = n
	return b.calls > b.Calls
}

// A queue holds rows until they are shown, in chunks that are used again. A row in it never moves in memory.
type queue[T any] struct {
	pool           *pool[chunk[T]]
	chunks         []*chunk[T]
	pushed, popped uint64
}

// A chunk is the rows that are allocated together.
type chunk[T any] [chunkRows]T

const chunkRows = 64

func (q *queue[T]) len() int { return int(q.pushed - q.popped) }

// push adds a row at the end. It returns the row, which may have any content, and its number, for at.
func (q *queue[T]) push() (row *T, nth uint64) {
	if q.pushed%chunkRows == 0 || q.pushed == q.popped {
		q.chunks = append(q.chunks, q.pool.get())
	}
	nth = q.pushed
	q.pushed++
	return &q.chunks[len(q.chunks)-1][nth%chunkRows], nth
}

// has reports whether the row with a number has not been popped.
func (q *queue[T]) has(nth uint64) bool { return nth >= q.popped && nth < q.pushed }

func (q *queue[T]) at(nth uint64) *T {
	return &q.chunks[nth/chunkRows-q.popped/chunkRows][nth%chunkRows]
}

// front returns the rows in the first chunk.
func (q *queue[T]) front() []T {
	head := q.popped % chunkRows
	return q.chunks[0][head:min(head+q.pushed-q.popped, chunkRows)]
}

// pop removes n rows from the front.
func (q *queue[T]) pop(n int) {
	q.popped += uint64(n)
	if q.popped%chunkRows == 0 || q.popped == q.pushed { // an idle queue holds no chunk
		q.pool.put(q.chunks[0])
		n := copy(q.chunks, q.chunks[1:])
		q.chunks[n] = nil
		q.chunks = q.chunks[:n]
	}
}

// A pool has unused values.
type pool[T any] struct{ free []*T }

// get returns a value. It may have any content.
func (p *pool[T]) get() *T {
	n := len(p.free)
	if n == 0 {
		return new(T)
	}
	v := p.free[n-1]
	p.free = p.free[:n-1]
	return v
}

func (p *pool[T]) put(v *T) { p.free = append(p.free, v) }

// byProgram has a value for some programs of a process, in the order of the programs: a process
// may have run thousands, and a thread of it belongs to one.
type byProgram[T any] struct {
	programs []uint16
	values   []T
}

// get returns the value of a program; it makes one if there is none.
func (l *byProgram[T]) get(program uint16, make func() T) T {
	if len(l.programs) == 1 && l.programs[0] == program {
		return l.values[0]
	}
	i, found := slices.BinarySearch(l.programs, program)
	if !found {
		l.programs = slices.Insert(l.programs, i, program)
		l.values = slices.Insert(l.values, i, make())
	}
	return l.values[i]
}
