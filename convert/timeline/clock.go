package timeline

import (
	"cmp"
	"math"
	"slices"
)

// A Clock converts the times of a log to those of the timeline. The zero Clock changes nothing.
type Clock struct {
	shift uint64
	lines []ClockLine

	bounds []ClockBound // sorted; none where the error is not known
}

// A ClockBound says by how much converted times are wrong at most at a time, against those of the host whose clock the
// timeline has.
type ClockBound struct {
	At    uint64 // of the timeline
	Error uint64 // ns
}

// Bound says by how many ns converted times are wrong at most; a clock of which that is not known has no bound. Between
// two times the error lies on the line between them.
func (c *Clock) Bound(bounds ...ClockBound) { c.bounds = bounds }

// error is by how much times about a time of the timeline are wrong at most.
func (c *Clock) error(at uint64) uint64 {
	i, _ := slices.BinarySearchFunc(c.bounds, at, func(b ClockBound, at uint64) int { return cmp.Compare(b.At, at) })
	switch {
	case i == 0:
		return c.bounds[0].Error
	case i == len(c.bounds):
		return c.bounds[i-1].Error
	}
	a, b := c.bounds[i-1], c.bounds[i]
	part := float64(at-a.At) / float64(b.At-a.At)
	return max(min(a.Error, b.Error), uint64(math.Ceil(float64(a.Error)*(1-part)+float64(b.Error)*part)))
}

// Apart says by how much times of two clocks about a time of the timeline may be wrong against each other, at most.
// Those of one clock are not.
func (c *Clock) Apart(o *Clock, at uint64) (ns uint64, known bool) {
	switch {
	case c == o:
		return 0, true
	case c == nil || o == nil || len(c.bounds) == 0 || len(o.bounds) == 0:
		return 0, false
	}
	a, b := c.error(at), o.error(at)
	if a > Never-b {
		return 0, false
	}
	return a + b, true
}

// A ClockLine is how a clock runs from a time on, until the next line begins.
type ClockLine struct {
	From uint64  // ns of the log's clock
	To   uint64  // the timeline's time then
	Rate float64 // ns by which the timeline's clock gets ahead in a ns of the log's clock: a few millionths
}

// Shifted is the clock that adds a number of ns. The sum wraps, so that a move back is possible.
func Shifted(by uint64) *Clock { return &Clock{shift: by} }

// Lines is the clock that runs along lines, which are sorted. The first one also leads back in time.
func Lines(lines ...ClockLine) *Clock { return &Clock{lines: lines} }

// Same reports whether the clock is the timeline's.
func (c *Clock) Same() bool { return c.shift == 0 && len(c.lines) == 0 }

// At converts a time. Of two times the later one never comes earlier.
func (c *Clock) At(t uint64) uint64 {
	if len(c.lines) == 0 {
		return t + c.shift
	}
	i := len(c.lines) - 1
	for i > 0 && t < c.lines[i].From {
		i--
	}
	at := c.lines[i].at(t)
	if i > 0 { // the line before may end above
		if end := c.At(c.lines[i].From - 1); int64(at-end) < 0 {
			return end
		}
	}
	return at
}

func (l *ClockLine) at(t uint64) uint64 {
	by := int64(t - l.From)
	return l.To + uint64(by) + uint64(int64(math.Round(l.Rate*float64(by))))
}

// Dur converts a duration that begins at a time.
func (c *Clock) Dur(start, dur uint64) uint64 {
	if len(c.lines) == 0 || dur > Never-start {
		return dur
	}
	return c.At(start+dur) - c.At(start)
}

func (c *Clock) span(s *Span) { s.Start, s.End = c.At(s.Start), c.At(s.End) }
