package pfsink

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/steppaths"
	"github.com/cudatrace/cudatrace/convert/internal/steps"
	"github.com/cudatrace/cudatrace/perfetto"
)

// stepTrack is the name of the track of steps.
const stepTrack = "steps"

// writePaths writes the steps of each process and their critical path, on tracks of their own. Arrows lead to a path from
// the work that it names. A call has no arrow: the trace processor takes none for a slice that was written before. Its
// span is beside it, at the same time.
func (s *Sink) writePaths() {
	templates := make(map[*steppaths.Label]*perfetto.TrackEventTemplate)
	s.paths.Each(func(p *steppaths.Path) {
		s.writeSteps(p.Kind)
		if p.Median == nil {
			return
		}
		s.drawn = append(s.drawn, p)
		track := s.tracks.ofSteps(p.Process, steppaths.Track, placePath)
		for i := range p.Spans {
			x := &p.Spans[i]
			t, args := templates[x.Label], []perfetto.Arg(nil)
			if t == nil {
				t = new(perfetto.TrackEventTemplate)
				t.Encode(s.w, x.Name, x.Category, s.details(x.Facts))
				templates[x.Label] = t
			}
			if x.Step != nil {
				args = append(args, perfetto.Uint("step", uint64(x.Step.Number)))
			}
			track.Begin(x.Start, t, perfetto.Links{}, args...)
			var waitedFor []uint64
			if x.Work != 0 {
				waitedFor = append(waitedFor, x.Work)
			}
			track.EndWith(x.End, waitedFor)
		}
		s.shown += uint64(len(p.Spans))
	})
}

// stepName names a step: "train_step 12".
func stepName(k *steps.Kind, x *steps.Step) string { return fmt.Sprintf("%s %d", k.Name, x.Number) }

// writeSteps writes the steps themselves. Of steps that overlap the first one is drawn.
func (s *Sink) writeSteps(k *steps.Kind) {
	track, last := s.tracks.ofSteps(k.Process, stepTrack, placeSteps), uint64(0)
	parts := slices.Clone(k.Parts)
	slices.SortStableFunc(parts, func(a, b steps.Step) int { return cmp.Compare(a.Start, b.Start) })
	for i := range parts {
		x := &parts[i]
		if x.Start < last {
			continue
		}
		last = x.End
		s.once.Encode(s.w, stepName(k, x), "step", nil)
		track.Begin(x.Start, &s.once, perfetto.Links{})
		track.End(x.End)
		s.shown++
	}
}
