package convert

import "github.com/cudatrace/cudatrace/convert/timeline"

// A clippedSink passes on what lies in the filter's time: what crosses a limit is cut there.
type clippedSink struct {
	*partsSink
	window func() partWindow // known from the first event on
	to     timeline.Sink
}

// clipped returns a sink that passes on what lies in the filter's time, if that is wanted of the one log.
func (c *conversion) clipped(sink timeline.Sink) timeline.Sink {
	l := c.logs[0]
	if !c.Clip || sink == nil || l.filter == nil || l.filter.From == 0 && l.filter.To == 0 {
		return sink
	}
	return &clippedSink{to: sink, window: func() partWindow {
		w := always
		if l.filter.From != 0 {
			w.From = l.clock.At(l.filter.From)
		}
		if l.filter.To != 0 {
			w.To = l.clock.At(l.filter.To)
		}
		return w
	}}
}

// Take passes on what lies in the window.
func (s *clippedSink) Take(events []timeline.Event) error {
	if s.partsSink == nil {
		s.partsSink = newPartsSink([]partWindow{s.window()}, func(int) (timeline.Sink, error) { return s.to, nil })
	}
	return s.partsSink.Take(events)
}

// End ends the timeline, which may have nothing in the window.
func (s *clippedSink) End(err error) error {
	if s.partsSink == nil {
		return s.to.End(err)
	}
	if err == nil {
		err = s.begin(s.parts[0])
	}
	return s.partsSink.End(err)
}
