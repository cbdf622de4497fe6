package convert

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A hangSink finds the calls that had not returned when recording ended, and the kernel that each
// of them waited for: the first work of the call's stream that had not ended when CUPTI handed it over, or
// else the first launch without GPU work behind the stream's last work.
type hangSink struct {
	contexts func(pid uint32) int
	lookedUp func(pid uint32, by uint64) (kernel string, at uint64)
	ran      map[string]bool // kernels that have run, mangled
	waited   returnedWaits
	names    timeline.KernelNames
	calls    []hangingCall
	pending  map[streamHandle]*launch
	places   map[place]placed // of launches that CUPTI alone recorded, which do not name their stream and kernel
	streams  map[streamHandle]*timeline.Stream
	last     map[*timeline.Stream]*streamWork
}

// streamWork is the work of a stream.
type streamWork struct {
	last   work   // that ended last
	newest uint32 // largest correlation ID of work that ended
	// open is work without an end, by correlation ID: the order in which a stream works. All of it was
	// launched after the newest work that ended.
	open []work
}

// maxOpen bounds the work without an end of a stream. A stream takes about 1,024 launches in advance.
const maxOpen = 1 << 14

// work is a piece of GPU work.
type work struct {
	name        string // for people
	kernel      string // mangled, "" for other work and an unknown kernel
	start, end  uint64
	correlation uint32
	node        uint64
	isKernel    bool
	launch      *launch // of a kernel without a record
}

type hangingCall struct {
	thread       *timeline.Thread
	name, caller string
	on           streamHandle
	start, end   uint64
}

// A streamHandle is a stream as a process names it in calls; known is false for calls without one. Of launches without one
// the place tells the stream, if there was one before.
type streamHandle struct {
	process *timeline.Process
	handle  uint64
	known   bool
	stream  *timeline.Stream
}

// A place is where calls are made.
type place struct {
	process *timeline.Process
	caller  *timeline.Caller
	python  *timeline.Python
}

// placed is what the latest launch at a place put on the GPU.
type placed struct {
	stream *timeline.Stream
	kernel string // mangled
}

// maxPlaces bounds the places.
const maxPlaces = 1 << 16

// learn notes what a launch did.
func (s *hangSink) learn(at place, sl *timeline.Slice) {
	if at.caller == nil && at.python == nil {
		return
	}
	if _, known := s.places[at]; known || len(s.places) < maxPlaces {
		p := placed{stream: sl.Stream}
		if sl.Launched != nil && sl.Launched.Kernel.Name != "" {
			p.kernel = sl.Launched.Kernel.Name
		}
		s.places[at] = p
	}
}

// A launch is a launched kernel without GPU work.
type launch struct {
	kernel     string // mangled, "" if unknown
	tid        uint32
	start, end uint64 // of the call
}

