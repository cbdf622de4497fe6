package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/steps"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/internal/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Sink collects the reports of a timeline.
type Sink struct {
	reports         []*Report // [Reports]
	startup, steady *section  // of processes that are settled
	views           *views    // of what was taken so far; nil if more came since
	functions       *query.Rows[functionKey, *activity.Function]
	folds           bool  // Python stacks are kept for the folded form
	framed          bool  // a launch has a Python frame
	call            call  // that is taken
	piece           piece // likewise

	clock   clock
	names   timeline.KernelNames
	short   shortNames
	threads threads
	busy    busy
	gaps    gapList
	memory  memory
	torch   torchMemory
	host    transfers
	metrics metrics
	ranks   *ranks.Collector
	path    *critical.Collector

	findings *findings.Collector
	found    *found // nil before they are asked for

	unsettled []*staged // the oldest first, among settled ones
	steps     *steps.Finder
	told      bool // the ranks have the steps
	logs      findings.Span
}

// A clock converts the times of a timeline.
type clock struct{ start uint64 }

// since returns a time in ns from the start of the recording.
func (c *clock) since(at uint64) uint64 { return at - min(at, c.start) }

// NameSteps notes that a person has said which NVTX ranges are steps: those that the timeline calls steps, and no
// others.
func (s *Sink) NameSteps() { s.steps.Name() }

// LongPaths has the sink keep the calls and the work of critical paths of longer recordings.
func (s *Sink) LongPaths() { s.path.KeepMore() }

// Ranks is the number of ranks of a distributed program that used a GPU.
func (s *Sink) Ranks() int { return s.ranks.Ranks() }

// New returns a sink without events.
func New() *Sink {
	s := &Sink{names: make(timeline.KernelNames), functions: newFunctions(), reports: Reports}
	s.findings = findings.New()
	s.path = critical.New(s.names)
	s.threads = newThreads(s.findings, s.path)
	s.busy = newBusy(&s.clock, idleWatcher{s.findings, s})
	s.findings.FirstUse, s.findings.Multiprocessors = s.firstUse, s.busy.multiprocessors
	s.findings.PinnedRate = s.busy.pinnedRate
	s.findings.KernelName = func(mangled string) string { return s.shortTitle(mangled) }
	s.steps = steps.New(func(of *timeline.Process, at uint64) { s.busy.mark(of, at, false) })
	s.memory, s.torch = newMemory(&s.clock), newTorchMemory(&s.clock)
	s.findings.TorchFailures, s.findings.NoMemory = s.torchFailures, s.memory.lacked
	s.metrics = newMetrics(&s.clock, s.busy.title)
	s.ranks = ranks.New(s.names, s.clock.since, s.findings.Steady)
	s.startup, s.steady = s.newSection(), s.newSection()
	return s
}

// Take takes events.
func (s *Sink) Take(events []timeline.Event) error {
	s.found = nil
	s.views = nil
	for _, e := range events {
		s.event(e)
	}
	return nil
}

// End ends the timeline.
func (s *Sink) End(error) error {
	s.steps.Finish()
	return nil
}

func (s *Sink) event(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Slices:
		s.slices(e)
	case *timeline.WorkList:
		s.workList(e)
	case *timeline.States:
		s.threads.of(e.Thread).history.States(e.List)
	case *timeline.StackSamples:
		s.threads.of(e.Thread).history.Samples(e.Period, e.List)
	case *timeline.SpanBegin:
		s.steps.Begin(e)
	case *timeline.SpanEnd:
		s.span(span{*e, false})
		s.steps.End(e)
	case *timeline.Instant:
		s.span(span{timeline.SpanEnd{Track: e.Track, Span: e.Span}, true})
	case *timeline.Allocation:
		s.memory.countAllocation(e)
	case *timeline.OutOfMemory:
		s.memory.outOfMemory(e)
	case *timeline.TorchBlock:
		s.torch.take(e)
	case *timeline.Samples:
		s.metrics.countSamples(e)
		s.findings.Samples(e)
	case *timeline.GPUUser:
		s.metrics.user(e)
		s.findings.User(e)
	case *timeline.Recording:
		s.clock.start = e.Start
		s.logs.First, s.logs.Last = e.Start, e.LastStart
		s.path.Recording(e)
		s.ranks.Recording(e)
		s.findings.Recording(e)
	case *timeline.Metadata:
		s.logs.Logs++
		s.ranks.Log(e)
	case *timeline.GPUs:
		s.busy.know(e.List)
		s.findings.Know(e.List)
	case *timeline.Process:
		s.threads.process(e)
		s.ranks.Process(e)
	case *timeline.Thread:
		s.threads.of(e)
	case *timeline.Stream:
		s.busy.stream(e)
	}
}

