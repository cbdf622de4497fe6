package pfsink

import (
	"io"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
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

// rankWork is work of a rank on two GPUs.
func rankWork(n uint32) (events []timeline.Event) {
	p := &timeline.Process{PID: 100 + n}
	p.Rank.Known, p.Rank.Number = true, n
	for gpu := range uint32(2) {
		s := &timeline.Stream{Context: &timeline.Context{Process: p, ID: 1, GPU: gpu}, ID: 7}
		events = append(events, &timeline.WorkList{Stream: s, List: []timeline.Work{{ID: uint64(2*n + gpu + 1), Start: 100, Dur: 10, Shape: new(timeline.Shape)}}})
	}
	return events
}

// A timeline of one rank has no rows, on however many GPUs it runs; those of several ranks are in the order of the ranks. A process
// without a rank has no row.
func TestRankRows(t *testing.T) {
	t.Parallel()
	s := New(io.Discard, Options{})
	take := func(events ...timeline.Event) {
		must.Do(t, s.Take(events))
	}
	take(&timeline.Recording{Processes: 3})
	none := &timeline.Stream{Context: &timeline.Context{Process: new(timeline.Process)}}
	take(&timeline.WorkList{Stream: none, List: []timeline.Work{{ID: 100, Start: 100, Dur: 10, Shape: new(timeline.Shape)}}})
	take(rankWork(3)...)
	if rows := s.rankRows(); len(rows) != 0 {
		t.Errorf("%d rows of one rank", len(rows))
	}
	take(rankWork(1)...)
	rows := s.rankRows()
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	for i, want := range []string{"rank 1, GPU 0", "rank 1, GPU 1", "rank 3, GPU 0", "rank 3, GPU 1"} {
		if got := rowName(rows, i); got != want || len(rows[i].Slices()) != 1 {
			t.Errorf("row %d is %s with %d slices, want %s", i, got, len(rows[i].Slices()), want)
		}
	}
}
