// Package ordered sorts values that arrive nearly in order, such as the records of a log: only
// records of one moment from different processors are out of order.
//
// Input: values, in the order of arrival. Output: the same values, sorted. A caller takes the
// values that no later value can precede.
package ordered

import "slices"

// Insert sorts a list, stably. The list is sorted up to from. The rest should consist of a few
// sorted runs; otherwise the whole list is sorted.
func Insert[T any](list []T, from int, before func(a, b *T) bool) {
	var scratch []T
	moves := 4*len(list) + 16*(len(list)-from)
	for i := max(from, 1); i < len(list); i++ {
		if !before(&list[i], &list[i-1]) {
			continue
		}
		end := i + 1
		for end < len(list) && !before(&list[end], &list[end-1]) {
			end++
		}
		at, _ := slices.BinarySearchFunc(list[:i], list[i], func(a, x T) int {
			if before(&x, &a) {
				return 1
			}
			return -1
		})
		if moves -= end - at; moves < 0 {
			sortAll(list, before)
			return
		}
		scratch = append(scratch[:0], list[i:end]...)
		mergeRun(list[at:end], scratch, before)
		i = end - 1
	}
}

// mergeRun merges a run into a list that has room for it at its end.
func mergeRun[T any](list, run []T, before func(a, b *T) bool) {
	i, k := len(list)-len(run)-1, len(run)-1
	for at := len(list) - 1; k >= 0; at-- {
		if i >= 0 && before(&run[k], &list[i]) {
			list[at] = list[i]
			i--
		} else {
			list[at] = run[k]
			k--
		}
	}
}

func sortAll[T any](list []T, before func(a, b *T) bool) {
	slices.SortStableFunc(list, func(a, b T) int {
		switch {
		case before(&a, &b):
			return -1
		case before(&b, &a):
			return 1
		}
		return 0
	})
}
