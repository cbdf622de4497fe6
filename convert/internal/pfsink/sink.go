package pfsink

import (
	"io"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/steppaths"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// A Sink maps a timeline onto Perfetto's tracks and its GPU model.
type Sink struct {
	out     io.Writer
	options Options

	w        *perfetto.Writer
	tracks   tracks
	calls    calls
	works    works
	marks    marks
	hangs    hangs
	counters *activity.Counters
	metrics  metrics
	gauges   activity.Gauges
	together collectives
	samples  pythonSamples
	times    threadTimes
	paths    *steppaths.Finder                       // nil without Options.Paths
	drawn    []*steppaths.Path                       // that are written
	busy     [][]activity.Sample                     // share of time in which each GPU was busy
	open     map[*timeline.Track]*timeline.SpanBegin // the endless range that is the latest one of a track
	ended    map[spanKey]bool                        // endless ranges that were ended
	shown    uint64                                  // see Slices
	args     []perfetto.Arg
	once     perfetto.TrackEventTemplate // the template of the event that is being written
}

// A spanKey identifies a span on its track.
type spanKey struct {
	of    *timeline.Track
	start uint64
	name  string
}

// Options are the options of a trace.
type Options struct {
	PieceBytes int  // bytes of events of one kind that stand together in the trace; 0 means perfetto's default
	Paths      bool // critical paths are drawn: the timeline has all calls and all work
}

// New returns a sink that writes a trace to w.
func New(w io.Writer, o Options) *Sink {
	return &Sink{out: w, options: o}
}

// Take writes events. It returns the trace's first error.
func (s *Sink) Take(events []timeline.Event) error {
	for _, e := range events {
		s.event(e)
	}
	return s.w.Err()
}

// End writes the rest of a complete timeline.
func (s *Sink) End(err error) error {
	if err != nil || s.w == nil {
		return nil
	}
	s.finish()
	return s.w.Close()
}

// Slices is the number of slices in the trace so far, as the trace processor counts them: calls,
// GPU work, spans and instants. States of threads count, too, since the load of a trace viewer grows with this
// number, and a state takes four fifths of the memory of a call.
func (s *Sink) Slices() uint64 { return s.shown }

func (s *Sink) event(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Slices:
		s.slices(e)
	case *timeline.WorkList:
		s.workList(e)
	case *timeline.SpanBegin:
		s.spanBegin(e)
	case *timeline.SpanEnd:
		s.spanEnd(e)
	case *timeline.Instant:
		s.marks.see(e.Start, e.Start)
		s.instant(s.tracks.span(e.Track, e.Start), e.Start, e.Name, string(e.Track.Category), s.details(e.Facts()))
	case *timeline.CounterValue:
		s.marks.see(e.Time, e.Time)
		if e.Counter.Sampled {
			s.gauges.Set(e)
		} else {
			s.tracks.counterValue(e)
		}
	case *timeline.ThreadEnd:
		s.tracks.thread(e.Thread, timeline.Never).closeTo(timeline.Never, 0)
	case *timeline.Samples:
		s.metrics.writeSamples(e)
	case *timeline.States:
		s.paths.States(e)
		s.states(e)
	case *timeline.StackSamples:
		s.paths.Samples(e)
		s.writeStacks(e)
	default:
		s.description(e)
	}
}

// description takes the kinds of event that are rare.
func (s *Sink) description(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Recording:
		s.begin(e)
	case *timeline.Metadata:
		s.metadata(e)
	case *timeline.GPUs:
		s.tracks.gpus = e.List
		s.gpus(e.List)
	case *timeline.Process:
		s.tracks.process(e)
		s.marks.process(e)
	case *timeline.Loss:
		s.marks.loss(e)
		s.counters.Loss(e)
	case *timeline.Stream:
		s.tracks.streams = append(s.tracks.streams, e)
	case *timeline.Hang:
		s.hangs.appendHang(e)
	case *timeline.Note:
		s.marks.note(e)
	}
}

func (s *Sink) begin(r *timeline.Recording) {
	s.w = perfetto.NewWriter(s.out, perfetto.Options{
		Monotonic: r.Monotonic, Realtime: r.Realtime, Boottime: r.Boottime, Start: r.Start, PieceBytes: s.options.PieceBytes,
	})
	s.tracks = newTracks(s.w, r)
	s.marks = newMarks()
	s.open, s.ended = make(map[*timeline.Track]*timeline.SpanBegin), make(map[spanKey]bool)
	s.metrics = metrics{sink: s, start: r.Start, series: make(map[*timeline.MetricSet]series)}
	names, callers := make(timeline.KernelNames), make(callerTexts)
	s.calls = newCalls(s.w, names, callers)
	s.works = newWorks(s.w, names, callers)
	s.together = newCollectives(s)
	s.samples = newPythonSamples()
	if s.options.Paths {
		s.paths = steppaths.New(r)
	}
	s.counters = activity.NewCounters(r.Processes > 1)
}

// finish writes what is known only at the end.
func (s *Sink) finish() {
	s.drawHangs()
	s.drawHeld()
	s.writeSamples()
	s.writeOverview()
	s.together.write()
	s.writePaths()
	s.writeOverheads(false)
	s.writeCounters()
	s.metrics.close()
	s.noteCrowd()
	if note := s.gauges.Note(); note != nil {
		s.marks.note(note)
	}
	s.writeMarks()
	s.writeView()
}

