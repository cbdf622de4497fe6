package convert

import "slices"

// insertSorted keeps a list in order, of which what begins at from was appended. That
// consists of a few runs that are in order: all of it mostly, or what a thread did on one
// processor before and after what it did on another.
func insertSorted[T any](list []T, from int, compare func(a, b T) int) {
	var scratch []T
	moves := 16 * (len(list) - from)
	for i := max(from, 1); i < len(list); i++ {
		if compare(list[i-1], list[i]) <= 0 {
			continue
		}
		end := i + 1
		for end < len(list) && compare(list[end-1], list[end]) <= 0 {
			end++
		}
		at, _ := slices.BinarySearchFunc(list[:i], list[i], func(a, x T) int {
			if compare(a, x) <= 0 {
				return -1
			}
			return 1
		})
		if moves -= end - at; moves < 0 {
			slices.SortStableFunc(list, compare)
			return
		}
		scratch = append(scratch[:0], list[i:end]...)
		mergeRun(list[at:end], scratch, compare)
		i = end - 1
	}
}

// mergeRun merges a list, at the end of which there is room for a run, with that run.
func mergeRun[T any](list, run []T, compare func(a, b T) int) {
	i, k := len(list)-len(run)-1, len(run)-1
	for at := len(list) - 1; k >= 0; at-- {
		if i >= 0 && compare(list[i], run[k]) > 0 {
			list[at] = list[i]
			i--
		} else {
			list[at] = run[k]
			k--
		}
	}
}
