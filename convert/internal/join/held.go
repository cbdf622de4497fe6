package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/ordered"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Budget bounds the rows that the logs of one timeline together hold back, by what they wait for. Beyond a bound rows
// go on as they are, and none is dropped: Found counts the calls that were shown before all that belongs to them was
// known (Forced), and the records that came after later ones had gone on (Late).
type Budget struct {
	Records Bound // wait for earlier records, which later blocks may have; beyond it the older half of a kind goes on
	Calls   Bound // calls, GPU work and what leads from one to the other; beyond it all are joined as far as they can be
	Spans   Bound // wait for the end of a span around them; beyond it that span begins without its end
}

// A Bound is the largest number of rows that may be held back.
type Bound struct {
	Most int
	held int
}

// DefaultBudget suits any machine: at most about 250 MiB.
func DefaultBudget() *Budget {
	return &Budget{Records: Bound{Most: 1 << 21}, Calls: Bound{Most: 1 << 19}, Spans: Bound{Most: 1 << 18}}
}

// set replaces the number of rows that one holder of several holds back.
func (b *Bound) set(holds *int, n int) {
	b.held += n - *holds
	*holds = n
}

// over reports whether too many rows are held back.
func (b *Bound) over() bool { return b.held > b.Most }

// maxDepth bounds the calls, the ranges and the functions of a thread that are open at one time. A program has a
// few. With more, the innermost call is cut off where the next one begins, a range is around no call, and a
// function is not shown.
const maxDepth = 256

// An inOrder holds records of one kind until no earlier ones come.
type inOrder[T any] struct {
	list  ordered.List[T]
	time  func(*T) uint64
	bound *Bound
	late  *uint64 // records that came after later ones had been taken
	taken uint64  // the latest time of a record that was taken: one that is late counts as of that time
}

// newInOrder returns an empty list. At one time, before is the order; nil for that of arrival.
func newInOrder[T any](bound *Bound, late *uint64, time func(*T) uint64, before func(a, b *T) bool) inOrder[T] {
	if before == nil {
		before = func(a, b *T) bool { return time(a) < time(b) }
	}
	return inOrder[T]{list: ordered.NewList(before), time: time, bound: bound, late: late}
}

func (l *inOrder[T]) add(v T) {
	l.bound.held++
	if l.time(l.list.Add(v)) < l.taken {
		*l.late++
	}
}

// drain takes the records before a time, in order; with all, every record; where too many are held back, half of them.
func (l *inOrder[T]) drain(low uint64, all bool, take func(*T)) {
	if l.list.Len() == 0 {
		return
	}
	half := 0
	if l.bound.over() {
		half = (l.list.Len() + 1) / 2
	}
	ready := func(v *T) bool { half--; return l.time(v) < low || all || half >= 0 }
	l.list.Drain(ready, func(v *T) {
		l.bound.held--
		l.taken = max(l.taken, l.time(v))
		take(v)
	})
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

// An owner is a thread or a stream of a log, of all programs of a process: the records R that later blocks may have
// earlier ones than, and what they are joined to, by program.
type owner[K comparable, R, T any] struct {
	key    K
	merger *read.Merger[R]
	lows   read.Lows
	parts  byProgram[T]
	active bool
}

// owners are the threads or the streams of a log. A program may make a thread or a stream for each request: those with
// nothing to come or to show are not active.
type owners[K comparable, R, T any] struct {
	open   func(key K) (*read.Merger[R], read.Lows)
	waits  func(part T) bool // something is to be shown
	byKey  map[K]*owner[K, R, T]
	all    []*owner[K, R, T] // in the order of first sight
	active []*owner[K, R, T]
	latest *owner[K, R, T]
}

// get returns an owner, which is active from now on.
func (l *owners[K, R, T]) get(key K) *owner[K, R, T] {
	if s := l.latest; s != nil && s.key == key {
		return s
	}
	s := l.byKey[key]
	if s == nil {
		s = &owner[K, R, T]{key: key}
		s.merger, s.lows = l.open(key)
		l.byKey[key], l.all = s, append(l.all, s)
	}
	if !s.active {
		s.active = true
		l.active = append(l.active, s)
	}
	l.latest = s
	return s
}

// rest takes those owners out of the active ones that have nothing left to show.
func (l *owners[K, R, T]) rest() {
	l.active = slices.DeleteFunc(l.active, func(s *owner[K, R, T]) bool {
		s.active = s.lows.Low() != timeline.Never || s.merger.Held() > 0 || slices.ContainsFunc(s.parts.values, l.waits)
		if !s.active && l.latest == s {
			l.latest = nil
		}
		return !s.active
	})
}

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
