package convert

import "github.com/cudatrace/cudatrace/convert/timeline"

// A track has the open spans of a track that begin before the window's end, outermost first.
type track struct {
	of    *timeline.Track
	open  []timeline.Span
	shown int // of these, those that were passed on; the others may end before the window
}

func (p *clippedSink) track(t *timeline.Track) *track {
	k := p.tracks[t]
	if k == nil {
		k = &track{of: t}
		p.tracks[t] = k
		p.trackList = append(p.trackList, k)
	}
	return k
}

// begin begins a span.
func (k *track) begin(p *clippedSink, e *timeline.SpanBegin) {
	if e.Start < p.From || p.begins(e.Start) {
		k.open = append(k.open, e.Span)
	}
	if p.begins(e.Start) {
		k.show(p)
	}
}

// show passes on the open spans: something in the window is inside of them.
func (k *track) show(p *clippedSink) {
	for ; k.shown < len(k.open); k.shown++ {
		sp := k.open[k.shown]
		end := sp.End
		if sp.Open {
			end = p.To
		}
		sp.Flags |= p.cut(&sp.Start, &end)
		if !sp.Open {
			sp.End = end
		}
		p.thread(k.of.Thread)
		p.out = append(p.out, &timeline.SpanBegin{Track: k.of, Span: sp})
	}
}

// end ends the innermost span.
func (k *track) end(p *clippedSink, e timeline.SpanEnd) {
	if e.Start >= p.From && !p.begins(e.Start) {
		return
	}
	if e.End > p.From {
		k.show(p)
	}
	last := len(k.open) - 1
	if k.open = k.open[:last]; k.shown > last {
		k.shown = last
		e.Flags |= p.cut(&e.Start, &e.End)
		p.out = append(p.out, &e)
	}
}

// A counter has the value of a counter at the beginning of a window.
type counter struct {
	of    *timeline.Counter
	value uint64
	held  bool // the value was not passed on yet
}

// counter takes a value.
func (p *clippedSink) counter(e *timeline.CounterValue) {
	c := p.counters[e.Counter]
	if c == nil {
		c = &counter{of: e.Counter}
		p.counters[e.Counter] = c
		p.counterList = append(p.counterList, c)
	}
	switch {
	case p.begins(e.Time):
		c.show(p)
		p.out = append(p.out, e)
	case e.Time < p.From:
		c.value, c.held = e.Value, true
	}
}

// show shows the value that the counter had when the window began.
func (c *counter) show(p *clippedSink) {
	if c.held {
		c.held = false
		p.out = append(p.out, &timeline.CounterValue{Counter: c.of, Time: p.From, Value: c.value})
	}
}
