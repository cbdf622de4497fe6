package pfsink

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// The busiest second is that of all GPUs together. It lies within the trace, which may be shorter.
func TestBusiest(t *testing.T) {
	t.Parallel()
	const s = 1_000_000_000
	one := []activity.Sample{{Time: 0, Value: 10}, {Time: 2 * s, Value: 60}, {Time: 3 * s, Value: 0}, {Time: 5 * s, Value: 70}, {Time: 6 * s, Value: 0}}
	other := []activity.Sample{{Time: 0, Value: 0}, {Time: 2 * s, Value: 50}, {Time: 3 * s, Value: 0}}
	for name, c := range map[string]struct {
		gpus              [][]activity.Sample
		first, last, want uint64
	}{
		"one GPU":          {[][]activity.Sample{one}, 0, 10 * s, 5 * s},
		"two GPUs":         {[][]activity.Sample{one, other}, 0, 10 * s, 2 * s},
		"at the end":       {[][]activity.Sample{{{Time: 0, Value: 1}, {Time: 9*s + s/2, Value: 2}}}, 0, 10 * s, 9 * s},
		"a short trace":    {[][]activity.Sample{{{Time: 5, Value: 1}}}, 5, 10, 5},
		"no work on a GPU": {nil, 5, 10 * s, 5},
	} {
		from, to := busiest(c.gpus, c.first, c.last)
		if from != c.want || to != min(c.want+s, c.last) {
			t.Errorf("%s: from %d to %d, want from %d", name, from, to, c.want)
		}
	}
}

// The process that is shown is that of the first rank, then the one with most time, then the first.
func TestBefore(t *testing.T) {
	t.Parallel()
	of := func(pid, rank uint32, known bool) *timeline.Process {
		p := &timeline.Process{PID: pid}
		p.Rank = ranks.Rank{Number: rank, Known: known}
		return p
	}
	order := []struct {
		*timeline.Process
		time uint64
	}{{of(9, 0, true), 1}, {of(8, 1, true), 5}, {of(3, 2, true), 9}, {of(7, 0, false), 90}, {of(1, 0, false), 80}, {of(2, 0, false), 80}}
	for i, a := range order {
		for k, b := range order {
			if got := before(a.Process, b.Process, a.time, b.time); got != (i < k) {
				t.Errorf("%d before %d: %t", a.PID, b.PID, got)
			}
		}
	}
}
