package findings

import (
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Of too many gaps the longest are kept.
func TestKeptGaps(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 2, 1 << 20} {
		c := New()
		c.Recording(&timeline.Recording{Processes: processes})
		p := new(timeline.Process)
		g := &gaps{most: c.kept}
		c.process(p).gaps[3] = g
		for i := range uint64(1 << 15) {
			g.keep(critical.Lost{From: i * 100, To: i*100 + 1 + i%4})
		}
		idle := c.Idle(p)[0]
		want := map[int]int{1: mostKept, 2: mostKept, 1 << 20: leastKept}[processes]
		if idle.GPU != 3 || len(idle.Gaps) > want || len(idle.Gaps) < want/2 || !idle.Some || !slices.IsSortedFunc(idle.Gaps, func(a, b critical.Lost) int { return int(a.From) - int(b.From) }) {
			t.Errorf("%d processes: %d gaps are kept of GPU %d, some %t", processes, len(idle.Gaps), idle.GPU, idle.Some)
		}
		if processes == 2 && slices.ContainsFunc(idle.Gaps[:len(idle.Gaps)/2], func(i critical.Lost) bool { return i.To-i.From < 3 }) {
			t.Error("a short gap is kept in the place of a long one")
		}
	}
}

func TestIdleWithin(t *testing.T) {
	t.Parallel()
	g := Idle{Gaps: []critical.Lost{{From: 10, To: 20}, {From: 30, To: 40}, {From: 50, To: 60}}}
	for _, c := range [][3]uint64{{0, 100, 30}, {15, 35, 10}, {20, 30, 0}, {12, 14, 2}, {40, 50, 0}, {60, 90, 0}, {0, 10, 0}, {55, 55, 0}} {
		if got := g.Within(c[0], c[1]); got != c[2] {
			t.Errorf("from %d to %d: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// What threads did for most of the time of gaps has a name: of time that they were blocked, some of which was seen, that of what was seen.
func TestMostly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		did  map[doing]uint64
		want string
	}{
		"nothing":               {nil, ""},
		"most of it":            {map[doing]uint64{{blocked, "read"}: 60, {launches, "cudaLaunchKernel"}: 40}, "read"},
		"not most of it":        {map[doing]uint64{{blocked, "read"}: 50, {launches, "cudaLaunchKernel"}: 30, {allocates, "cudaMalloc"}: 20}, ""},
		"some of it is seen":    {map[doing]uint64{{blocked, "sleep"}: 28, {blockedUnseen, "(blocked)"}: 42, {launches, "cudaLaunchKernel"}: 30}, "sleep"},
		"it is not known":       {map[doing]uint64{{nothingKnown, "(not known)"}: 90, {blocked, "read"}: 10}, ""},
		"no processor was free": {map[doing]uint64{{ready, "(ready)"}: 90, {blocked, "read"}: 10}, "(ready)"},
	} {
		g := &gaps{timed: timed{stages: new(Stages)}, did: record[doing]{stages: new(Stages)}}
		for d, ns := range c.did {
			g.add(1, ns)
			for range 4 { // by chance, but for the last time
				e := g.did.of(d).at(1)
				e.add(1, ns/4)
				e.weigh(float64(ns))
			}
		}
		if got := g.mostly(0); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// That a rank computes longer, and comes late, is an effect of the kernel that it alone runs: one finding, wherever the
// kernel stands among them.
func TestFoldedIntoOddKernel(t *testing.T) {
	t.Parallel()
	p := new(timeline.Process)
	odd, longer, late := Finding{Kind: oddKernel, Process: p, Cost: 75}, Finding{Kind: imbalance, Process: p, Cost: 75}, Finding{Kind: lateRank, Process: p, Cost: 76}
	for _, list := range [][]Finding{{odd, longer, late}, {late, longer, odd}, {longer, late, odd}} {
		if got := Folded(list); len(got) != 1 || got[0].Kind != oddKernel || len(got[0].Effects) != 2 {
			t.Errorf("%v", got)
		}
	}
	odd.Cost = 30 // the rest has another cause
	if got := Folded([]Finding{late, odd}); len(got) != 2 {
		t.Errorf("a kernel that makes less than half of it: %v", got)
	}
}
