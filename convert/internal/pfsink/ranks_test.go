package pfsink

import (
	"io"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
)

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
