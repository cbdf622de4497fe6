package convert

import (
	"cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A partWindow is the time of a part: From belongs to it, To does not, unless it is timeline.Never.
type partWindow struct{ From, To uint64 }

// begins reports whether what begins at a time begins in the window.
func (w partWindow) begins(at uint64) bool {
	return at >= w.From && (at < w.To || w.To == timeline.Never)
}

// has reports whether something of an interval is in the window.
func (w partWindow) has(from, to uint64) bool { return w.begins(from) || from < w.From && to > w.From }

// cut cuts an interval that is in the window at the window's borders, and returns the flags that say
// so.
func (w partWindow) cut(from, to *uint64) (flags uint16) {
	if *from < w.From {
		*from, flags = w.From, timeline.CutBefore
	}
	if *to > w.To {
		*to = w.To
		flags |= timeline.CutAfter
	}
	return flags
}

// A partsSink divides a timeline: it makes for each window a timeline of its own, for a sink of its own. What crosses a
// border is in both parts, cut at the border and marked; so the times of all parts add up to those of the whole. An
// event without length is in one part. A counter begins in each part with the value that it had.
type partsSink struct {
	open      func(part int) (timeline.Sink, error)
	parts     []*part
	recording timeline.Recording
	described []timeline.Event // what each part has to know
}

// A part is the timeline of a window.
type part struct {
	partWindow
	number   int
	sink     timeline.Sink    // nil before the first event
	out      []timeline.Event // for the sink
	threads  map[*timeline.Thread]bool
	tracks   map[*timeline.Track]*track
	counters map[*timeline.Counter]*counter

	trackList   []*track // in the order of first sight
	counterList []*counter
}

// newPartsSink returns a sink for windows. It calls open once for each window that has events.
func newPartsSink(windows []partWindow, open func(part int) (timeline.Sink, error)) *partsSink {
	s := &partsSink{open: open}
	for i, w := range windows {
		s.parts = append(s.parts, &part{partWindow: w, number: i, threads: make(map[*timeline.Thread]bool),
			tracks: make(map[*timeline.Track]*track), counters: make(map[*timeline.Counter]*counter)})
	}
	return s
}

// Take passes events on.
func (s *partsSink) Take(events []timeline.Event) error {
	for _, e := range events {
		if !s.describes(e) {
			for _, p := range s.parts {
				p.clip(e)
			}
		}
	}
	return s.pass()
}

// pass gives the sinks what is for them.
func (s *partsSink) pass() error {
	for _, p := range s.parts {
		if len(p.out) == 0 {
			continue
		}
		if err := s.begin(p); err != nil {
			return err
		}
		if err := p.sink.Take(p.out); err != nil {
			return err
		}
		clear(p.out)
		p.out = p.out[:0]
	}
	return nil
}

// begin opens the sink of a part.
func (s *partsSink) begin(p *part) (err error) {
	if p.sink != nil {
		return nil
	}
	if p.sink, err = s.open(p.number); err != nil {
		return err
	}
	r := s.recording
	r.Start = max(r.Start, p.From)
	return p.sink.Take(append([]timeline.Event{&r}, s.described...))
}

// End ends all parts. It returns the first failure of a part.
func (s *partsSink) End(err error) error {
	var failed error
	if err == nil {
		for _, p := range s.parts {
			p.end()
		}
		failed = s.pass()
		err = failed
	}
	for _, p := range s.parts {
		if p.sink != nil {
			failed = cmp.Or(failed, p.sink.End(err))
		}
	}
	return failed
}

// describes takes an event that every part has to know, and reports whether it is one.
func (s *partsSink) describes(e timeline.Event) bool {
	switch e := e.(type) {
	case *timeline.Recording:
		s.recording = *e
		return true
	case *timeline.GPUs:
		list := *e
		s.describe(&list)
	case *timeline.Metadata:
		m := *e
		s.describe(&m)
	case *timeline.GPUUser:
		u := *e
		s.describe(&u)
	case *timeline.Process, *timeline.Context, *timeline.Stream:
		s.describe(e)
	default:
		return false
	}
	return true
}

// describe notes an event for parts to come, and passes it on to those that have begun.
func (s *partsSink) describe(e timeline.Event) {
	s.described = append(s.described, e)
	for _, p := range s.parts {
		if p.sink != nil {
			p.out = append(p.out, e)
		}
	}
}

// clip emits the part of an event that lies in the window.
func (p *part) clip(e timeline.Event) {
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
		p.track(e.Track).end(p, e.Time, e.Args)
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
	case *timeline.Loss:
		p.at(e.Time, e)
	case *timeline.Note:
		p.at(e.Time, e)
	case *timeline.Hang:
		p.hang(*e)
	}
}

// hang takes a kernel that had not ended, and says how it is cut.
func (p *part) hang(h timeline.Hang) {
	if !p.has(h.Start, h.End) {
		return
	}
	if text := timeline.CutText(p.cut(&h.Start, &h.End)); text != "" {
		h.Text += "; " + text
	}
	p.out = append(p.out, &h)
}

// at takes an event of a time.
func (p *part) at(time uint64, e timeline.Event) {
	if p.begins(time) {
		p.out = append(p.out, e)
	}
}

// thread describes a thread to the part before the first event that refers to the thread.
func (p *part) thread(t *timeline.Thread) {
	if t != nil && !p.threads[t] {
		p.threads[t] = true
		p.out = append(p.out, t)
	}
}

// slices takes calls.
func (p *part) slices(l *timeline.Slices) {
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
func (p *part) holds(sl *timeline.Slice) bool {
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
func (p *part) cutSlices(list []timeline.Slice, whole int) (in []timeline.Slice) {
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
func (p *part) samples(e *timeline.Samples) {
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
func (p *part) states(e *timeline.States) {
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

func (p *part) stackSamples(e *timeline.StackSamples) {
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
func (p *part) workList(l *timeline.WorkList) {
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
func (p *part) holdsWork(w *timeline.Work) bool {
	return p.begins(w.Start) && timeline.End(w.Start, w.Dur) <= p.To &&
		(w.Call.Function == nil || p.has(w.Call.Start, w.Call.End))
}
