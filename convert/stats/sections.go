package stats

import (
	"cmp"
	"iter"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A section has the rows of grouped reports, of the events of a part of the time of processes. The sink has one of the
// start-ups and one of the steady states. A process has sections of its own, one for each stage, until it is settled
// which stages are its start-up.
//
// A call, an NVTX range or a function belongs to the stage in which it began. GPU work, and the time that a GPU waited
// for it, belongs to the stage in which it was launched (see [findings.Launched]); the first launch of a kernel, which
// ends a stage, is the last of that stage. Work without times, and work of another stream, may come before work that
// was launched earlier. It counts in the latest stage that is known when it comes, so it may count in the start-up
// although it was launched later.
type section struct {
	*Sink
	sources
	rows    map[*Report]any
	python  *python
	framed  bool   // kernel_python has rows
	pieces  uint64 // of work
	kernels uint64 // of these
	onGPU   uint64 // ns of all GPU work
	inCalls uint64 // ns that threads spent in calls
}

func (s *Sink) newSection() *section {
	sec := &section{Sink: s, rows: make(map[*Report]any), python: newPython(s.folds)}
	sec.describe(s.functions)
	for _, r := range slices.Backward(s.reports) { // a detail takes an event before the report that sums it up
		if r.open != nil {
			r.open(sec)
		}
	}
	return sec
}

// join adds the rows of a section whose events came later.
func (s *section) join(later *section) {
	for _, r := range s.reports {
		if r.join != nil {
			r.join(s, later)
		}
	}
	s.pieces, s.kernels = s.pieces+later.pieces, s.kernels+later.kernels
	s.onGPU, s.inCalls = sketch.Sum(s.onGPU, later.onGPU), sketch.Sum(s.inCalls, later.inCalls)
}

// A staged is the sections of a process that is not settled.
type staged struct {
	stages *findings.Stages
	parts  []stagePart // the earliest first
	spans  []span      // whose stage may not be known yet
	done   bool        // it is settled
	whole  bool        // and was found to have no start-up

	now      *section // of the moments from from on, before to
	from, to uint64
}

type stagePart struct {
	from uint64
	*section
}

// section returns the section of a moment of a process.
func (s *Sink) section(p *staged, at uint64) *section {
	if at < p.from || at >= p.to {
		s.find(p, at)
	}
	return p.now
}

// launched counts a piece of work in its section, and returns that.
func (s *Sink) launched(p *staged, w *timeline.Work) *section {
	at := findings.Launched(w)
	sec := s.section(p, at-min(at, 1))
	sec.pieces++
	if w.Kind == timeline.KernelWork {
		sec.kernels++
	}
	if !w.Untimed {
		sec.onGPU = sketch.Sum(sec.onGPU, w.Dur)
	}
	return sec
}

func (s *Sink) find(p *staged, at uint64) {
	if p.done {
		if steady := p.stages.Steady(); p.whole {
			p.now, p.from, p.to = s.steady, 0, timeline.Never
		} else if at < steady {
			p.now, p.from, p.to = s.startup, 0, steady
		} else {
			p.now, p.from, p.to = s.steady, steady, timeline.Never
		}
		return
	}
	from := p.stages.Begun(at)
	i, found := slices.BinarySearchFunc(p.parts, from, func(x stagePart, at uint64) int { return cmp.Compare(x.from, at) })
	if !found {
		if len(p.parts) == 0 {
			s.wait(p)
		}
		p.parts = slices.Insert(p.parts, i, stagePart{from, s.newSection()})
	}
	p.now, p.from, p.to = p.parts[i].section, from, p.stages.Next(at)
}

// moved joins the sections of stages of which one has moved on.
func (p *staged) moved() {
	p.from, p.to = 0, 0
	kept := p.parts[:0]
	for _, x := range p.parts {
		x.from = p.stages.Begun(x.from)
		if n := len(kept); n > 0 && kept[n-1].from == x.from {
			kept[n-1].join(x.section)
			continue
		}
		kept = append(kept, x)
	}
	clear(p.parts[len(kept):])
	p.parts = kept
}

// mostUnsettled bounds the processes that have sections of their own. Beyond, the one that has had them for longest is
// settled by what is known then.
const mostUnsettled = 32

// wait notes that a process has sections of its own from now on.
func (s *Sink) wait(p *staged) {
	s.unsettled = slices.DeleteFunc(append(s.unsettled, p), func(p *staged) bool { return p.done })
	if len(s.unsettled) > mostUnsettled {
		s.finish(s.unsettled[0])
	}
}

// settle moves the sections of a process to those of the sink once it is settled which stages are its start-up.
func (s *Sink) settle(p *staged) {
	if !p.done && p.stages.Settled() {
		s.finish(p)
	}
}

// finish moves the sections of a process to those of the sink.
func (s *Sink) finish(p *staged) {
	s.takeSpans(p)
	starting, steady := p.divided()
	for _, x := range starting {
		s.startup.join(x.section)
	}
	for _, x := range steady {
		s.steady.join(x.section)
	}
	*p = staged{stages: p.stages, done: true, whole: !p.startsUp()}
}

// divided are the parts of the start-up and of the steady state of a process that is not settled, by what is known.
func (p *staged) divided() (starting, steady []stagePart) {
	if !p.startsUp() {
		return nil, p.parts
	}
	i, _ := slices.BinarySearchFunc(p.parts, p.stages.Steady(), func(x stagePart, at uint64) int { return cmp.Compare(x.from, at) })
	return p.parts[:i], p.parts[i:]
}

// startsUp reports whether a process has a start-up: kernels come after it, or, of a process without any, other work.
func (p *staged) startsUp() bool {
	if p.done {
		return !p.whole
	}
	steady := p.stages.Steady()
	var kernels, pieces [2]uint64 // of the start-up, and after it
	for _, x := range p.parts {
		i := 0
		if x.from >= steady {
			i = 1
		}
		kernels[i], pieces[i] = kernels[i]+x.kernels, pieces[i]+x.pieces
	}
	return kernels[1] > 0 || kernels[0] == 0 && pieces[1] > 0
}

// sections are all sections.
func (s *Sink) sections() iter.Seq[*section] {
	return func(yield func(*section) bool) {
		if !yield(s.startup) || !yield(s.steady) {
			return
		}
		for _, p := range s.threads.processes {
			for _, x := range p.parts {
				if !yield(x.section) {
					return
				}
			}
		}
	}
}

// A span is an NVTX range or a call of a function, or an instant.
type span struct {
	timeline.SpanEnd
	instant bool
}

// mostSpans bounds the spans of a process that wait for their stage.
const mostSpans = 1 << 14

// span takes a span. Unlike calls, it may come before the launches before it.
func (s *Sink) span(x span) {
	p := &s.threads.process(x.Track.Process).staged
	p.spans = append(p.spans, x)
	if p.done || len(p.spans) > mostSpans {
		s.takeSpans(p)
	}
}

// takeSpans takes the spans of a process that have waited.
func (s *Sink) takeSpans(p *staged) {
	for i := range p.spans {
		x := &p.spans[i]
		sec := s.section(p, x.Start)
		if x.instant {
			sec.instants.Take(x.Track, &timeline.Instant{Track: x.Track, Span: x.Span})
		} else {
			sec.spans.Take(x.Track, &x.SpanEnd)
		}
	}
	p.spans = p.spans[:0]
}

// A view is sections as one.
type view struct {
	*Sink
	of             []*section
	rows           map[*Report]any // of several sections
	python         *python         // likewise
	onGPU, inCalls uint64
}

func (v *view) add(s *section) {
	v.of, v.onGPU, v.inCalls = append(v.of, s), sketch.Sum(v.onGPU, s.onGPU), sketch.Sum(v.inCalls, s.inCalls)
}

// views are the start-ups, the steady states, and both.
type views struct{ starting, steady, whole *view }

// view returns the views of what was taken so far. A process that ran no kernel in its steady state, such as a short
// program, has no start-up.
func (s *Sink) view() *views {
	if s.views != nil {
		return s.views
	}
	all := new(views)
	for _, v := range []**view{&all.starting, &all.steady, &all.whole} {
		*v = &view{Sink: s, rows: make(map[*Report]any)}
	}
	for _, p := range s.threads.processes { // first, since this may settle others
		s.takeSpans(&p.staged)
	}
	all.starting.add(s.startup)
	all.steady.add(s.steady)
	for _, p := range s.threads.processes {
		starting, steady := p.divided()
		for _, x := range starting {
			all.starting.add(x.section)
		}
		for _, x := range steady {
			all.steady.add(x.section)
		}
	}
	for _, v := range []*view{all.starting, all.steady} {
		for _, x := range v.of {
			all.whole.add(x)
		}
	}
	s.views = all
	return all
}

// counts returns the view whose events a report counts.
func (s *Sink) counts(startup bool) *view {
	if startup {
		return s.view().whole
	}
	return s.view().steady
}