func (s *Sink) slices(l *timeline.Slices) {
	if len(l.List) == 0 {
		return
	}
	s.counters.Calls(l)
	s.paths.Calls(l)
	t := s.tracks.thread(l.Thread, l.List[0].Start)
	s.shown += uint64(len(l.List))
	for i := range l.List {
		sl := &l.List[i]
		if len(s.hangs) > 0 {
			sl = s.hangs.launched(l.Thread, sl)
		}
		if sl.HasWork() {
			if python := l.Thread.Launching(sl.Python); python != sl.Python {
				with := *sl
				with.Python, sl = python, &with
			}
		}
		t.closeTo(sl.Start, sl.Depth)
		s.calls.begin(t.Track, sl)
		t.begun = append(t.begun, begun{sl.End, awaited(sl), sl.Depth})
		s.marks.see(sl.Start, sl.End)
		if sl.Ret != 0 && sl.Depth == 0 && sl.Failed() {
			s.marks.failure(l.Thread, sl)
		}
	}
}

func (s *Sink) writeWork(l *timeline.WorkList) {
	s.counters.Work(l)
	s.paths.Work(l)
	q := s.tracks.queue(l.Stream)
	s.shown += uint64(len(l.List))
	for i := range l.List {
		w := &l.List[i]
		s.samples.sample(w, s.works.names)
		if python := w.Call.Thread.Launching(w.Call.Python); python != w.Call.Python {
			with := *w
			with.Call.Python, w = python, &with
		}
		s.works.write(q, w)
		if w.Part != nil {
			s.together.showPart(l.Stream, w)
		}
		s.marks.see(w.Start, timeline.End(w.Start, w.Dur))
		q.busy += w.Dur
	}
}

func (s *Sink) spanBegin(e *timeline.SpanBegin) {
	if e.Track.Category == timeline.CUPTI {
		return // written when it is known whether it is shown
	}
	s.paths.Begin(e)
	s.endEndless(e.Track, e.Start)
	s.shown++
	// these begin a few ns before their calls
	if c := e.Track.Category; c != timeline.PythonFunctions && c != timeline.Operators {
		s.marks.see(e.Start, e.Start)
	}
	if endless(e) {
		kept := *e
		s.open[e.Track] = &kept
		return
	}
	s.beginSpan(e)
}

func (s *Sink) beginSpan(e *timeline.SpanBegin) {
	s.once.Encode(s.w, e.Name, string(e.Track.Category), s.details(e.Facts()))
	s.tracks.span(e.Track, e.Start).Begin(e.Start, &s.once, perfetto.Links{})
}

// endless reports whether a range is one of those of NCCL that have no end in the log although the function has one:
// those of functions that make and end communicators, such as ncclCommInitRankConfig.
func endless(e *timeline.SpanBegin) bool {
	return strings.HasPrefix(e.Name, "ncclComm") && slices.ContainsFunc(e.Facts(), func(d timeline.Detail) bool {
		return d.Name == "unfinished"
	})
}

// endEndless ends the endless range of a track where the next range begins or ends: the communicator is at work. Else
// the range would cover the rest of the recording, and push down what follows. One that nothing follows may be a hang.
func (s *Sink) endEndless(t *timeline.Track, at uint64) {
	if e := s.open[t]; e != nil {
		delete(s.open, t)
		s.beginSpan(e)
		s.tracks.span(t, at).End(at)
		s.ended[spanKey{t, e.Start, e.Name}] = true
	}
}

// spanEnd ends a span, with the facts that were not known at its beginning.
func (s *Sink) spanEnd(e *timeline.SpanEnd) {
	if e.Track.Category == timeline.CUPTI {
		s.overhead(e)
		return
	}
	s.paths.End(e)
	s.marks.see(e.End, e.End)
	if key := (spanKey{e.Track, e.Start, e.Name}); s.ended[key] {
		delete(s.ended, key)
		return
	}
	if began := s.open[e.Track]; began != nil && began.Start == e.Start && began.Name == e.Name {
		delete(s.open, e.Track)
		s.beginSpan(began)
	} else {
		s.endEndless(e.Track, e.End)
	}
	s.tracks.span(e.Track, e.End).EndWith(e.End, nil, s.details(e.LateFacts())...)
}

// instant writes an event without a duration.
func (s *Sink) instant(t *perfetto.Track, at uint64, name, category string, args []perfetto.Arg) {
	s.shown++
	s.once.Encode(s.w, name, category, args)
	t.Instant(at, &s.once)
}

// details returns the arguments of a span. They are valid until the next call.
func (s *Sink) details(details []timeline.Detail) []perfetto.Arg {
	s.args = s.args[:0]
	for _, d := range details {
		switch {
		case d.Text != "":
			s.args = append(s.args, perfetto.String(d.Name, d.Text))
		case d.Hex:
			s.args = append(s.args, perfetto.Pointer(d.Name, d.Value))
		default:
			s.args = append(s.args, perfetto.Uint(d.Name, d.Value))
		}
	}
	return s.args
}