// placed returns the function of a call; of one that waits with the line of Python, or the code, that called it.
func placed(f *activity.Function, sl *timeline.Slice) *activity.Function {
	switch {
	case f.Role != activity.Waits && f.Role != activity.WaitsAll:
	case sl.Python != nil:
		own := sl.Python.Own().PythonFrame
		return f.From(own, own.Text)
	case sl.Caller != nil:
		return f.From(sl.Caller, sl.Caller.Text)
	}
	return f
}

func newFunctions() *query.Rows[functionKey, *activity.Function] {
	var all activity.Functions
	return query.NewRows(table.MaxRows, functionKey{name: other}, func(k functionKey) *activity.Function {
		return all.Add(k.name, k.library)
	})
}

// describe has calls and work tell what depends on their shape alone.
func (s *sources) describe(functions *query.Rows[functionKey, *activity.Function]) {
	s.calls.By(func(f from) func(*call) {
		function := *functions.Of(f.functionKey())
		return func(c *call) { c.function = function }
	})
	for kind := range s.work {
		s.work[kind].By(func(shape *timeline.Shape) func(*piece) {
			class := activity.ClassOf(&timeline.Work{Kind: timeline.WorkKind(kind), Shape: shape})
			return func(p *piece) { p.class = class }
		})
	}
}

// firstUse returns the start of the first launch of a kernel.
func (s *Sink) firstUse(shape *timeline.Shape) uint64 {
	first := uint64(timeline.Never)
	for sec := range s.sections() {
		if r := kernelsReport.in(sec).Find(shape.Kernel.Name); r != nil {
			first = min(first, r.first)
		}
	}
	return first
}

func (s *Sink) slices(l *timeline.Slices) {
	thread := s.threads.of(l.Thread)
	c := &s.call
	c.thread = l.Thread
	for i := range l.List {
		sl := &l.List[i]
		section, in, waiting := s.section(&thread.process.staged, sl.Start), thread.in.Total, thread.waiting.Total
		inner := thread.call(sl)
		c.Slice, c.inner, c.took, c.waited = sl, inner, thread.in.Total-in, thread.waiting.Total-waiting
		section.inCalls += c.took
		section.calls.Take(from{sl.Function, sl.Caller}, c)
		if sl.Failed() {
			section.failed.Take(from{sl.Function, sl.Caller}, c)
		}
		if len(sl.Waits()) > 0 {
			section.waits.Take(l.Thread, c)
		}
		f := c.function
		s.path.AddCall(thread.path, sl, inner)
		switch {
		case !inner:
			s.steps.Call(l.Thread, sl)
			thread.history.Add(sl.Start, sl.End, placed(f, sl))
			thread.habits.Call(sl, f, sl.Failed())
		default:
			thread.habits.Inner(sl, f)
			if f.Loads() {
				thread.history.Loaded()
			}
		}
	}
}

func (s *Sink) workList(l *timeline.WorkList) {
	stream := s.busy.stream(l.Stream)
	if stream.habits == nil {
		stream.habits, stream.rank, stream.path, stream.steps = s.findings.Stream(l.Stream), s.ranks.User(l.Stream),
			s.path.Stream(l.Stream), s.steps.Stream(l.Stream)
	}
	process := s.threads.process(l.Stream.Context.Process)
	p := &s.piece
	s.settle(&process.staged)
	p.on = stream
	for i := range l.List {
		w := &l.List[i]
		if stream.habits.Work(w); stream.habits.Stage() != stream.stage {
			stream.stage = stream.habits.Stage()
			s.busy.mark(l.Stream.Context.Process, stream.stage, true)
			process.moved()
		}
		var by *activity.History
		var launcher *critical.Thread
		if t := w.Call.Thread; t != nil {
			thread := s.threads.of(t)
			by, launcher = thread.history, thread.path
		}
		p.Work = w
		section := s.launched(&process.staged, w)
		section.work[w.Kind].Take(w.Shape, p)
		if w.Call.Ranges != nil {
			section.ranged.Take(w.Call.Ranges, p)
		}
		if w.Call.Python != nil {
			section.lined.Take(w.Call.Python, p)
		}
		if w.Call.Operator != nil {
			section.operated.Take(w.Call.Operator, p)
		}
		if w.Captured != nil {
			section.captured.Take(from{w.Captured.Function, w.Captured.Caller}, p)
		}
		if p.class == activity.Communication {
			s.ranks.Collective(l.Stream, w)
		}
		stream.countWork(w, p.class, by)
		s.path.AddWork(stream.path, w, launcher)
		stream.steps.Work(w)
	}
}
