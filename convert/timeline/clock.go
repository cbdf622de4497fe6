package timeline

import "math"

// A Clock converts the times of a log to those of the timeline. The zero Clock changes nothing.
type Clock struct {
	shift uint64
	lines []ClockLine

	bounded bool   // error is known
	error   uint64 // ns by which converted times are wrong at most, against the host whose clock the timeline has
}

// Bound says by how many ns converted times are wrong at most, against those of the host whose clock the timeline has; a clock of which
// that is not known has no bound.
func (c *Clock) Bound(ns uint64, known bool) { c.error, c.bounded = ns, known }

// Apart says by how much times of two clocks may be wrong against each other, at most. Those of one clock are not.
func (c *Clock) Apart(o *Clock) (ns uint64, known bool) {
	switch {
	case c == o:
		return 0, true
	case c == nil || o == nil || !c.bounded || !o.bounded || c.error > Never-o.error:
		return 0, false
	}
	return c.error + o.error, true
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
