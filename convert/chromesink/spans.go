package chromesink

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// spanCategories are Kineto's, where it has one.
var spanCategories = map[timeline.Category]string{
	timeline.NVTX: "user_annotation", timeline.GPURanges: "gpu_user_annotation", timeline.CUPTI: "overhead", timeline.Memory: "memory_pool",
	timeline.PythonFunctions: "python_function",
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

// A span is an open span of a track.
type span struct {
	timeline.Span
	python, caller uint64 // numbers of a Python function and of the one that called it, 0 for none
}

// stepOn returns the step that an NVTX range on a track is, nil for other spans: it is shown as ProfilerStep#N.
func (sp *span) stepOn(t *timeline.Track) *timeline.Step {
	if t.Category != timeline.NVTX || sp.Ranges == nil {
		return nil
	}
	return sp.Ranges.Step
}

// trackRow returns the row of a track, nil without a file. It stands beside the track's stream or
// thread, or else beside the main thread. The spans of a track nest, so it has one lane. Python functions
// nest with the calls of their thread, and share its row.
func (s *Sink) trackRow(t *timeline.Track) *row {
	if t.Category == timeline.PythonFunctions {
		return s.threadRow(t.Thread)
	}
	r := s.rows[t]
	if r == nil {
		f := s.file(t.Process)
		if f == nil {
			return nil
		}
		r = &row{file: f, pid: t.Process.PID, base: t.Process.PID, name: t.Name, beside: true}
		switch {
		case t.Stream != nil:
			device := t.Stream.Context.Device
			f.gpu(device)
			r.pid, r.base, r.name = device, t.Stream.ID, strings.TrimSpace(streamName(t.Stream))+" "+t.Name+" of "+threadName(t.Thread)
		case t.Thread != nil:
			r.base, r.name = t.Thread.TID, threadName(t.Thread)+" "+cmp.Or(t.Name, "functions")
		}
		s.rows[t] = r
	}
	return r
}

// spanBegin writes a span, or keeps it until its end is known.
func (s *Sink) spanBegin(e *timeline.SpanBegin) {
	r := s.trackRow(e.Track)
	if r == nil {
		return
	}
	sp := &span{Span: e.Span}
	sp.Args = slices.Clone(e.Args)
	if open := s.spans[e.Track]; e.Track.Category == timeline.PythonFunctions {
		r.file.functions++
		if sp.python = r.file.functions; len(open) > 0 {
			sp.caller = open[len(open)-1].python
		}
	}
	s.spans[e.Track] = append(s.spans[e.Track], sp)
	if !sp.Open {
		r.span(e.Track, sp)
	}
}

// spanEnd ends the innermost open span of a track.
func (s *Sink) spanEnd(e *timeline.SpanEnd) {
	open := s.spans[e.Track]
	r := s.trackRow(e.Track)
	if len(open) == 0 || r == nil {
		return
	}
	sp := open[len(open)-1]
	s.spans[e.Track] = open[:len(open)-1]
	if sp.Open {
		sp.End, sp.Args = e.Time, append(sp.Args, e.Args...)
		r.span(e.Track, sp)
	}
}

func (r *row) span(t *timeline.Track, sp *span) {
	name, step := sp.Name, sp.stepOn(t)
	switch {
	case step != nil:
		name = fmt.Sprintf("ProfilerStep#%d", step.Number)
	case t.Category == timeline.CUPTI:
		name = cmp.Or(overheadNames[name], name)
	}
	f := r.file
	o := f.slice(spanCategory(t.Category), name, r.pid, r.first().tid, sp.Start, sp.End)
	if step != nil {
		o.string("range", sp.Name)
	}
	if sp.python != 0 {
		o.uint("Python id", sp.python)
		if sp.caller != 0 {
			o.uint("Python parent id", sp.caller)
		} else {
			o.raw("Python parent id", []byte("null"))
		}
	}
	details(&o, sp.Args)
	f.endArgs(&o)
}

func (s *Sink) instant(e *timeline.Instant) {
	r := s.trackRow(e.Track)
	if r == nil {
		return
	}
	f := r.file
	o := f.begin("i", spanCategory(e.Track.Category), e.Name, r.pid, r.first().tid, e.Start)
	o.string("s", "t")
	o.begin("args")
	details(&o, e.Args)
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
