package convert

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// An unended sink finds the GPU work that had not ended when reading ended: on each stream the launches without work,
// and the work that CUPTI handed over without an end. It keeps the calls that had not returned.
type unended struct {
	contexts func(pid uint32) int // that a process had
	from     uint64               // the work of earlier calls may be missing
	names    timeline.KernelNames
	ran      map[ranKernel]bool
	calls    []hangingCall
	latest   map[read.ThreadKey]uint64 // start of the latest call of a thread
	launched map[streamHandle]*launches
	worked   map[*timeline.Stream]*streamWork
	firsts   map[streamHandle]*launch // that wait, once all has been read
	places   map[place]placed         // of launches that CUPTI alone recorded, which do not name their stream and kernel
}

// A ranKernel is a kernel that has run in a process.
type ranKernel struct {
	pid    uint32
	kernel string // mangled
}

// A streamHandle is a stream as a process names it in calls; known is false for calls without one. Of launches without
// one the place tells the stream, if there was one before.
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

// launches are what calls did with a stream, as they name it.
type launches struct {
	stream  *timeline.Stream // nil if not known
	without []launch         // that had no work when they were read
	worked  uint64           // start of the latest call with work
	// start of the latest wait that has returned: for the stream, or, without a handle, for the context
	waited uint64
}

// A launch is a launch without GPU work.
type launch struct {
	call        string // function
	kernel      string // mangled, "" if unknown
	tid         uint32
	correlation uint32
	start, end  uint64 // of the call
}

// streamWork is the work of a stream.
type streamWork struct {
	last   work   // that ended last
	newest uint32 // largest correlation ID of work that ended
	// open is work without an end, by correlation ID: the order in which a stream works. All of it was
	// launched after the newest work that ended.
	open []work
}

// work is a piece of GPU work.
type work struct {
	title       string // for people
	kernel      string // mangled, "" for other work and an unknown kernel
	isKernel    bool
	launched    uint64 // start of its call, 0 if not known
	start, end  uint64
	correlation uint32
	node        uint64
}

// A hangingCall is a call that had not returned.
type hangingCall struct {
	thread       *timeline.Thread
	name, caller string
	on           streamHandle
	start, end   uint64
}

const (
	mostUnended = 1 << 13 // launches of a stream: it takes about 1,024 in advance, so of more the oldest have ended
	mostPlaces  = 1 << 16
)

func newUnended(contexts func(pid uint32) int) *unended {
	return &unended{
		contexts: contexts, names: timeline.KernelNames{},
		ran: map[ranKernel]bool{}, latest: map[read.ThreadKey]uint64{},
		launched: map[streamHandle]*launches{}, firsts: map[streamHandle]*launch{},
		worked: map[*timeline.Stream]*streamWork{}, places: map[place]placed{},
	}
}

func (s *unended) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Slices:
			for i := range e.List {
				s.call(e.Thread, &e.List[i])
			}
		case *timeline.WorkList:
			for i := range e.List {
				s.work(e.Stream, &e.List[i])
			}
		}
	}
	return nil
}

func (s *unended) End(error) error { return nil }

func (s *unended) call(t *timeline.Thread, sl *timeline.Slice) {
	thread := read.ThreadKey{PID: t.Process.PID, TID: t.TID}
	s.latest[thread] = max(s.latest[thread], sl.Start)
	on, at, works := handleOf(t, sl), place{t.Process, sl.Caller, sl.Python}, len(sl.Work()) > 0
	switch {
	case len(sl.Args) == 0 && works:
		on.stream = sl.Stream
	case len(sl.Args) == 0 && sl.Launch:
		on.stream = s.places[at].stream
	}
	switch {
	case sl.Flags&timeline.Unfinished != 0:
		if t.Process.Exit == timeline.ExitExec {
			return // the program ended before it returned
		}
		c := hangingCall{thread: t, name: sl.Name, on: on, start: sl.Start, end: sl.End}
		if sl.Caller != nil {
			c.caller = sl.Caller.Text()
		}
		s.calls = append(s.calls, c)
	case works:
		l := s.of(on)
		l.stream, l.worked = sl.Stream, max(l.worked, sl.Start)
		s.learn(at, sl)
	case sl.Stream != nil: // it made the stream
		s.of(on).stream = sl.Stream
	case sl.Launch && sl.Ret == 0 && sl.Start > s.from:
		s.launch(s.of(on), t, sl, at)
	default:
		s.wait(on, sl)
	}
}

func (s *unended) of(on streamHandle) *launches {
	l := s.launched[on]
	if l == nil {
		l = &launches{stream: on.stream}
		s.launched[on] = l
	}
	return l
}

// learn notes what a launch did.
func (s *unended) learn(at place, sl *timeline.Slice) {
	if at.caller == nil && at.python == nil {
		return
	}
	if _, known := s.places[at]; known || len(s.places) < mostPlaces {
		p := placed{stream: sl.Stream}
		if sl.Launched != nil {
			p.kernel = sl.Launched.Kernel.Name
		}
		s.places[at] = p
	}
}

