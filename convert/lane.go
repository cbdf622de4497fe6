package convert

import (
	"cmp"
	"slices"
)

// maxLanes bounds the tracks that spans which overlap are spread over. Spans for
// which no track is left are cut off at the end of the one around them.
const maxLanes = 256

// A lane is a track that is given spans in the order of their starts.
type lane struct {
	out  *Track
	open []*Span // outermost first
	last uint64  // start of the latest span
}

// fits says whether a span lies beside or within what is open, and ends what
// has ended by its start.
func (l *lane) fits(c *converter, sp *Span) bool {
	if sp.Start < l.last {
		return false
	}
	l.endUntil(c, sp.Start)
	if len(l.open) == 0 {
		return true
	}
	top := l.open[len(l.open)-1]
	return top.open || !sp.open && sp.End <= top.End
}

// endUntil ends the spans that end by a time.
func (l *lane) endUntil(c *converter, at uint64) {
	for n := len(l.open); n > 0 && !l.open[n-1].open && l.open[n-1].End <= at; n-- {
		sp := l.open[n-1]
		if c.showsSpan(sp) {
			c.sink.Track(l.out)
			c.sink.End(sp.End)
		}
		c.endSpan(sp)
		l.open = l.open[:n-1]
	}
}

// endAll ends all spans.
func (l *lane) endAll(c *converter) { l.endUntil(c, never) }

func (l *lane) add(c *converter, sp *Span) {
	l.last = sp.Start
	shown := c.showsSpan(sp)
	if shown {
		c.sink.Track(l.out)
	}
	if sp.Instant {
		if shown {
			c.sink.Instant(sp)
		}
		c.endSpan(sp)
		return
	}
	if shown {
		c.sink.BeginSpan(sp)
	}
	l.open = append(l.open, sp)
}

// cut adds a span that does not fit, as far as it does.
func (l *lane) cut(c *converter, sp *Span) {
	sp.Start = max(sp.Start, l.last)
	l.endUntil(c, sp.Start)
	sp.Args = append(slices.Clip(sp.Args), Detail{Name: "true_duration_ns", Value: sp.End - min(sp.Start, sp.End)})
	sp.End = max(sp.End, sp.Start)
	if n := len(l.open); n > 0 && !l.open[n-1].open {
		sp.End = min(sp.End, l.open[n-1].End)
	}
	l.add(c, sp)
}

// compareSpans is the order in which spans nest: by start, what lasts longer first.
func compareSpans(a, b *Span) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
}

// A spread lays spans onto as many tracks of one name as their overlaps need, each onto
// the first on which it fits.
type spread struct {
	track   Track
	lanes   []*lane
	pending []*Span // not laid yet
	sorted  int
}

func newSpread(p *Process, name, category string) *spread {
	return &spread{track: Track{Process: p, Name: name, Category: category}}
}

func (s *spread) add(sp *Span) { s.pending = append(s.pending, sp) }

// advance lays the spans that begin before low, a time that none to come begins before.
func (s *spread) advance(c *converter, low uint64) {
	insertSorted(s.pending, s.sorted, func(a, b **Span) bool { return compareSpans(*a, *b) < 0 })
	n := 0
	for n < len(s.pending) && (s.pending[n].Start < low || c.eof) {
		s.lay(c, s.pending[n])
		n++
	}
	kept := copy(s.pending, s.pending[n:])
	clear(s.pending[kept:])
	s.pending, s.sorted = s.pending[:kept], kept
	if c.eof {
		for _, l := range s.lanes {
			l.endAll(c)
		}
	}
}

func (s *spread) lay(c *converter, sp *Span) {
	for _, l := range s.lanes {
		if l.fits(c, sp) {
			l.add(c, sp)
			return
		}
	}
	if len(s.lanes) == maxLanes {
		s.lanes[maxLanes-1].cut(c, sp)
		return
	}
	track := s.track
	l := &lane{out: &track}
	s.lanes = append(s.lanes, l)
	l.add(c, sp)
}

// endSpan takes a span back, unless the sink has it still.
func (c *converter) endSpan(sp *Span) {
	if sp.kept {
		return
	}
	*sp = Span{}
	c.spans.put(sp)
}
