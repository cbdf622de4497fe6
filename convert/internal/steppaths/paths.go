// Package steppaths finds what a trace shows of the critical paths of steps: of each process that has steps, spans that
// lie end to end in the steps whose paths are shown, and one over each run of steps whose paths are not.
package steppaths

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/steps"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Track is the name of the track of a path.
const Track = "critical path"

// A Finder takes the events of a timeline. A nil one takes them, too, and finds nothing.
type Finder struct {
	Collector *critical.Collector

	start   uint64 // Recording.Start
	steps   *steps.Finder
	room    *activity.Room
	threads map[*timeline.Thread]*thread
	latest  *thread
	streams map[*timeline.Stream]*stream
	left    map[*timeline.Process]*bool
	labels  map[labelKey]*Label
}

type thread struct {
	*critical.Thread
	open uint64 // end of the last call that lies in no other one
	left *bool  // nothing more is kept of the process: it has no steps, or too many
}

type stream struct {
	*critical.Stream
	steps *steps.Stream
	over  bool // the search for a period is over, without one
	left  *bool
}

// Bounds of what is shown.
const (
	mostSegments  = 1 << 15 // of up to four processes together
	leastSegments = 1 << 13 // of each process where there are more
	slowSteps     = 8       // the slowest ones come before others
	mostLabels    = 1 << 12
)

// A Path is what is shown of the path of a process.
type Path struct {
	*steps.Kind
	Median *steps.Step // of those that can have a path; nil without one
	Spans  []Span      // by start; none overlaps another one
}

// A Span is a part of the path of a step, or the time of steps without a path.
type Span struct {
	*Label
	Start, End uint64
	Step       *steps.Step // nil for several without a path
	Work       uint64      // ID of the work that it is; 0 for none
}

// A Label is what spans have in common.
type Label struct {
	Name, Category string
	Facts          []timeline.Detail
}

// New returns a finder for a timeline.
func New(r *timeline.Recording) *Finder {
	p := &Finder{start: r.Start, steps: steps.New(func(*timeline.Process, uint64) {}),
		Collector: critical.New(make(timeline.KernelNames)), room: activity.NewRoom(),
		threads: make(map[*timeline.Thread]*thread), streams: make(map[*timeline.Stream]*stream),
		left: make(map[*timeline.Process]*bool), labels: make(map[labelKey]*Label)}
	p.Collector.Recording(r)
	return p
}

func (p *Finder) thread(of *timeline.Thread) *thread {
	if t := p.latest; t != nil && t.Thread.Thread == of {
		return t
	}
	t := p.threads[of]
	if t == nil {
		t = &thread{Thread: p.Collector.Thread(of, p.room.NewHistory(of)), left: p.leaving(of.Process)}
		p.threads[of] = t
	}
	p.latest = t
	return t
}

func (p *Finder) leaving(of *timeline.Process) *bool {
	left := p.left[of]
	if left == nil {
		left = new(bool)
		p.left[of] = left
	}
	return left
}

// Calls takes calls of a thread.
func (p *Finder) Calls(l *timeline.Slices) {
	if p == nil {
		return
	}
	t := p.thread(l.Thread)
	if *t.left {
		t.Leave(l.List[0].Start)
		return
	}
	for i := range l.List {
		sl := &l.List[i]
		inner := sl.Start < t.open
		t.open = max(t.open, sl.End)
		p.Collector.AddCall(t.Thread, sl, inner)
		if !inner {
			p.steps.Call(l.Thread, sl)
		}
	}
}

// States takes states of a thread.
func (p *Finder) States(e *timeline.States) {
	if p == nil {
		return
	}
	if t := p.thread(e.Thread); !*t.left {
		t.History.States(e.List)
	}
}

// Samples takes samples of a thread.
func (p *Finder) Samples(e *timeline.StackSamples) {
	if p == nil {
		return
	}
	if t := p.thread(e.Thread); !*t.left {
		t.History.Samples(e.Period, e.List)
	}
}

