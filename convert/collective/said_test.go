package collective

import (
	"math/rand/v2"
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
			for range 10 {
				s.Say(c.said[i])
			}
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
	later := NewStream(streams[1].Key, streams[1].Process, 1, 64)
	for _, p := range streams[1].parts[1:] {
		p.name = 6
		later.add(p)
	}
	later.Finish()
	for _, s := range []*Stream{streams[0], streams[1], later} {
		s.Say(7)
	}
	if got := membersOf(Match([]*Stream{streams[0], later})); got != "" {
		t.Errorf("%s match", got)
	}
	if got := membersOf(Match(streams)); got != "[0 1]" {
		t.Errorf("%s match", got)
	}
}

func TestSaid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says []uint64
		want uint64
	}{
		{nil, 0},
		{[]uint64{0, 0}, 0},
		{[]uint64{7}, 7},
		{[]uint64{7, 0, 7, 0}, 7},
		{[]uint64{7, 0, 0}, 0},
		{[]uint64{7, 7, 7, 8}, 0},
		{[]uint64{0, 8, 7, 8}, 0},
	} {
		var s Stream
		for _, x := range c.says {
			s.Say(x)
		}
		if got := s.said.known(); got != c.want {
			t.Errorf("%d of %v, want %d", got, c.says, c.want)
		}
	}
}
