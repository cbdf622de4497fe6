package convert

import (
	"cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A window is a part of the time: From belongs to it, To does not, unless it is timeline.Never.
type window struct{ From, To uint64 }

// begins reports whether what begins at a time begins in the window.
func (w window) begins(at uint64) bool {
	return at >= w.From && (at < w.To || w.To == timeline.Never)
}

// has reports whether something of an interval is in the window.
func (w window) has(from, to uint64) bool { return w.begins(from) || from < w.From && to > w.From }

// cut cuts an interval that is in the window at the window's borders, and returns the flags that say
// so.
func (w window) cut(from, to *uint64) (flags uint16) {
	if *from < w.From {
		*from, flags = w.From, timeline.CutBefore
	}
	if *to > w.To {
		*to = w.To
		flags |= timeline.CutAfter
	}
	return flags
}

// A clippedSink passes on what lies in a window. What crosses a border is cut there and marked. An event without
// length is in the window or not. A counter begins with the value that it had before.
type clippedSink struct {
	choose func() window // asked at the first event, when clocks are known
	to     timeline.Sink

	window
	opened    bool // window is known
	begun     bool // to has the recording
	recording timeline.Recording
	described []timeline.Event // what to has to know before its first event
	out       []timeline.Event
	threads   map[*timeline.Thread]bool
	tracks    map[*timeline.Track]*track
	counters  map[*timeline.Counter]*counter

	trackList   []*track // in the order of first sight
	counterList []*counter
}

// clipped returns a sink that passes on what lies in the filter's time, if that is wanted of the one log.
func (c *conversion) clipped(sink timeline.Sink) timeline.Sink {
	l := c.logs[0]
	if !c.Clip || sink == nil || l.filter == nil || l.filter.From == 0 && l.filter.To == 0 {
		return sink
	}
	return newClippedSink(sink, func() window {
		w := window{To: timeline.Never}
		if l.filter.From != 0 {
			w.From = l.clock.At(l.filter.From)
		}
		if l.filter.To != 0 {
			w.To = l.clock.At(l.filter.To)
		}
		return w
	})
}

func newClippedSink(to timeline.Sink, choose func() window) *clippedSink {
	return &clippedSink{choose: choose, to: to, threads: map[*timeline.Thread]bool{},
		tracks: map[*timeline.Track]*track{}, counters: map[*timeline.Counter]*counter{}}
}

// Take passes events on.
func (p *clippedSink) Take(events []timeline.Event) error {
	if !p.opened {
		p.opened, p.window = true, p.choose()
	}
	for _, e := range events {
		if !p.describes(e) {
			p.clip(e)
		}
	}
	return p.pass()
}

// pass gives the sink what is for it.
func (p *clippedSink) pass() error {
	if len(p.out) == 0 {
		return nil
	}
	if err := p.begin(); err != nil {
		return err
	}
	err := p.to.Take(p.out)
	clear(p.out)
	p.out = p.out[:0]
	return err
}

// begin describes the recording to the sink.
func (p *clippedSink) begin() error {
	if p.begun {
		return nil
	}
	p.begun = true
	r := p.recording
	r.Start = max(r.Start, p.From)
	return p.to.Take(append([]timeline.Event{&r}, p.described...))
}

// End ends the timeline, which may have nothing in the window. It returns the sink's failure.
func (p *clippedSink) End(err error) error {
	if err != nil || !p.opened {
		return p.to.End(err)
	}
	for _, k := range p.trackList {
		k.show(p)
	}
	if p.begun || len(p.out) > 0 {
		for _, c := range p.counterList {
			c.show(p)
		}
	}
	failed := p.pass()
	if failed == nil {
		failed = p.begin()
	}
	return cmp.Or(failed, p.to.End(failed))
}

// describes takes an event that the sink has to know whatever the window, and reports whether it is one.
func (p *clippedSink) describes(e timeline.Event) bool {
	switch e := e.(type) {
	case *timeline.Recording:
		p.recording = *e
		return true
	case *timeline.GPUs:
		list := *e
		p.describe(&list)
	case *timeline.Metadata:
		m := *e
		p.describe(&m)
	case *timeline.GPUUser:
		u := *e
		p.describe(&u)
	case *timeline.Process, *timeline.Context, *timeline.Stream:
		p.describe(e)
	default:
		return false
	}
	return true
}

func (p *clippedSink) describe(e timeline.Event) {
	if p.begun {
		p.out = append(p.out, e)
	} else {
		p.described = append(p.described, e)
	}
}

// clip emits the part of an event that lies in the window.
func (p *clippedSink) clip(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Slices:
		p.slices(e)
	case *timeline.WorkList:
		p.workList(e)
	case *timeline.ThreadEnd:
		if p.threads[e.Thread] {
			p.out = append(p.out, e)
		}
	case *timeline.SpanBegin:
		p.track(e.Track).begin(p, e)
	case *timeline.SpanEnd:
		p.track(e.Track).end(p, *e)
	case *timeline.CounterValue:
		p.counter(e)
	case *timeline.Instant:
		if p.begins(e.Start) {
			p.track(e.Track).show(p)
			p.thread(e.Track.Thread)
			p.out = append(p.out, e)
		}
	case *timeline.Samples:
		p.samples(e)
	case *timeline.States:
		p.states(e)
	case *timeline.StackSamples:
		p.stackSamples(e)
	case *timeline.Allocation:
		p.at(e.Time, e)
	case *timeline.OutOfMemory:
		p.at(e.Time, e)
	case *timeline.TorchBlock:
		if p.begins(e.Time) {
			p.thread(e.Thread)
			p.out = append(p.out, e)
		}
	case *timeline.Loss:
		p.at(e.Time, e)
	case *timeline.Note:
		p.at(e.Time, e)
	case *timeline.Hang:
		p.hang(*e)
	}
}

