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