// Begin takes the beginning of a range.
func (p *Finder) Begin(e *timeline.SpanBegin) {
	if p != nil {
		p.steps.Begin(e)
	}
}

// End takes a range.
func (p *Finder) End(e *timeline.SpanEnd) {
	if p != nil {
		p.steps.End(e)
	}
}

// Work takes work of a stream.
func (p *Finder) Work(l *timeline.WorkList) {
	if p == nil {
		return
	}
	s := p.streams[l.Stream]
	if s == nil {
		s = &stream{Stream: p.Collector.Stream(l.Stream), steps: p.steps.Stream(l.Stream),
			left: p.leaving(l.Stream.Context.Process)}
		p.streams[l.Stream] = s
	}
	for i := range l.List {
		w := &l.List[i]
		if *s.left {
			s.Leave(w.Start)
			continue
		}
		var by *critical.Thread
		if w.Call.Thread != nil {
			by = p.thread(w.Call.Thread).Thread
		}
		p.Collector.AddWork(s.Stream, w, by)
		s.steps.Work(w)
		over := s.steps.Over()
		*s.left = s.Full() || over && !s.over && !p.steps.Hope(l.Stream.Context.Process)
		s.over = over
	}
}

// Each gives the path of each process that has steps, after all events.
func (p *Finder) Each(give func(*Path)) {
	if p == nil {
		return
	}
	p.steps.Finish()
	kinds := p.steps.Main()
	for _, k := range kinds {
		give(p.find(k, max(mostSegments/len(kinds), leastSegments)))
	}
}

// A segment is a part of the path of a step.
type segment struct {
	critical.Segment
	of *steps.Step
}

// find finds the path of a process: the slowest steps and the one of median length, then others at even distances, as
// many as there is room for.
func (p *Finder) find(k *steps.Kind, room int) *Path {
	path := &Path{Kind: k}
	var all []*steps.Step
	until := p.Collector.Until(k.Process)
	for i := range k.Parts {
		if x := &k.Parts[i]; x.End <= until {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return path
	}
	slices.SortFunc(all, func(a, b *steps.Step) int { return cmp.Compare(a.Start, b.Start) })
	counts, bySlowness, taken := make([]int, len(all)), make([]int, len(all)), make(map[*steps.Step]bool)
	p.divide(k, all, func(i int, _ *critical.Segment) { counts[i]++ })
	most := room
	take := func(i int) {
		if n := counts[i]; !taken[all[i]] && n <= room {
			taken[all[i]], room = true, room-n
		}
	}
	for i := range bySlowness {
		bySlowness[i] = i
	}
	slices.SortStableFunc(bySlowness, func(a, b int) int { return cmp.Compare(all[b].Length(), all[a].Length()) })
	usual := bySlowness[len(all)/2]
	path.Median = all[usual]
	take(usual)
	for _, i := range bySlowness[:min(slowSteps, len(all))] {
		take(i)
	}
	each := 1 + len(all)*max(counts[usual], 1)/max(room, 1)
	for i := 0; i < len(all); i += each {
		take(i)
	}
	list := make([]segment, 0, most-room)
	p.divide(k, all, func(i int, s *critical.Segment) {
		if taken[all[i]] {
			list = append(list, segment{*s, all[i]})
		}
	})
	p.show(path, list)
	p.noteOthers(path, taken)
	slices.SortStableFunc(path.Spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	return path
}

// shorter says how to see the paths of steps of a length around a time: of few steps all are drawn, but where there are
// no ranges, too few are no steps.
func (p *Finder) shorter(at, length uint64) string {
	at -= min(at, p.start)
	seconds := func(ns uint64) float64 { return float64(ns/1e6) / 1e3 }
	return fmt.Sprintf("a trace of a shorter part has the paths of more of its steps: convert --from %.3fs --to %.3fs",
		seconds(at-min(at, 4*length)), seconds(at+16*length))
}

// noteOthers adds a span over each run of steps whose path is not shown, with how to see it.
func (p *Finder) noteOthers(path *Path, shown map[*steps.Step]bool) {
	parts := make([]*steps.Step, len(path.Parts))
	for i := range parts {
		parts[i] = &path.Parts[i]
	}
	slices.SortStableFunc(parts, func(a, b *steps.Step) int { return cmp.Compare(a.Start, b.Start) })
	last := uint64(0)
	for i := 0; i < len(parts); i++ {
		from, n := max(parts[i].Start, last), 0
		for ; i < len(parts) && !shown[parts[i]]; i++ {
			last, n = max(last, parts[i].End), n+1
		}
		to := last
		if i < len(parts) {
			to, last = min(to, parts[i].Start), max(last, parts[i].End)
		}
		if n > 0 && from < to {
			path.Spans = append(path.Spans, Span{Start: from, End: to, Label: &Label{
				Name: fmt.Sprintf("(%s without a path)", figures.Count(n, "step", "steps")), Category: "note",
				Facts: []timeline.Detail{{Name: "note", Text: p.shorter(from, (to-from)/uint64(n))}},
			}})
		}
	}
}

// divide finds the path through all steps, which are sorted by start. It gives what of the path lies in each, with the
// number of the step, the latest part first.
func (p *Finder) divide(k *steps.Kind, all []*steps.Step, give func(int, *critical.Segment)) {
	spans := make([]critical.Span, len(all))
	last := all[0]
	for i, x := range all {
		if spans[i] = (critical.Span{From: x.Start, To: x.End}); x.End > last.End {
			last = x
		}
	}
	p.Collector.Divided(spans, critical.End{Thread: last.On, Stream: k.Stream}, give)
}

// show adds the spans of segments. Of steps that overlap the first one is shown.
func (p *Finder) show(path *Path, list []segment) {
	slices.SortStableFunc(list, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.of.Start, b.of.Start), cmp.Compare(a.of.End, b.of.End))
	})
	last := uint64(0)
	for len(list) > 0 {
		x, n := list[0].of, 1
		for n < len(list) && list[n].of == x {
			n++
		}
		if x.Start >= last {
			last = x.End
			for i := n - 1; i >= 0; i-- { // the latest one comes first
				s := &list[i]
				path.Spans = append(path.Spans, Span{p.label(path.Process, &s.Segment), s.From, s.To, x, s.Work})
			}
		}
		list = list[n:]
	}
}

