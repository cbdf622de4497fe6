package ranks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A cause stands before what it explains, and what repeats on further ranks of a run behind all.
func TestArrange(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(4, clock, clock, clock, clock)
	var list []*timeline.Process
	for _, s := range j.streams {
		list = append(list, s.Context.Process)
		j.Process(s.Context.Process)
	}
	j.Log(&timeline.Metadata{Values: map[string]string{"run": "another"}})
	other := &timeline.Process{Name: "other", Clock: clock}
	other.Rank = list[3].Rank
	j.Process(other)
	alone := &timeline.Process{Name: "alone", Clock: clock}
	gaps := func(p *timeline.Process, gpu uint32, cost uint64) findings.Finding {
		return findings.Finding{Kind: "gaps", Process: p, GPU: &gpu, Cost: cost, Evidence: "e"}
	}
	cut := findings.Finding{Kind: "failing_calls", Process: list[2], Evidence: "e"}
	late := findings.Finding{Kind: "straggling_rank", Process: list[1], Cost: 5, Evidence: "e", Explains: []findings.Explained{{Process: list[1], GPU: 1, Time: 4e6}}}
	for name, c := range map[string]struct {
		own  []findings.Finding
		want string
	}{
		"the gaps cost more": {[]findings.Finding{gaps(list[1], 1, 90), gaps(other, 0, 50), gaps(alone, 0, 40), gaps(list[0], 0, 80), gaps(list[2], 2, 7), cut},
			"failing_calls of p2: e | straggling_rank of p1: e | gaps of p1: e; likewise on ranks 0, 2; other ranks waited for 4.0 ms of it (straggling_rank) | gaps of other: e | gaps of alone: e | gaps of p0: e | gaps of p2: e"},
		"another rank has longer gaps": {[]findings.Finding{gaps(list[1], 1, 80), gaps(list[0], 0, 90)},
			"gaps of p0: e; likewise on rank 1 | straggling_rank of p1: e | gaps of p1: e; other ranks waited for 4.0 ms of it (straggling_rank)"},
		"the gaps of another GPU": {[]findings.Finding{gaps(list[1], 2, 80)}, "gaps of p1: e | straggling_rank of p1: e"},
		"two GPUs of a process":   {[]findings.Finding{gaps(list[0], 2, 80), gaps(list[0], 3, 70)}, "gaps of p0: e | gaps of p0: e | straggling_rank of p1: e"},
	} {
		var got []string
		for _, f := range j.Arrange(c.own, []findings.Finding{late}) {
			got = append(got, fmt.Sprintf("%s of %s: %s", f.Kind, f.Process.Name, f.Evidence))
		}
		if text := strings.Join(got, " | "); text != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, text, c.want)
		}
	}
}

// A rank arrives last because its GPU computed longer or sat idle longer than that of the rank before it. A host is
// measured against the ranks of other hosts.
func TestExplain(t *testing.T) {
	t.Parallel()
	here, there := new(timeline.Clock), timeline.Shifted(0)
	there.Bound(timeline.ClockBound{Error: 0})
	here.Bound(timeline.ClockBound{Error: 0})
	j := newJob(3, here, there, there)
	j.run(reduce, 1e9, 9e8, 9e8, 9e8)
	for i := range uint64(40) {
		at := 1e9 + i*1e7
		j.run(reduce, at+1e7, at+1e6, at+5e6, at+8e6)
	}
	gaps := map[*timeline.Process]critical.Lost{j.streams[0].Context.Process: {From: 0, To: 5e5}, j.streams[1].Context.Process: {From: 0, To: 1e6}, j.streams[2].Context.Process: {From: 2e6, To: 4.5e6}}
	idle := func(p *timeline.Process) []findings.Idle {
		g := findings.Idle{Mostly: "line 5 of " + p.Name}
		for i := range uint64(40) {
			at := 1e9 + i*1e7
			g.Gaps = append(g.Gaps, critical.Lost{From: at + gaps[p].From, To: at + gaps[p].To})
		}
		return []findings.Idle{g}
	}
	m := j.Result().communicators[0]
	for _, c := range []struct {
		who   []int
		hosts bool
		want  uint64 // ns in each collective
	}{{[]int{2}, false, 1.5e6}, {[]int{1, 2}, true, 2e6}, {[]int{0}, false, 0}} {
		f := new(findings.Finding)
		m.explain(f, c.who, c.hosts, idle)
		if c.want == 0 && len(f.Explains) == 0 && f.Evidence == "" {
			continue
		}
		want := findings.Explained{Process: j.streams[2].Context.Process, Time: 40 * c.want}
		if !slices.Equal(f.Explains, []findings.Explained{want}) || !strings.HasSuffix(f.Evidence, "ms because rank 2's GPU was idle: mostly line 5 of p2") {
			t.Errorf("%v: %+v, %q, want %d ns", c.who, f.Explains, f.Evidence, want.Time)
		}
	}
}
