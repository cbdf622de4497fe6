package pfsink

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/steps"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/figures"
)

// paths draw the critical paths of steps, on a track of each process that has steps: the segments of a path lie end to
// end, and arrows lead to them from the work that they name. A call has no arrow: the trace processor takes none for a
// slice that was written before. Its segment is beside it, at the same time.
type paths struct {
	sink      *Sink
	steps     *steps.Finder
	collector *critical.Collector
	room      *activity.Room
	threads   map[*timeline.Thread]*pathThread
	latest    *pathThread
	streams   map[*timeline.Stream]*pathStream
	left      map[*timeline.Process]*bool
	number    *perfetto.ArgName
	templates map[pathKey]*perfetto.TrackEventTemplate
	medians   []shown                    // the median step of each process
	drawn     map[*timeline.Process]bool // that have a critical path
}

type pathThread struct {
	*critical.Thread
	open uint64 // end of the last call that lies in no other one
	left *bool  // nothing more is kept of the process: it has no steps, or too many
}

type pathStream struct {
	*critical.Stream
	steps *steps.Stream
	over  bool // the search for a period is over, without one
	left  *bool
}

// Bounds of what is drawn.
const (
	mostSegments  = 1 << 15 // of up to four processes together
	leastSegments = 1 << 13 // of each process where there are more
	slowSteps     = 8       // the slowest ones come before others
)

func newPaths(s *Sink, r *timeline.Recording) *paths {
	p := &paths{sink: s, steps: steps.New(func(*timeline.Process, uint64) {}),
		collector: critical.New(make(timeline.KernelNames)), room: activity.NewRoom(),
		threads: make(map[*timeline.Thread]*pathThread), streams: make(map[*timeline.Stream]*pathStream),
		left: make(map[*timeline.Process]*bool), drawn: make(map[*timeline.Process]bool)}
	p.collector.Recording(r)
	return p
}

func (p *paths) thread(of *timeline.Thread) *pathThread {
	if t := p.latest; t != nil && t.Thread.Thread == of {
		return t
	}
	t := p.threads[of]
	if t == nil {
		t = &pathThread{Thread: p.collector.Thread(of, p.room.NewHistory(of)), left: p.leaving(of.Process)}
		p.threads[of] = t
	}
	p.latest = t
	return t
}

func (p *paths) leaving(of *timeline.Process) *bool {
	left := p.left[of]
	if left == nil {
		left = new(bool)
		p.left[of] = left
	}
	return left
}

// calls takes calls of a thread.
func (p *paths) calls(l *timeline.Slices) {
	t := p.thread(l.Thread)
	if *t.left {
		t.Leave(l.List[0].Start)
		return
	}
	for i := range l.List {
		sl := &l.List[i]
		inner := sl.Start < t.open
		t.open = max(t.open, sl.End)
		p.collector.AddCall(t.Thread, sl, inner)
		if !inner {
			p.steps.Call(l.Thread, sl)
		}
	}
}

// states takes states of a thread.
func (p *paths) states(e *timeline.States) {
	if t := p.thread(e.Thread); !*t.left {
		t.History.States(e.List)
	}
}

// samples takes samples of a thread.
func (p *paths) samples(e *timeline.StackSamples) {
	if t := p.thread(e.Thread); !*t.left {
		t.History.Samples(e.Period, e.List)
	}
}