// hang takes a kernel that had not ended, and says how it is cut.
func (p *clippedSink) hang(h timeline.Hang) {
	if !p.has(h.Start, h.End) {
		return
	}
	if text := timeline.CutText(p.cut(&h.Start, &h.End)); text != "" {
		h.Text += "; " + text
	}
	p.out = append(p.out, &h)
}

// at takes an event of a time.
func (p *clippedSink) at(time uint64, e timeline.Event) {
	if p.begins(time) {
		p.out = append(p.out, e)
	}
}

// thread describes a thread before the first event that refers to the thread.
func (p *clippedSink) thread(t *timeline.Thread) {
	if t != nil && !p.threads[t] {
		p.threads[t] = true
		p.out = append(p.out, t)
	}
}

// slices takes calls.
func (p *clippedSink) slices(l *timeline.Slices) {
	whole := 0
	for whole < len(l.List) && p.holds(&l.List[whole]) {
		whole++
	}
	if whole < len(l.List) {
		l = &timeline.Slices{Thread: l.Thread, List: p.cutSlices(l.List, whole)}
	}
	if len(l.List) > 0 {
		p.thread(l.Thread)
		p.out = append(p.out, l)
	}
}

// holds reports whether a call is in the window as it is.
func (p *clippedSink) holds(sl *timeline.Slice) bool {
	if !p.begins(sl.Start) || sl.End > p.To {
		return false
	}
	for _, w := range sl.Waits() {
		if !p.has(w.Start, w.End) {
			return false
		}
	}
	return true
}

// cutSlices returns those of some calls that are in the window; the first few are in it as they are.
func (p *clippedSink) cutSlices(list []timeline.Slice, whole int) (in []timeline.Slice) {
	in = append(in, list[:whole]...)
	for i := whole; i < len(list); i++ {
		if sl := list[i]; p.has(sl.Start, sl.End) {
			sl.Flags |= p.cut(&sl.Start, &sl.End)
			sl.KeepWaits(func(w *timeline.Awaited) bool { return p.has(w.Start, w.End) })
			in = append(in, sl)
		}
	}
	return in
}

// samples takes samples of metrics, cut at the borders.
func (p *clippedSink) samples(e *timeline.Samples) {
	var list []timeline.Sample
	for _, s := range e.List {
		if p.has(s.Start, s.End) {
			p.cut(&s.Start, &s.End)
			list = append(list, s)
		}
	}
	if len(list) > 0 {
		p.out = append(p.out, &timeline.Samples{Set: e.Set, List: list, Work: e.Work})
	}
}

// states takes states of a thread, cut at the borders.
func (p *clippedSink) states(e *timeline.States) {
	var list []timeline.State
	for _, s := range e.List {
		if p.has(s.Start, s.End) {
			p.cut(&s.Start, &s.End)
			list = append(list, s)
		}
	}
	if len(list) > 0 {
		p.thread(e.Thread)
		p.out = append(p.out, &timeline.States{Thread: e.Thread, List: list})
	}
}

func (p *clippedSink) stackSamples(e *timeline.StackSamples) {
	var list []timeline.StackSample
	for _, s := range e.List {
		if p.begins(s.Time) {
			list = append(list, s)
		}
	}
	if len(list) > 0 {
		p.thread(e.Thread)
		p.out = append(p.out, &timeline.StackSamples{Thread: e.Thread, Period: e.Period, List: list})
	}
}

// workList takes GPU work.
func (p *clippedSink) workList(l *timeline.WorkList) {
	whole := 0
	for whole < len(l.List) && p.holdsWork(&l.List[whole]) {
		whole++
	}
	if whole < len(l.List) {
		list := append([]timeline.Work(nil), l.List[:whole]...)
		for _, w := range l.List[whole:] {
			end := timeline.End(w.Start, w.Dur)
			if !p.has(w.Start, end) {
				continue
			}
			if w.Call.Function != nil && !p.has(w.Call.Start, w.Call.End) {
				w.Cut = timeline.CutCall
			}
			w.Cut |= p.cut(&w.Start, &end)
			w.Dur = end - w.Start
			list = append(list, w)
		}
		l = &timeline.WorkList{Stream: l.Stream, List: list}
	}
	if len(l.List) > 0 {
		p.out = append(p.out, l)
	}
}

// holdsWork reports whether a piece of work is in the window as it is, and its call, too.
func (p *clippedSink) holdsWork(w *timeline.Work) bool {
	return p.begins(w.Start) && timeline.End(w.Start, w.Dur) <= p.To &&
		(w.Call.Function == nil || p.has(w.Call.Start, w.Call.End))
}
