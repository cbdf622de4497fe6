package ordered

import "slices"

// A List holds values until all values that belong before them have arrived.
type List[T any] struct {
	before func(a, b *T) bool
	values []T
	head   int // index of the first value that has not been taken
	sorted int // values up to here are in order
}

// NewList returns an empty list in the order of before.
func NewList[T any](before func(a, b *T) bool) List[T] { return List[T]{before: before} }

// Add adds a value. It returns where the value is until the next use of the list.
func (l *List[T]) Add(v T) *T {
	l.values = append(l.values, v)
	return &l.values[len(l.values)-1]
}

// Len is the number of values.
func (l *List[T]) Len() int { return len(l.values) - l.head }

// Values returns the values in order. They are valid until the next Add or Drop.
func (l *List[T]) Values() []T {
	live := l.values[l.head:]
	if l.sorted < len(l.values) {
		Insert(live, l.sorted-l.head, l.before)
		l.sorted = len(l.values)
	}
	return live
}

// Drop removes the first n values.
func (l *List[T]) Drop(n int) {
	clear(l.values[l.head : l.head+n])
	l.head += n
	if left := l.Len(); left <= l.head { // the rest moves to the front once that is cheap
		copy(l.values, l.values[l.head:])
		clear(l.values[left:])
		l.values, l.head, l.sorted = l.values[:left], 0, max(l.sorted-l.head, 0)
	}
}

// Drain removes values from the front, in order, while ready returns true.
func (l *List[T]) Drain(ready func(*T) bool, take func(*T)) {
	live := l.Values()
	n := 0
	for n < len(live) && ready(&live[n]) {
		take(&live[n])
		n++
	}
	l.Drop(n)
}

// Trim frees memory after a burst of values.
func (l *List[T]) Trim() {
	if cap(l.values) > 1<<15 && len(l.values) < cap(l.values)/8 {
		l.values, l.head, l.sorted = slices.Clone(l.values[l.head:]), 0, l.sorted-l.head
	}
}
