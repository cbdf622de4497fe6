package pfsink

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// An overhead is a span of CUPTI's own time. CUPTI works before the program's first call and after
// its last one, too: such spans are left out, so that they don't widen the trace.
type overhead struct {
	track      *timeline.Track
	name       string
	start, end uint64
	args       []perfetto.Arg
}

// maxOverheads bounds the spans that wait for activity around them. Of more, those are left out that have none by then,
// as at the end: info has the time of all.
const maxOverheads = 1 << 12

// negligible is the share of CUDA's time below which the time that CUPTI took is not shown: 'cudatrace info' has it.
const negligible = 0.01

// overhead keeps a span until it is known whether there is activity around it, and whether CUPTI took enough time to be
// shown.
func (s *Sink) overhead(e *timeline.SpanEnd) {
	o := overhead{track: e.Track, name: e.Name, start: e.Start, end: max(e.Start, e.End)}
	m := &s.marks
	o.args = append(o.args, s.details(e.Facts())...)
	m.overheads = append(m.overheads, o)
	if len(m.overheads) >= maxOverheads {
		s.writeOverheads(true)
	}
}

// covers reports whether a span lies within the bounds of CUDA's activity.
func (m *marks) covers(o *overhead) bool { return o.start >= m.first && o.end <= m.last }

// writeOverheads writes the spans that lie within the bounds, and drops the others; at the end, also those that are
// negligible together. Without activity there are no bounds.
func (s *Sink) writeOverheads(some bool) {
	total := uint64(0)
	for i := range s.marks.overheads {
		if o := &s.marks.overheads[i]; s.marks.covers(o) {
			total += o.end - o.start
		}
	}
	m := &s.marks
	if !some && !m.costly && m.last != 0 && float64(total) < negligible*float64(m.last-m.first) {
		m.overheads = nil
		return
	}
	m.costly = true
	for i := range s.marks.overheads {
		if o := &s.marks.overheads[i]; s.marks.covers(o) || s.marks.last == 0 {
			s.writeOverhead(o)
		}
	}
	s.marks.overheads = s.marks.overheads[:0]
}

func (s *Sink) writeOverhead(o *overhead) {
	s.shown++
	track := s.tracks.span(o.track, o.start)
	s.once.Encode(s.w, o.name, string(timeline.CUPTI), o.args)
	track.Begin(o.start, &s.once, perfetto.Links{})
	track.End(o.end)
}
