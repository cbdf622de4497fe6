package convert

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A hangSink finds the calls that had not returned when recording ended, and the kernel that each
// of them waited for: the first launch of the call's stream without GPU work behind its last work.
type hangSink struct {
	names   timeline.KernelNames
	calls   []hangingCall
	pending map[streamHandle]*launch
	streams map[streamHandle]*timeline.Stream
	last    map[*timeline.Stream]work
}

// work is a piece of GPU work.
type work struct {
	name       string
	start, end uint64
}

type hangingCall struct {
	thread       *timeline.Thread
	name, caller string
	on           streamHandle
	start, end   uint64
}

// A streamHandle is a stream as a process names it in calls; known is false for calls without one.
type streamHandle struct {
	process *timeline.Process
	handle  uint64
	known   bool
}

// A launch is a launched kernel without GPU work.
type launch struct {
	kernel string // mangled, "" if unknown
	start  uint64
}

func newHangSink() *hangSink {
	return &hangSink{names: timeline.KernelNames{}, pending: map[streamHandle]*launch{},
		streams: map[streamHandle]*timeline.Stream{}, last: map[*timeline.Stream]work{}}
}

func (s *hangSink) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Slices:
			for i := range e.List {
				s.slice(e.Thread, &e.List[i])
			}
		case *timeline.WorkList:
			for i := range e.List {
				s.work(e.Stream, &e.List[i])
			}
		}
	}
	return nil
}

func (s *hangSink) End(error) error { return nil }

// work notes the last work of a stream. Work without times had not ended when CUPTI handed it over.
func (s *hangSink) work(on *timeline.Stream, w *timeline.Work) {
	last, now := s.last[on], work{s.names.Title(w), w.Start, w.Start + w.Dur}
	if w.Kind == timeline.KernelWork {
		now.name = "kernel " + now.name
	}
	if w.Untimed || w.Dur == 0 {
		now = work{now.name, max(w.Start, last.end), math.MaxUint64}
	}
	if now.end >= last.end {
		s.last[on] = now
	}
}

func (s *hangSink) slice(t *timeline.Thread, sl *timeline.Slice) {
	on := handleOf(t, sl)
	switch {
	case sl.Flags&timeline.Unfinished != 0:
		c := hangingCall{thread: t, name: sl.Name, on: on, start: sl.Start, end: sl.End}
		if sl.Caller != nil {
			c.caller = sl.Caller.Text()
		}
		s.calls = append(s.calls, c)
	case len(sl.Work()) > 0:
		delete(s.pending, on)
		s.streams[on] = sl.Stream
	case sl.Ret == 0 && strings.Contains(sl.Name, "Launch") && s.pending[on] == nil:
		l := &launch{start: sl.Start}
		if sl.Kernel != nil {
			l.kernel = sl.Kernel.Name
		}
		s.pending[on] = l
	}
}

// handleOf finds the stream among a call's arguments.
func handleOf(t *timeline.Thread, sl *timeline.Slice) streamHandle {
	on := streamHandle{process: t.Process}
	for i, p := range sl.Params {
		if i < len(sl.Args) && strings.HasSuffix(strings.ToLower(p.Name), "stream") {
			on.handle, on.known = sl.Args[i], true
		}
	}
	return on
}

// lines says what each call waits for.
func (s *hangSink) lines() (lines []string) {
	for _, c := range s.calls {
		thread := fmt.Sprint("thread ", c.thread.TID)
		if c.thread.Name != "" {
			thread += " (" + c.thread.Name + ")"
		}
		waits := fmt.Sprintf("%s of process %d has been in %s for %s", thread, c.thread.Process.PID, c.name, age(c.start, c.end))
		if c.caller != "" {
			waits += ", called from " + c.caller
		}
		if kernel := s.awaited(&c); kernel != "" {
			waits = kernel + ": " + waits
		}
		lines = append(lines, waits)
	}
	return lines
}

// awaited says which kernel a call waits for, "" if it is not known.
func (s *hangSink) awaited(c *hangingCall) string {
	if len(s.last) == 0 {
		return "" // GPU work was not recorded
	}
	on, l := s.launchBefore(c)
	stream := s.streams[on]
	if stream == nil && !on.known && len(s.last) == 1 {
		for stream = range s.last {
		}
	}
	running := s.last[stream]
	switch {
	case l == nil && running.end > c.start: // CUPTI handed it over although it had not ended
	case l == nil:
		return ""
	default:
		running.start = max(l.start, running.end)
		running.name = "a kernel"
		if l.kernel != "" {
			running.name = "kernel " + s.names.Of(l.kernel).Short
		}
	}
	where := ""
	if stream != nil {
		where = fmt.Sprintf(" on stream %d", stream.ID)
	}
	return fmt.Sprintf("%s has run for %s%s and has not ended", running.name, age(running.start, c.end), where)
}

// launchBefore finds the kernel that a call waits for: on its stream, or, for a call without one, the
// only one of the process. Without one it returns the stream.
func (s *hangSink) launchBefore(c *hangingCall) (on streamHandle, l *launch) {
	if c.on.known {
		return c.on, s.pending[c.on]
	}
	on = c.on
	for h, p := range s.pending {
		switch {
		case h.process != c.thread.Process:
		case l != nil:
			return on, nil
		default:
			on, l = h, p
		}
	}
	return on, l
}

func age(from, to uint64) time.Duration {
	return duration(to - min(from, to)).Round(100 * time.Millisecond)
}

// hangs says which calls of a log had not returned, and what they waited for.
func (c *conversion) hangs(l *log) []string {
	s := newHangSink()
	if _, err := Timeline([]Log{l.Log}, Options{Filter: c.Filter, nested: true}, s); err != nil {
		return nil // the reading before has said what is wrong
	}
	return s.lines()
}
