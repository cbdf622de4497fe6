package ordered

import "sort"

// Insert sorts a list, stably. The list is sorted up to from.
func Insert[T any](list []T, from int, before func(a, b *T) bool) {
	sort.Stable(sorted[T]{list[from:], before})
	if from == 0 || from == len(list) || !before(&list[from], &list[from-1]) {
		return
	}
	at := sort.Search(from, func(i int) bool { return before(&list[from], &list[i]) })
	sort.Stable(sorted[T]{list[at:], before})
}

// A sorted is a list for package sort. Its functions that take values would copy them for each comparison.
type sorted[T any] struct {
	list   []T
	before func(a, b *T) bool
}

func (s sorted[T]) Len() int           { return len(s.list) }
func (s sorted[T]) Less(i, j int) bool { return s.before(&s.list[i], &s.list[j]) }
func (s sorted[T]) Swap(i, j int)      { s.list[i], s.list[j] = s.list[j], s.list[i] }
