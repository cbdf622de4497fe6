package collective

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// NCCL's own words decide, whatever the times of the kernels look like.
func TestMatchBySaid(t *testing.T) {
	t.Parallel()
	const late = 500e3
	for _, c := range []struct {
		name string
		job  job
		said []uint64 // by each rank; 0 for nothing
		want string
	}{
		{"ranks that enter together", job{[]int{0, 0}, []int{0, 1}, 200, 100, 0}, []uint64{7, 7}, "[0 1]"},
		{"few collectives", job{[]int{0, 0}, []int{0, 1}, 3, late, 0}, []uint64{7, 7}, "[0 1]"},
		{"groups that do the same", job{[]int{0, 0, 0, 0}, []int{0, 0, 0, 0}, 200, late, 0}, []uint64{7, 8, 7, 8}, "[0 2] [1 3]"},
		{"one that says nothing", job{[]int{0, 0, 0}, []int{0, 0, 1}, 100, late, 0}, []uint64{7, 0, 7}, "[0 1 2]"},
		{"one of another communicator", job{[]int{0, 0, 0}, []int{0, 0, 1}, 100, late, 0}, []uint64{7, 9, 7}, "[0 2]"},
	} {
		streams := c.job.streams(rand.New(rand.NewPCG(1, 2)))
		for i, s := range streams {
			s.Communicator = c.said[i]
		}
		if got := membersOf(Match(streams)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Streams of one communicator whose kernels are not the same are of no use: the parts of a collective are not known.
func TestSaidNeedsTheSameOrder(t *testing.T) {
	t.Parallel()
	streams := (&job{[]int{0, 0}, []int{0, 1}, 60, 500e3, 0}).streams(rand.New(rand.NewPCG(3, 3)))
	later := newSequence(streams[1].Key, streams[1].Process, 1, 64)
	for _, p := range streams[1].parts[1:] {
		p.name = 6
		later.insertPart(p, false)
	}
	later.finish()
	for _, s := range []*Sequence{streams[0], streams[1], later} {
		s.Communicator = 7
	}
	if got := membersOf(Match([]*Sequence{streams[0], later})); got != "" {
		t.Errorf("%s match", got)
	}
	if got := membersOf(Match(streams)); got != "[0 1]" {
		t.Errorf("%s match", got)
	}
}

// A sorter puts kernels into the sequences of their communicators, in whatever order streams come.
func TestSorter(t *testing.T) {
	t.Parallel()
	n := Name{Kind: Waits, hash: 5}
	type kernel struct {
		stream       uint32
		communicator uint64
		start        uint64
	}
	repeat := func(times int, of ...kernel) (list []kernel) {
		for i := range times {
			for _, k := range of {
				k.start += 10 * uint64(i)
				list = append(list, k)
			}
		}
		return list
	}
	for name, c := range map[string]struct {
		kernels []kernel
		limit   int
		want    string // sequences: communicator, or stream, with numbers of parts
		more    bool
	}{
		"a stream for each communicator": {repeat(40, kernel{1, 7, 100}, kernel{2, 8, 105}), 4, "0x7 40, 0x8 40", false},
		"one stream for both":            {repeat(40, kernel{1, 7, 100}, kernel{1, 8, 105}), 4, "0x7 40, 0x8 40", false},
		"one communicator on two":        {slices.Concat(repeat(1500, kernel{1, 7, 100}), repeat(1500, kernel{2, 7, 105})), 4, "0x7 3000", false},
		"both":                           {repeat(40, kernel{1, 7, 100}, kernel{2, 7, 103}, kernel{2, 8, 106}), 4, "0x7 80, 0x8 40", false},
		"nothing is told":                {repeat(40, kernel{1, 0, 100}, kernel{2, 0, 105}), 4, "stream 1 40, stream 2 40", false},
		"of some kernels of a stream":    {append(repeat(30, kernel{1, 0, 100}), repeat(30, kernel{1, 7, 1000})...), 4, "0x7 60", false},
		"of few kernels of a stream":     {append(repeat(31, kernel{1, 0, 100}), repeat(30, kernel{1, 7, 1000})...), 4, "stream 1 61", false},
		"of some of a shared one":        {append(repeat(30, kernel{1, 0, 100}, kernel{2, 0, 105}), repeat(30, kernel{1, 7, 1000}, kernel{1, 8, 1003}, kernel{1, 0, 1006})...), 4, "stream 1 60, stream 2 30, 0x7 30, 0x8 30", false},
		"too many streams":               {repeat(40, kernel{1, 7, 100}, kernel{2, 8, 105}, kernel{3, 0, 107}), 2, "0x7 40, 0x8 40", true},
		"too many communicators":         {repeat(40, kernel{1, 7, 100}, kernel{1, 8, 105}, kernel{1, 9, 107}), 2, "0x7 40, 0x8 40", true},
	} {
		s := NewSorter(3, "p", 1<<14, c.limit)
		for i, k := range c.kernels {
			s.Add(n, Place{1, k.stream}, k.communicator, k.start, k.start+2, uint32(i%2))
		}
		var got []string
		for _, x := range s.Finish() {
			text := fmt.Sprintf("%#x %d", x.Communicator, x.Count())
			if x.Communicator == 0 {
				text = fmt.Sprintf("stream %d %d", x.Place.Stream, x.Count())
			}
			if sum := x.Sums[0].Count + x.Sums[1].Count; sum != x.Count() || x.Sums[0].Time != 2*x.Sums[0].Count || !x.Ordered() || x.PID != 3 || x.First.Context != 1 {
				text += fmt.Sprintf(": %+v, sums %v, ordered %t", x.Key, x.Sums, x.Ordered())
			}
			got = append(got, text)
		}
		if text := strings.Join(got, ", "); text != c.want || s.More != c.more {
			t.Errorf("%s: %s, more %t; want %s, %t", name, text, s.More, c.want, c.more)
		}
		counts := make(map[*Sequence]int)
		for _, k := range c.kernels {
			counts[s.Of(Place{1, k.stream}, k.communicator)]++
		}
		for x, count := range counts {
			if x == nil && !c.more || x != nil && uint64(count) != x.Count() {
				t.Errorf("%s: %d kernels are said to be of one sequence", name, count)
			}
		}
	}
}