// works takes work of a stream.
func (p *paths) works(l *timeline.WorkList) {
	s := p.streams[l.Stream]
	if s == nil {
		s = &pathStream{Stream: p.collector.Stream(l.Stream), steps: p.steps.Stream(l.Stream),
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
		p.collector.AddWork(s.Stream, w, by)
		s.steps.Work(w)
		over := s.steps.Over()
		*s.left = s.Full() || over && !s.over && !p.steps.Hope(l.Stream.Context.Process)
		s.over = over
	}
}

// A pathStep is a step with its path, the latest segment first.
type pathStep struct {
	*steps.Step
	path []critical.Segment
}

// write writes the tracks.
func (p *paths) write() {
	p.steps.Finish()
	kinds := p.steps.Main()
	for _, k := range kinds {
		p.writeSteps(k)
		p.writeKind(k, max(mostSegments/len(kinds), leastSegments))
	}
}

// The names of the tracks of steps.
const (
	stepTrack = "steps"
	pathTrack = "critical path"
)

// stepName names a step: "train_step 12".
func stepName(k *steps.Kind, x *steps.Step) string { return fmt.Sprintf("%s %d", k.Name, x.Number) }

// writeSteps writes the steps themselves on a track of the process. Of steps that overlap the first one is drawn.
func (p *paths) writeSteps(k *steps.Kind) {
	s := p.sink
	track, last := s.tracks.ofSteps(k.Process, stepTrack, placeSteps), uint64(0)
	parts := slices.Clone(k.Parts)
	slices.SortStableFunc(parts, func(a, b steps.Step) int { return cmp.Compare(a.Start, b.Start) })
	for i := range parts {
		x := &parts[i]
		if x.Start < last {
			continue
		}
		last = x.End
		s.once.Encode(s.w, stepName(k, x), "step", nil)
		track.Begin(x.Start, &s.once, 0, perfetto.UintArgs{})
		track.End(x.End)
		s.shown++
	}
}

// writeKind writes the track of a process: the slowest steps and the one of median length, then others at even
// distances, as many as there is room for.
func (p *paths) writeKind(k *steps.Kind, room int) {
	var all []*steps.Step
	until := p.collector.Until(k.Process)
	for i := range k.Parts {
		if x := &k.Parts[i]; x.End <= until {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b *steps.Step) int { return cmp.Compare(a.Start, b.Start) })
	counts, bySlowness, taken := make([]int, len(all)), make([]int, len(all)), make([]*pathStep, len(all))
	p.divide(k, all, func(i int, _ *critical.Segment) { counts[i]++ })
	take := func(i int) {
		if n := counts[i]; taken[i] == nil && n <= room {
			taken[i], room = &pathStep{all[i], make([]critical.Segment, 0, n)}, room-n
		}
	}
	for i := range bySlowness {
		bySlowness[i] = i
	}
	slices.SortStableFunc(bySlowness, func(a, b int) int { return cmp.Compare(all[b].Length(), all[a].Length()) })
	usual := bySlowness[len(all)/2]
	p.medians, p.drawn[k.Process] = append(p.medians, shown{k.Process, k, all[usual]}), true
	take(usual)
	for _, i := range bySlowness[:min(slowSteps, len(all))] {
		take(i)
	}
	each := 1 + len(all)*max(counts[usual], 1)/max(room, 1)
	for i := 0; i < len(all); i += each {
		take(i)
	}
	p.divide(k, all, func(i int, s *critical.Segment) {
		if t := taken[i]; t != nil {
			t.path = append(t.path, *s)
		}
	})
	p.draw(k, taken)
	p.noteUndrawn(k, taken)
}

// shorter says how to see the paths of steps of a length around a time: of few steps all are drawn, but where there are
// no ranges, too few are no steps.
func (p *paths) shorter(at, length uint64) string {
	at -= min(at, p.sink.tracks.start)
	seconds := func(ns uint64) float64 { return float64(ns/1e6) / 1e3 }
	return fmt.Sprintf("a trace of a shorter part has the paths of more of its steps: convert --from %.3fs --to %.3fs",
		seconds(at-min(at, 4*length)), seconds(at+16*length))
}

// noteUndrawn writes a slice over each run of steps whose path is not drawn, with how to see it.
func (p *paths) noteUndrawn(k *steps.Kind, taken []*pathStep) {
	drawn := make(map[*steps.Step]bool, len(taken))
	for _, x := range taken {
		if x != nil {
			drawn[x.Step] = true
		}
	}
	parts := make([]*steps.Step, len(k.Parts))
	for i := range parts {
		parts[i] = &k.Parts[i]
	}
	slices.SortStableFunc(parts, func(a, b *steps.Step) int { return cmp.Compare(a.Start, b.Start) })
	s, last := p.sink, uint64(0)
	track := s.tracks.ofSteps(k.Process, pathTrack, placePath)
	for i := 0; i < len(parts); i++ {
		from, n := max(parts[i].Start, last), 0
		for ; i < len(parts) && !drawn[parts[i]]; i++ {
			last, n = max(last, parts[i].End), n+1
		}
		if n > 0 && from < last {
			s.once.Encode(s.w, fmt.Sprintf("(%s without a path)", figures.Count(n, "step", "steps")), "note",
				[]perfetto.Arg{perfetto.String("note", p.shorter(from, (last-from)/uint64(n)))})
			track.Begin(from, &s.once, 0, perfetto.UintArgs{})
			track.End(last)
			s.shown++
		}
		if i < len(parts) {
			last = max(last, parts[i].End)
		}
	}
}

// divide finds the path through all steps, which are sorted by start. It gives what of the path lies in each, with the
// number of the step, the latest part first.
func (p *paths) divide(k *steps.Kind, all []*steps.Step, give func(int, *critical.Segment)) {
	spans := make([]critical.Span, len(all))
	last := all[0]
	for i, x := range all {
		if spans[i] = (critical.Span{From: x.Start, To: x.End}); x.End > last.End {
			last = x
		}
	}
	p.collector.Divided(spans, critical.End{Thread: last.On, Stream: k.Stream}, give)
}

// draw draws the paths of steps, by start; nil is none. Of steps that overlap the first one is drawn.
func (p *paths) draw(k *steps.Kind, list []*pathStep) {
	s := p.sink
	if p.number == nil {
		p.number, p.templates = s.w.ArgName("step"), make(map[pathKey]*perfetto.TrackEventTemplate)
	}
	track, last := s.tracks.ofSteps(k.Process, pathTrack, placePath), uint64(0)
	for _, x := range list {
		if x == nil || x.Start < last {
			continue
		}
		last = x.End
		for i := len(x.path) - 1; i >= 0; i-- {
			seg := &x.path[i]
			track.Begin(seg.From, p.template(k.Process, seg), 0, perfetto.UintArgs{p.number.Value(uint64(x.Number))})
			if seg.Work == 0 {
				track.End(seg.To)
			} else {
				track.EndWith(seg.To, []uint64{seg.Work})
			}
			s.shown++
		}
	}
}

// A pathKey is what segments have in common that are encoded alike.
type pathKey struct {
	of                *timeline.Process // of the track
	kind              critical.Kind
	name, place, also uint32
	thread            *timeline.Thread
	stream            *timeline.Stream
}

func (p *paths) template(of *timeline.Process, x *critical.Segment) *perfetto.TrackEventTemplate {
	key := pathKey{of, x.Kind, x.Name, x.Place, x.Also, x.Thread, x.Stream}
	t := p.templates[key]
	if t != nil {
		return t
	}
	if len(p.templates) >= mostNames {
		clear(p.templates)
	}
	name, args := p.collector.Text(x.Name), append(p.sink.args[:0], perfetto.String("kind", x.Kind.String()))
	if place := p.collector.Text(x.Place); place != "" {
		args = append(args, perfetto.String("place", place))
	}
	var by *timeline.Process
	switch {
	case x.Stream != nil:
		by = x.Stream.Context.Process
		args = append(args, perfetto.String("on", fmt.Sprintf("GPU %d, %s", x.Stream.Context.GPU, streamName(x.Stream))))
	case x.Thread != nil:
		by = x.Thread.Process
		args = append(args, perfetto.String("on", cmp.Or(x.Thread.Title(), "thread")+fmt.Sprintf(" %d", x.Thread.TID)))
	}
	switch {
	case by == nil || by == of:
	case by.Rank.Known:
		name += " on " + by.Rank.String()
	default:
		name += fmt.Sprintf(" of process %d", by.PID)
	}
	if note := p.collector.Text(x.Also); note != "" {
		args = append(args, perfetto.String("note", note))
	}
	p.sink.args = args
	t = new(perfetto.TrackEventTemplate)
	t.Encode(p.sink.w, name, "critical_path", args)
	p.templates[key] = t
	return t
}