func (s *unended) launch(on *launches, t *timeline.Thread, sl *timeline.Slice, at place) {
	l := launch{
		call: sl.Name, kernel: s.places[at].kernel, tid: t.TID, correlation: sl.Correlation, start: sl.Start, end: sl.End,
	}
	if sl.Kernel != nil {
		l.kernel = sl.Kernel.Name
	}
	if len(on.without) == mostUnended {
		on.without = slices.Delete(on.without, 0, mostUnended/2)
	}
	on.without = append(on.without, l)
}

// perThreadStream is CU_STREAM_PER_THREAD.
const perThreadStream = 2

// wait notes a call that has returned: if it waited for a stream or a context, the work that was launched before has
// ended.
func (s *unended) wait(on streamHandle, sl *timeline.Slice) {
	switch {
	case sl.Ret != 0, sl.PerThread, on.handle == perThreadStream: // the same handle is a stream in each thread
	case sl.Wait == cudaapi.ContextWait, sl.Wait == cudaapi.StreamWait && on.known:
		l := s.of(on)
		l.waited = max(l.waited, sl.Start)
	}
}

// handleOf finds the stream among a call's arguments.
func handleOf(t *timeline.Thread, sl *timeline.Slice) streamHandle {
	on := streamHandle{process: t.Process}
	on.handle, on.known = sl.Handle(timeline.StreamHandle)
	return on
}

// work notes work of a stream. Work without a length had not ended when CUPTI handed it over, unless work
// behind it has ended.
func (s *unended) work(on *timeline.Stream, w *timeline.Work) {
	of := s.worked[on]
	if of == nil {
		of = &streamWork{}
		s.worked[on] = of
	}
	now := work{title: s.names.Title(w), launched: w.Call.Start, start: w.Start, end: w.Start + w.Dur,
		correlation: w.Correlation, node: w.GraphNode}
	if w.Kind == timeline.KernelWork {
		now.kernel, now.isKernel = w.Shape.Kernel.Name, true
	}
	if w.Untimed || w.Dur == 0 {
		of.begin(now)
		return
	}
	of.end(now)
	if now.isKernel {
		s.ran[ranKernel{on.Context.Process.PID, now.kernel}] = true
	}
}

// begin takes work without an end.
func (of *streamWork) begin(w work) {
	if w.correlation < of.newest {
		return
	}
	at, _ := slices.BinarySearchFunc(of.open, w, func(a, b work) int {
		return cmp.Or(cmp.Compare(a.correlation, b.correlation), -1)
	})
	if at < mostUnended {
		of.open = slices.Insert(of.open[:min(len(of.open), mostUnended-1)], at, w)
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

// isOf reports whether the work is that of a launch, or of a later one on its stream. It may begin long after its
// launch.
func (w *work) isOf(l *launch) bool {
	switch {
	case l.correlation != 0 && w.correlation != 0:
		return int32(w.correlation-l.correlation) >= 0 // IDs grow, and begin again
	case w.launched != 0:
		return w.launched >= l.start
	}
	return w.start > l.start
}

// waiting returns the launches on a stream whose work has not ended as far as is known. It has where a later launch has
// work, and where a wait has returned that began after the launch had: CUPTI hands over no work while a kernel behind
// it in the same buffer runs. That a handle has one meaning is certain in processes of one context.
func (s *unended) waiting(on streamHandle) (list []launch) {
	of := s.launched[on]
	waited := uint64(0)
	if s.contexts(on.process.PID) <= 1 {
		waited = of.waited
		if all := s.launched[streamHandle{process: on.process}]; all != nil {
			waited = max(waited, all.waited)
		}
	}
	worked := s.worked[of.stream]
	for _, l := range of.without {
		if l.start >= of.worked && l.end > waited && (worked == nil || !worked.last.isOf(&l)) {
			list = append(list, l)
		}
	}
	return list
}

// streamOf is the stream of a handle, nil if it is not known. Without a handle it is the only one of the process that
// has worked.
func (s *unended) streamOf(on streamHandle) (only *timeline.Stream) {
	if of := s.launched[on]; of != nil && of.stream != nil {
		return of.stream
	}
	if on.known {
		return nil
	}
	for stream := range s.worked {
		switch {
		case stream.Context.Process != on.process:
		case only != nil:
			return nil
		default:
			only = stream
		}
	}
	return only
}

// firstWaiting returns the launch on a stream that waits first, nil for none. All has been read.
func (s *unended) firstWaiting(on streamHandle) *launch {
	l, known := s.firsts[on]
	if !known {
		l = first(s.waiting(on))
		s.firsts[on] = l
	}
	return l
}

// first returns the launch that began first, nil of none.
func first(list []launch) *launch {
	if len(list) == 0 {
		return nil
	}
	l := slices.MinFunc(list, func(a, b launch) int { return cmp.Compare(a.start, b.start) })
	return &l
}

// unrun returns the kernel that a process's program had looked up last by a time, mangled, and when; "" if it has run.
func (s *unended) unrun(c *read.Catalog, pid uint32, by uint64) (kernel string, at uint64) {
	programs := c.Processes.Get(pid).Programs
	kernel, at = programs[len(programs)-1].Handles.LookedUp(by)
	if s.ran[ranKernel{pid, kernel}] {
		return "", 0
	}
	return kernel, at
}

// streamText is a stream for people.
func streamText(s *timeline.Stream) string {
	if s.Name != "" {
		return fmt.Sprintf("stream %d (%s)", s.ID, s.Name)
	}
	return fmt.Sprintf("stream %d", s.ID)
}
