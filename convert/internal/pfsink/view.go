package pfsink

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/steppaths"
	"github.com/cudatrace/cudatrace/convert/internal/steps"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Limits of the first view.
const (
	viewed       = 1e9 // ns that are shown where there are no steps
	pinnedQueues = 2   // streams of the process that is shown
	pinnedRanks  = 16  // ranks whose collectives are pinned: more fill the screen
)

// A shown is the step at which a viewer begins, with its process.
type shown struct {
	of   *timeline.Process
	kind *steps.Kind
	step *steps.Step // nil without steps
}

// writeView writes what a viewer shows at first: the median step of the first rank, with as much time on each side, or
// the busiest second; and the tracks that tell the story, on top of all others.
func (s *Sink) writeView() {
	if s.marks.last == 0 {
		return // there is no activity
	}
	v := perfetto.View{Start: s.tracks.start}
	main := s.main()
	if x := main.step; x != nil {
		v.From, v.To = around(x)
		v.Notes = []perfetto.Note{{At: x.Start, Text: fmt.Sprintf("median step\n%s: the median of %s, %s",
			stepName(main.kind, x), figures.Count(len(main.kind.Parts), "step", "steps"),
			figures.Duration(x.Length()))}}
	} else {
		v.From, v.To = busiest(s.busy, s.marks.first, s.marks.last)
	}
	if main.of != nil {
		v.Pins = s.pins(main.of)
	}
	s.w.View(v)
}

// around returns the time of a step, with as much on each side.
func around(x *steps.Step) (from, to uint64) {
	return x.Start - min(x.Start, x.Length()), timeline.End(x.End, x.Length())
}

// main returns the median step of the process that is shown: of the first rank, or of the one with most time in steps;
// without steps, the process whose streams were busiest.
func (s *Sink) main() (main shown) {
	for _, p := range s.drawn {
		if main.of == nil || before(p.Process, main.of, p.Time(), main.kind.Time()) {
			main = shown{p.Process, p.Kind, p.Median}
		}
	}
	if main.of == nil {
		times := make(map[*timeline.Process]uint64)
		for of, q := range s.tracks.queues {
			times[of.Context.Process] += q.busy
		}
		for of, t := range times {
			if main.of == nil || before(of, main.of, t, times[main.of]) {
				main.of = of
			}
		}
	}
	return main
}

// before reports whether a process is to be shown rather than another one: by rank, by time, by PID.
func before(a, b *timeline.Process, timeA, timeB uint64) bool {
	return cmp.Or(a.Rank.Compare(b.Rank), cmp.Compare(timeB, timeA), cmp.Compare(a.PID, b.PID)) < 0
}

// busiest returns the second of a trace in which GPUs were busy most, by the counters of their busy share.
func busiest(gpus [][]activity.Sample, first, last uint64) (from, to uint64) {
	from, most := first, -1.0
	for _, list := range gpus {
		for _, x := range list {
			at := min(x.Time, last-min(last-first, viewed))
			end, sum := at+viewed, 0.0
			for _, other := range gpus {
				for i, y := range other {
					until := last
					if i+1 < len(other) {
						until = other[i+1].Time
					}
					if a, b := max(y.Time, at), min(until, end); a < b {
						sum += y.Value * float64(b-a)
					}
				}
			}
			if sum > most {
				from, most = at, sum
			}
		}
	}
	return from, min(from+viewed, last)
}

// pins are the tracks that tell the story of a process, the first on top: its steps, the critical path, the collectives
// of each rank, the busiest streams, the main thread and its Python functions. The UI gives pins at most two fifths of
// the page, so that the rows of one line come before those of many.
func (s *Sink) pins(of *timeline.Process) (pins []string) {
	name := func(name string) {
		// a program that another one replaced has the same names
		if p := "^" + regexp.QuoteMeta(name) + "$"; !slices.Contains(pins, p) {
			pins = append(pins, p)
		}
	}
	if slices.ContainsFunc(s.drawn, func(p *steppaths.Path) bool { return p.Process == of }) {
		name(s.tracks.own(of) + stepTrack)
		name(s.tracks.own(of) + steppaths.Track)
	}
	ranked := slices.Clone(s.together.order)
	slices.SortStableFunc(ranked, func(a, b *timeline.Stream) int {
		return a.Context.Process.Rank.Compare(b.Context.Process.Rank)
	})
	for _, stream := range ranked[:min(len(ranked), pinnedRanks)] {
		name(s.together.trackName(stream))
	}
	var queues []*queue
	for _, q := range s.tracks.queues {
		if q.stream.Context.Process == of {
			queues = append(queues, q)
		}
	}
	slices.SortFunc(queues, func(a, b *queue) int {
		return cmp.Or(cmp.Compare(b.busy, a.busy), cmp.Compare(a.nth, b.nth))
	})
	for _, q := range queues[:min(len(queues), pinnedQueues)] {
		name(q.name)
	}
	row := func(of *timeline.Thread, title string) { name(fmt.Sprintf("%s (%d)", title, of.TID)) }
	for t := range s.tracks.threads {
		if t.Main && t.Process == of {
			row(t, s.tracks.mainRow(t))
		}
	}
	for t := range s.tracks.spans {
		if t.Category == timeline.PythonFunctions && t.Thread != nil && t.Thread.Main && t.Process == of {
			row(t.Thread, s.tracks.ofRank(of)+t.Title())
		}
	}
	return pins
}
