package convert

import "github.com/cudatrace/cudatrace/convert/timeline"

// A track has the open spans of a track, outermost first.
type track struct {
	of   *timeline.Track
	open []span
}

type span struct {
	timeline.Span
	state spanState
}

// A spanState says what has been passed on of a span.
type spanState int

const (
	before spanState = iota // it began before the window, and may end there, too
	shown                   // it was passed on
	after                   // it begins after the window
)

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
	switch {
	case p.begins(e.Start):
		k.show(p)
		k.open = append(k.open, span{e.Span, shown})
		k.emit(p, e.Span, 0)
	case e.Start < p.From:
		k.open = append(k.open, span{e.Span, before})
	default:
		k.open = append(k.open, span{e.Span, after})
	}
}

// show shows the open spans that began before the window: something in the window is inside of them.
func (k *track) show(p *clippedSink) {
	for i := range k.open {
		if sp := &k.open[i]; sp.state == before {
			sp.state = shown
			cut := sp.Span
			cut.Start = p.From
			k.emit(p, cut, timeline.CutBefore)
		}
	}
}

// emit hands a span on, and says how it is cut.
func (k *track) emit(p *clippedSink, sp timeline.Span, flags uint16) {
	if !sp.Open && sp.End > p.To {
		sp.End = p.To
		flags |= timeline.CutAfter
	}
	if flags != 0 {
		sp.Args = append(sp.Args[:len(sp.Args):len(sp.Args)], timeline.Detail{Name: timeline.CutName, Text: timeline.CutText(flags)})
	}
	p.thread(k.of.Thread)
	p.out = append(p.out, &timeline.SpanBegin{Track: k.of, Span: sp})
}

// end ends the innermost span.
func (k *track) end(p *clippedSink, at uint64, args []timeline.Detail) {
	n := len(k.open)
	if n == 0 {
		return
	}
	if k.open[n-1].state == before && at > p.From {
		k.show(p)
	}
	if sp := &k.open[n-1]; sp.state == shown {
		if sp.Open && at > p.To {
			args = append(args[:len(args):len(args)], timeline.Detail{Name: timeline.CutName, Text: timeline.CutText(timeline.CutAfter)})
		}
		p.out = append(p.out, &timeline.SpanEnd{Track: k.of, Time: min(at, p.To), Args: args})
	}
	k.open = k.open[:n-1]
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