// A labelKey is what segments have in common whose spans have one label.
type labelKey struct {
	of                *timeline.Process // whose path it is
	kind              critical.Kind
	name, place, also uint32
	thread            *timeline.Thread
	stream            *timeline.Stream
}

func (p *Finder) label(of *timeline.Process, x *critical.Segment) *Label {
	key := labelKey{of, x.Kind, x.Name, x.Place, x.Also, x.Thread, x.Stream}
	l := p.labels[key]
	if l != nil {
		return l
	}
	if len(p.labels) >= mostLabels {
		clear(p.labels)
	}
	l = &Label{Name: p.Collector.Text(x.Name), Category: "critical_path"}
	fact := func(name, text string) {
		if text != "" {
			l.Facts = append(l.Facts, timeline.Detail{Name: name, Text: text})
		}
	}
	fact("kind", x.Kind.String())
	fact("place", p.Collector.Text(x.Place))
	var by *timeline.Process
	switch {
	case x.Stream != nil:
		by = x.Stream.Context.Process
		fact("on", fmt.Sprintf("GPU %d, Stream %d%s", x.Stream.Context.GPU, x.Stream.ID, x.Stream.Qualifier(x.Stream.Only)))
	case x.Thread != nil:
		by = x.Thread.Process
		fact("on", fmt.Sprintf("%s %d", cmp.Or(x.Thread.Title(), "thread"), x.Thread.TID))
	}
	switch {
	case by == nil || by == of:
	case by.Rank.Known:
		l.Name += " on " + by.Rank.String()
	default:
		l.Name += fmt.Sprintf(" of process %d", by.PID)
	}
	fact("note", p.Collector.Text(x.Also))
	p.labels[key] = l
	return l
}
