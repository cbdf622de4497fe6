package convert

import (
	"fmt"
	"math"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A hang is a call that had not returned.
type hang struct {
	text   string         // what it waits for, for people
	kernel *timeline.Hang // the kernel that it waits for; nil if it is not known, or was recorded with a length
}

// found returns a hang for each call: what it waited for is the first work of its stream that had not ended, or else
// the first launch without GPU work.
func (s *unended) found(c *read.Catalog) (list []hang) {
	for i := range s.calls {
		call := &s.calls[i]
		thread := fmt.Sprint("thread ", call.thread.TID)
		if call.thread.Name != "" {
			thread += " (" + call.thread.Name + ")"
		}
		waits := fmt.Sprintf("%s of process %d has been in %s for %s", thread, call.thread.Process.PID, call.name,
			age(call.start, call.end))
		if call.caller != "" {
			waits += ", called from " + call.caller
		}
		h := hang{text: waits}
		if w, on := s.awaited(c, call); w != nil {
			h.text = w.text(on, call.end) + ": " + waits
			if on != nil {
				h.kernel = w.hang(call, on, h.text)
			}
		}
		list = append(list, h)
	}
	return list
}

// An awaited is the work that a call waits for.
type awaited struct {
	work
	launch *launch // of a kernel without a record
}

// hang returns the kernel that a call waits for; nil if that is other work, or was recorded with a length.
func (w *awaited) hang(c *hangingCall, on *timeline.Stream, text string) *timeline.Hang {
	h := &timeline.Hang{PID: c.thread.Process.PID, Context: on.Context.ID, Stream: on.ID, Kernel: w.kernel,
		Correlation: w.correlation, GraphNode: w.node, Start: w.start, End: c.end, Text: text}
	switch {
	case w.launch != nil:
		h.LaunchTID, h.LaunchStart = w.launch.tid, w.launch.start
	case !w.isKernel || w.end != math.MaxUint64:
		return nil
	}
	return h
}

// text says since when work has been running; on is nil for an unknown stream.
func (w *awaited) text(on *timeline.Stream, now uint64) string {
	what, where := w.title, ""
	if w.isKernel {
		what = "kernel " + what
	}
	if on != nil {
		where = fmt.Sprintf(" on stream %d", on.ID)
	}
	return fmt.Sprintf("%s has run for %s%s and has not ended", what, age(w.start, now), where)
}

// atEnd is how long before the end of a call work that it waited for may have ended: a program's end ends its work,
// too.
const atEnd = 1e9

// awaited returns the work that a call waits for, nil if it is not known, and its stream, nil if that
// is not known.
func (s *unended) awaited(c *read.Catalog, call *hangingCall) (*awaited, *timeline.Stream) {
	if len(s.worked) == 0 {
		return nil, nil // GPU work was not recorded
	}
	on, l := s.launchBefore(call)
	stream := s.streamOf(on)
	running := work{}
	if of := s.worked[stream]; of != nil {
		running = of.running()
	}
	switch {
	case running.end == math.MaxUint64, l == nil && running.end > max(call.start, call.end-min(call.end, atEnd)):
		return &awaited{work: running}, stream
	case l == nil:
		return nil, nil
	}
	w := &awaited{work{title: "a kernel", kernel: l.kernel, start: max(l.start, running.end)}, l}
	if l.kernel == "" {
		// A program looks a kernel up when it launches it for the first time, or soon before.
		if unrun, at := s.unrun(c, call.thread.Process.PID, l.end); at > running.end {
			w.kernel = unrun
		}
	}
	if w.kernel != "" {
		w.title, w.isKernel = s.names.Of(w.kernel).Short, true
	}
	return w, stream
}

// launchBefore finds the kernel that a call waits for: on its stream, or, for a call without one, the
// only one of the process. Without one it returns the stream.
func (s *unended) launchBefore(c *hangingCall) (on streamHandle, l *launch) {
	if of := s.launched[c.on]; c.on.known && of != nil && (of.stream != nil || len(of.without) > 0) {
		return c.on, s.firstWaiting(c.on)
	}
	on = c.on
	var all any // the stream of those whose stream, or its handle, is known
	for h := range s.launched {
		if h.process != c.thread.Process {
			continue
		}
		p := s.firstWaiting(h)
		if p == nil {
			continue
		}
		var which any
		if stream := s.streamOf(h); stream != nil {
			which = stream
		} else if h.known {
			which = h
		}
		if which != nil && all != nil && which != all {
			return c.on, nil
		}
		if which != nil {
			all = which
		}
		if l == nil || p.start < l.start {
			on, l = h, p
		}
	}
	return on, l
}

func age(from, to uint64) time.Duration {
	return duration(to - min(from, to)).Round(100 * time.Millisecond)
}

// hangs returns the calls of a log that had not returned, and what they waited for.
func (c *conversion) hangs(l *log) []hang {
	if !l.catalog.Unfinished || c.nested {
		return nil
	}
	s := newUnended(l.catalog.GPUs.ContextsOf)
	if _, err := Timeline([]Log{l.Log}, Options{Filter: c.Filter, nested: true}, s); err != nil {
		return nil // the reading to come says what is wrong
	}
	return s.found(l.catalog)
}

// giveHangs passes the kernels that had not ended to a pipeline, in front of their launches, and keeps the
// texts.
func (c *conversion) giveHangs(p *pipeline.Pipeline) {
	for _, l := range c.logs {
		p.Convert(l.clock)
		drawn := make(map[timeline.Hang]bool)
		for _, h := range c.hangs(l) {
			l.hangs = append(l.hangs, h.text)
			if h.kernel == nil {
				continue
			}
			k := *h.kernel
			k.Text = "" // several calls may wait for one kernel
			if !drawn[k] {
				drawn[k] = true
				h.kernel.PID += l.offset
				p.Emit(h.kernel)
			}
		}
	}
}