// newHangSink makes a sink for a log. contexts are how many a process had, lookedUp is the kernel that it had looked up last by a
// time.
func newHangSink(contexts func(pid uint32) int, lookedUp func(pid uint32, by uint64) (kernel string, at uint64)) *hangSink {
	return &hangSink{contexts: contexts, lookedUp: lookedUp, ran: map[string]bool{}, waited: returnedWaits{}, names: timeline.KernelNames{}, pending: map[streamHandle]*launch{},
		places: map[place]placed{}, streams: map[streamHandle]*timeline.Stream{}, last: map[*timeline.Stream]*streamWork{}}
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

// work notes work of a stream. Work without a length had not ended when CUPTI handed it over, unless work
// behind it has ended.
func (s *hangSink) work(on *timeline.Stream, w *timeline.Work) {
	of := s.last[on]
	if of == nil {
		of = &streamWork{}
		s.last[on] = of
	}
	now := work{name: s.names.Title(w), start: w.Start, end: w.Start + w.Dur, correlation: w.Correlation, node: w.GraphNode}
	if w.Kind == timeline.KernelWork {
		now.name, now.kernel, now.isKernel = "kernel "+now.name, w.Shape.Kernel.Name, true
	}
	if w.Untimed || w.Dur == 0 {
		of.begin(now)
	} else {
		of.end(now)
		s.ran[now.kernel] = true
	}
}

// begin takes work without an end.
func (of *streamWork) begin(w work) {
	if w.correlation < of.newest {
		return
	}
	at, _ := slices.BinarySearchFunc(of.open, w, func(a, b work) int { return cmp.Or(cmp.Compare(a.correlation, b.correlation), -1) })
	if at < maxOpen {
		of.open = slices.Insert(of.open[:min(len(of.open), maxOpen-1)], at, w)
	}
}

// end takes work that ended.
func (of *streamWork) end(w work) {
	if w.end >= of.last.end {
		of.last = w
	}
	if w.correlation > of.newest {
		of.newest = w.correlation
		over := 0
		for over < len(of.open) && of.open[over].correlation < of.newest {
			over++
		}
		of.open = slices.Delete(of.open, 0, over)
	}
}

// running returns the work that had not ended, or else the last one that had.
func (of *streamWork) running() work {
	if len(of.open) == 0 {
		return of.last
	}
	w := of.open[0]
	w.start, w.end = max(w.start, of.last.end), math.MaxUint64
	return w
}

func (s *hangSink) slice(t *timeline.Thread, sl *timeline.Slice) {
	on, at := handleOf(t, sl), place{t.Process, sl.Caller, sl.Python}
	if launches := len(sl.Work()) > 0 || sl.Launch; launches && len(sl.Args) == 0 {
		on.stream = s.places[at].stream
		if len(sl.Work()) > 0 {
			on.stream = sl.Stream
		}
	}
	switch {
	case sl.Flags&timeline.Unfinished != 0 && t.Process.Exit == timeline.ExitExec:
		return // the program ended before it returned
	case sl.Flags&timeline.Unfinished != 0:
		c := hangingCall{thread: t, name: sl.Name, on: on, start: sl.Start, end: sl.End}
		if sl.Caller != nil {
			c.caller = sl.Caller.Text()
		}
		s.calls = append(s.calls, c)
	case len(sl.Work()) > 0:
		delete(s.pending, on)
		s.streams[on] = sl.Stream
		s.learn(at, sl)
	case sl.Stream != nil: // it made the stream
		s.streams[on] = sl.Stream
	case sl.Ret == 0 && sl.Launch && (s.pending[on] == nil || s.waited.cover(on, s.pending[on].end)):
		l := &launch{tid: t.TID, start: sl.Start, end: sl.End}
		if sl.Kernel != nil {
			l.kernel = sl.Kernel.Name
		} else {
			l.kernel = s.places[at].kernel
		}
		s.pending[on] = l
	case s.contexts(t.Process.PID) <= 1:
		s.waited.take(on, sl)
	}
}

// returnedWaits are the latest beginnings of the calls that waited for a stream, or, by a handle that is not known, for the
// context: the work that was launched before has ended. That counts for processes of one context, whose handles have one meaning.
type returnedWaits map[streamHandle]uint64

// perThreadStream is CU_STREAM_PER_THREAD.
const perThreadStream = 2

// take notes a call that has returned.
func (w returnedWaits) take(on streamHandle, sl *timeline.Slice) {
	switch {
	case sl.Ret != 0 || sl.Flags&timeline.Unfinished != 0:
	case sl.PerThread, on.handle == perThreadStream: // the same handle is a stream in each thread
	case sl.Wait == cudaapi.ContextWait, sl.Wait == cudaapi.StreamWait && on.known:
		w[on] = max(w[on], sl.Start)
	}
}

// cover reports whether the work of a launch on a stream has ended. The launch returned at that time: a wait that began before may have missed it.
func (w returnedWaits) cover(on streamHandle, launched uint64) bool {
	return launched <= max(w[on], w[streamHandle{process: on.process}])
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

// A hang is a call that had not returned.
type hang struct {
	text   string         // what it waits for, for people
	kernel *timeline.Hang // the kernel that it waits for; nil if it is not known, or was recorded with a length
}

// found returns a hang for each call.
func (s *hangSink) found() (list []hang) {
	for i := range s.calls {
		c := &s.calls[i]
		thread := fmt.Sprint("thread ", c.thread.TID)
		if c.thread.Name != "" {
			thread += " (" + c.thread.Name + ")"
		}
		waits := fmt.Sprintf("%s of process %d has been in %s for %s", thread, c.thread.Process.PID, c.name, age(c.start, c.end))
		if c.caller != "" {
			waits += ", called from " + c.caller
		}
		h := hang{text: waits}
		if w, on := s.awaited(c); w != nil {
			h.text = w.text(on, c.end) + ": " + waits
			if on != nil {
				h.kernel = w.hang(c, on, h.text)
			}
		}
		list = append(list, h)
	}
	return list
}

// hang returns the kernel that a call waits for; nil if that is other work, or was recorded with a length.
func (w *work) hang(c *hangingCall, on *timeline.Stream, text string) *timeline.Hang {
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
func (w *work) text(on *timeline.Stream, now uint64) string {
	where := ""
	if on != nil {
		where = fmt.Sprintf(" on stream %d", on.ID)
	}
	return fmt.Sprintf("%s has run for %s%s and has not ended", w.name, age(w.start, now), where)
}

// atEnd is how long before the end of a call work that it waited for may have ended: a program's end ends its work, too.
const atEnd = 1e9

// awaited returns the work that a call waits for, nil if it is not known, and its stream, nil if that
// is not known.
func (s *hangSink) awaited(c *hangingCall) (*work, *timeline.Stream) {
	if len(s.last) == 0 {
		return nil, nil // GPU work was not recorded
	}
	on, l := s.launchBefore(c)
	stream := s.streams[on]
	if stream == nil && !on.known && len(s.last) == 1 {
		for stream = range s.last {
		}
	}
	running := work{}
	if of := s.last[stream]; of != nil {
		running = of.running()
	}
	switch {
	case running.end == math.MaxUint64, l == nil && running.end > max(c.start, c.end-min(c.end, atEnd)):
		return &running, stream
	case l == nil:
		return nil, nil
	}
	if name, at := s.lookedUp(c.thread.Process.PID, l.end); l.kernel == "" && at > running.end && !s.ran[name] {
		l.kernel = name // a program looks a kernel up when it launches it for the first time, or soon before
	}
	running = work{name: "a kernel", kernel: l.kernel, start: max(l.start, running.end), launch: l}
	if l.kernel != "" {
		running.name = "kernel " + s.names.Of(l.kernel).Short
	}
	return &running, stream
}

// launchBefore finds the kernel that a call waits for: on its stream, or, for a call without one, the
// only one of the process. Without one it returns the stream.
func (s *hangSink) launchBefore(c *hangingCall) (on streamHandle, l *launch) {
	if l = s.pending[c.on]; c.on.known && (l != nil || s.streams[c.on] != nil) {
		if l != nil && s.waited.cover(c.on, l.end) {
			l = nil
		}
		return c.on, l
	}
	on = c.on
	var all any // the stream of those whose stream, or its handle, is known
	for h, p := range s.pending {
		if h.process != c.thread.Process || s.waited.cover(h, p.end) {
			continue
		}
		if of := s.streamOf(h); of != nil && all != nil && of != all {
			return c.on, nil
		} else if of != nil {
			all = of
		}
		if l == nil || p.start < l.start {
			on, l = h, p
		}
	}
	return on, l
}

// streamOf returns what tells the stream of a launch from others: the stream, or its handle; nil if neither is known.
func (s *hangSink) streamOf(on streamHandle) any {
	switch known := s.streams[on]; {
	case on.stream != nil:
		return on.stream
	case known != nil:
		return known
	case on.known:
		return on
	}
	return nil
}

func age(from, to uint64) time.Duration {
	return duration(to - min(from, to)).Round(100 * time.Millisecond)
}

// hangs returns the calls of a log that had not returned, and what they waited for.
func (c *conversion) hangs(l *log) []hang {
	if !l.catalog.Unfinished || c.nested {
		return nil
	}
	s := newHangSink(l.catalog.GPUs.ContextsOf, func(pid uint32, by uint64) (string, uint64) {
		programs := l.catalog.Processes.Get(pid).Programs
		return programs[len(programs)-1].Handles.LookedUp(by)
	})
	if _, err := Timeline([]Log{l.Log}, Options{Filter: c.Filter, nested: true}, s); err != nil {
		return nil // the reading to come says what is wrong
	}
	return s.found()
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
