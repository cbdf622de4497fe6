package sketch

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// An Ordered is a distribution of numbers that come in an order, such as the times of launches one after the other. It
// keeps mostKept of them, in their order, and so knows how sure their median is. The zero Ordered has none.
type Ordered struct {
	Distribution
	kept  []uint64 // one of each window of numbers; the last window may go on
	every uint64   // numbers of a window; a power of two, 0 before the first number
}

// Limits of an interval.
const (
	mostKept  = 256
	leastKept = 8
	resamples = 200
	outside   = 0.025 // part of the resamples below the interval, and above it
)

// Add adds a number.
func (o *Ordered) Add(v uint64) {
	if o.every == 0 {
		o.every = 1
	}
	place := o.Count % o.every
	if place == 0 && len(o.kept) == mostKept {
		o.halve()
		place = o.Count % o.every
	}
	if place == 0 {
		o.kept = append(o.kept, v)
	} else if place == drawn(uint64(len(o.kept)), o.every) {
		o.kept[len(o.kept)-1] = v
	}
	o.Distribution.Add(v)
}

// halve makes windows twice as long, and keeps one of the two numbers of each. It draws which: programs repeat
// themselves, and every second number may be of one kind.
func (o *Ordered) halve() {
	o.every *= 2
	n := len(o.kept)
	for i := range n / 2 {
		o.kept[i] = o.kept[2*i+int(drawn(uint64(i), 2*o.every)&1)]
	}
	if n%2 > 0 {
		o.kept[n/2] = o.kept[n-1]
	}
	o.kept = o.kept[:(n+1)/2]
}

// drawn returns a number below a power of two that depends on a window and the power alone.
func drawn(window, below uint64) uint64 {
	x := (window + below<<32) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return (x ^ x>>32) % below
}

// Merge adds the numbers of another distribution, which come behind these.
func (o *Ordered) Merge(later *Ordered) {
	if later.Count == 0 {
		return
	}
	more := Ordered{kept: slices.Clone(later.kept), every: later.every}
	if o.Count == 0 {
		o.kept, o.every = more.kept, more.every
	} else {
		for o.every < more.every {
			o.halve()
		}
		for more.every < o.every {
			more.halve()
		}
		windows := (o.Count + later.Count + o.every - 1) / o.every
		if uint64(len(o.kept)+len(more.kept)) > windows { // the last window of o had room
			o.kept = o.kept[:len(o.kept)-1]
		}
		o.kept = append(o.kept, more.kept...)
		for len(o.kept) > mostKept {
			o.halve()
		}
	}
	o.Distribution.Merge(&later.Distribution)
}

// MedianInterval returns the interval that has the median of such numbers in 95 of 100 runs, as far as one run tells:
// the 2.5th and the 97.5th percentile of the medians of resamples of the numbers, made of blocks of neighbours, since
// neighbours depend on each other. The median lies in it. known is false of fewer than 8 numbers.
func (o *Ordered) MedianInterval() (low, high uint64, known bool) {
	n := len(o.kept)
	if n < leastKept {
		return 0, 0, false
	}
	order := make([]int, n) // places by their numbers
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(o.kept[a], o.kept[b]) })
	rank := make([]int, n)
	for r, i := range order {
		rank[i] = r
	}
	block := int(math.Round(math.Sqrt(float64(n))))
	r := rand.New(rand.NewPCG(1, 2))
	counts, medians := make([]int, n), make([]int, resamples)
	for s := range medians {
		clear(counts)
		for left := n; left > 0; left -= block {
			from := r.IntN(n)
			for i := range min(block, left) {
				counts[rank[(from+i)%n]]++
			}
		}
		seen := 0
		for at, c := range counts {
			if seen += c; 2*seen >= n {
				medians[s] = at
				break
			}
		}
	}
	slices.Sort(medians)
	out := int(outside * resamples)
	low, high = o.kept[order[medians[out]]], o.kept[order[medians[resamples-1-out]]]
	median := o.Percentile(50)
	return min(low, median), max(high, median), true
}
