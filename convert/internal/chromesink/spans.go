package chromesink

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// spanCategories are Kineto's, where it has one.
var spanCategories = map[timeline.Category]string{
	timeline.NVTX: "user_annotation", timeline.GPURanges: "gpu_user_annotation", timeline.CUPTI: "overhead",
	timeline.Memory:          "memory_pool",
	timeline.PythonFunctions: "python_function",
	timeline.Operators:       "cpu_op",
}

func spanCategory(c timeline.Category) string { return cmp.Or(spanCategories[c], string(c)) }

// overheadNames are Kineto's names of kinds of overhead.
var overheadNames = map[string]string{
	"unknown overhead":                 "Unknown",
	"driver compiler":                  "Driver Compiler",
	"CUPTI buffer flush":               "Buffer Flush",
	"CUPTI instrumentation":            "Instrumentation",
	"CUPTI resource":                   "Resource",
	"runtime triggered module loading": "Runtime Triggered Module Loading",
	"lazy function loading":            "Lazy Function Loading",
	"command buffer full":              "Command Buffer Full",
	"CUPTI activity buffer request":    "Activity Buffer Request",
	"unified memory activity start":    "UVM Activity Init",
}

// trackRow returns the row of a track, nil without a file. It stands beside the track's stream or
// thread, or else beside the main thread. The spans of a track nest, so it has one lane. Operators nest with the calls
// of their thread, and share its row, and so do Python functions unless operators have times of their own; ranges of
// PyTorch need not.
func (s *Sink) trackRow(t *timeline.Track, sp *timeline.Span) *row {
	if t.Category == timeline.PythonFunctions && !t.Thread.Spans || isOperator(sp.Operator) {
		return s.threadRow(t.Thread)
	}
	r := s.rows[t]
	if r == nil {
		f := s.file(t.Process)
		if f == nil {
			return nil
		}
		r = &row{file: f, pid: t.Process.PID, base: t.Process.PID, name: t.Title(), beside: true}
		switch {
		case t.Stream != nil:
			device := t.Stream.Context.Device
			f.gpu(device)
			r.pid, r.base, r.name = device, t.Stream.ID, strings.TrimSpace(streamName(t.Stream))+" "+t.Title()+" of "+
				threadName(t.Thread)
		case t.Thread != nil:
			r.base, r.name = t.Thread.TID, threadName(t.Thread)+" "+cmp.Or(t.Title(), "functions")
		}
		s.rows[t] = r
	}
	return r
}

// spanBegin writes a span if its end is known.
func (s *Sink) spanBegin(e *timeline.SpanBegin) {
	r := s.trackRow(e.Track, &e.Span)
	if r == nil {
		return
	}
	if isOperator(e.Operator) && e.Open {
		r.operator, r.launched = e.Number, 0
	}
	if !e.Open {
		s.span(r, e.Track, &e.Span, nil)
	}
}

// spanEnd writes a span whose end was not known.
func (s *Sink) spanEnd(e *timeline.SpanEnd) {
	if r := s.trackRow(e.Track, &e.Span); r != nil && e.Open {
		s.span(r, e.Track, &e.Span, e.LateFacts())
	}
}

// span writes a span. An NVTX range that is a step is shown as ProfilerStep#N.
func (s *Sink) span(r *row, t *timeline.Track, sp *timeline.Span, late []timeline.Detail) {
	name, step := sp.Name, (*timeline.Step)(nil)
	switch {
	case t.Category == timeline.NVTX && sp.Ranges != nil && sp.Ranges.Step != nil:
		step = sp.Ranges.Step
		name = fmt.Sprintf("ProfilerStep#%d", step.Number)
	case t.Category == timeline.CUPTI:
		name = cmp.Or(overheadNames[name], name)
	}
	f, cat := r.file, spanCategory(t.Category)
	if t.Category == timeline.Operators && !isOperator(sp.Operator) {
		cat = spanCategory(timeline.NVTX)
	}
	o := f.slice(cat, name, r.pid, r.first().tid, sp.Start, sp.End)
	if step != nil {
		o.string("range", sp.Name)
	}
	if t.Category == timeline.PythonFunctions {
		o.uint("Python id", sp.Number)
		if sp.Outer != 0 {
			o.uint("Python parent id", sp.Outer)
		} else {
			o.raw("Python parent id", []byte("null"))
		}
	}
	if isOperator(sp.Operator) {
		o.uint("External id", r.externalID(sp))
	}
	details(&o, sp.Facts())
	details(&o, late)
	f.endArgs(&o)
}

func (s *Sink) instant(e *timeline.Instant) {
	r := s.trackRow(e.Track, &e.Span)
	if r == nil {
		return
	}
	f := r.file
	o := f.begin("i", spanCategory(e.Track.Category), e.Name, r.pid, r.first().tid, e.Start)
	o.string("s", "t")
	o.begin("args")
	details(&o, e.Facts())
	f.endArgs(&o)
}

// renamed are the names of facts that readers take for something else: on a row of a thread they
// count the row as a call.
var renamed = map[string]string{"correlation": "call correlation", "stream": "cuda stream"}

func details(o *object, list []timeline.Detail) {
	for _, d := range list {
		name := cmp.Or(renamed[d.Name], d.Name)
		switch {
		case d.Text != "":
			o.string(name, d.Text)
		case d.Hex:
			o.pointer(name, d.Value)
		default:
			o.uint(name, d.Value)
		}
	}
}
