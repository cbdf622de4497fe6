package collective

import (
	"cmp"
	"slices"
)

// theilSen fits a line to values, of which many may be off: the median of slopes over half of the time, and of what
// is left.
func theilSen(at, values []float64) (offset, rate float64) {
	half := len(at) / 2
	var slopes, rest []float64
	for i := range half {
		if d := at[i+half] - at[i]; d > 0 {
			slopes = append(slopes, (values[i+half]-values[i])/d)
		}
	}
	if len(slopes) > 0 {
		rate = median(slopes)
	}
	for i, v := range values {
		rest = append(rest, v-rate*at[i])
	}
	return median(rest), rate
}

// median is the median of some numbers, which it sorts.
func median(list []float64) float64 {
	slices.SortFunc(list, cmp.Compare[float64])
	return list[len(list)/2]
}
