package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// NewShort returns a sink for programs that take less time than real ones.
func NewShort() *Sink {
	s := New()
	s.findings.Least = 0
	return s
}

// Views returns the tables of reports whose rows are of sections: of the start-up, the steady state, and both.
func (s *Sink) Views() map[string][3]*table.Table {
	all, v := make(map[string][3]*table.Table), s.view()
	for _, r := range Reports {
		if r.in != nil {
			all[r.Name] = [...]*table.Table{r.in(v.starting), r.in(v.steady), r.in(v.whole)}
		}
	}
	return all
}

// StartsUp returns the moment from which on the stages of a process are of its steady state.
func (s *Sink) StartsUp(of *timeline.Process) uint64 { return s.threads.process(of).stages.Steady() }

// Unsettled is the number of processes with sections of their own.
func (s *Sink) Unsettled() (n int) {
	for _, p := range s.threads.processes {
		if len(p.parts) > 0 {
			n++
		}
	}
	return n
}

// KeptGaps are the lengths of the gaps that are kept of some, the longest one first.
func KeptGaps(lengths []uint64) (kept []uint64) {
	var l gapList
	lane := &activity.Lane{Stream: new(timeline.Stream)}
	for i, ns := range lengths {
		at := uint64(i) << 32
		l.add(&activity.Gap{From: at, To: at + ns, Ready: at + ns, Next: new(activity.Piece), Lane: lane, Last: new(activity.Piece)})
	}
	l.sort()
	for i := range l.list[:min(len(l.list), mostGaps)] {
		kept = append(kept, l.list[i].length)
	}
	return kept
}
