package findings

import (
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A Collector collects the habits of processes. It is the watcher of the idle time of all devices.
type Collector struct {
	// FirstUse is the start of the first launch of a kernel.
	FirstUse func(*timeline.Shape) uint64
	// Multiprocessors is a device's number of multiprocessors, 0 if unknown.
	Multiprocessors func(gpu uint32) uint64

	// TorchFailures are requests of a process for which PyTorch had no memory: the first ones, and how many there were.
	TorchFailures func(*timeline.Process) (first []TorchFailure, count uint64)

	// NoMemory reports whether a call of a process found no memory on a GPU.
	NoMemory func(*timeline.Process) bool

	// PinnedRate is what copies of pinned memory between the host and a device reach, in bytes a second; 0 if unknown.
	PinnedRate func(gpu uint32) float64

	// KernelName is the name of a kernel for people, by its mangled name. It is asked for once all kernels are known.
	KernelName func(mangled string) string

	// Least is the least cost of a finding, in ns.
	Least uint64

	processes map[*timeline.Process]*processHabits
	list      []*processHabits
	kept      int             // long gaps of a process on a GPU that are kept
	gpus      map[uint32]*gpu // by timeline.GPU.Index
}

// processHabits are the habits of a process.
type processHabits struct {
	*timeline.Process
	stages      Stages
	first, last uint64            // of its calls and work
	worked      map[uint32]extent // its work, by GPU
	orders      bool              // it makes streams wait for each other
	told        bool              // calls are recorded that create no work

	starts   record[string] // what belongs to the start-up
	failures record[failure]
	pageable record[string] // by direction
	small    record[string] // by direction
	sets     record[string]
	waits    record[*activity.Function]
	allocs   record[string]
	loads    record[load]
	loading  []critical.Lost   // times in loads, the first ones
	lines    lines             // of pageable, small, sets and allocs
	gaps     map[uint32]*gaps  // by GPU
	idle     map[uint32]*timed // all gaps, by GPU
	tiny     map[uint32]*tiny  // by GPU
	serial   record[pair]
	kernels  map[*timeline.Shape]bool // that were launched; a full table is emptied
	names    map[string]bool          // of these kernels
	graphs   map[uint32]bool          // that were launched
}

// maxKernels bounds process.names and process.graphs.
const maxKernels = 1 << 14

// lines are the Python lines at which habits are seen.
type lines struct {
	pageable, small, sets, allocs record[*timeline.PythonFrame]

	operators map[*timeline.PythonFrame]string // of PyTorch that packages' lines call, "" for several
	alone     map[string]*timeline.PythonFrame // what stands for the line of calls without frames, by operator
}

// of is the program's own line of a call. Of a call without frames it is what stands for the operator; nil for one
// without an operator, too.
func (l *lines) of(p *timeline.Python, o *timeline.Operator) *timeline.PythonFrame {
	var line *timeline.PythonFrame
	if p != nil {
		line = p.Own().PythonFrame
	}
	switch {
	case o == nil || line != nil && line.IsOwn():
		return line
	case l.operators == nil:
		l.operators, l.alone = make(map[*timeline.PythonFrame]string), make(map[string]*timeline.PythonFrame)
	}
	name := o.Title()
	if line != nil {
		if known, ok := l.operators[line]; !ok {
			l.operators[line] = name
		} else if known != name {
			l.operators[line] = ""
		}
		return line
	}
	if l.alone[name] == nil {
		l.alone[name] = &timeline.PythonFrame{Function: name}
	}
	return l.alone[name]
}

// text is a line as people see it, with the operator that a package's line calls.
func (l *lines) text(line *timeline.PythonFrame) string {
	if name := l.operators[line]; name != "" {
		return line.Text() + " in " + name
	}
	return line.Text()
}

// seen notes that a habit was seen at a line, nil for none.
func seen(at *record[*timeline.PythonFrame], line *timeline.PythonFrame, start, cost uint64) {
	if line != nil {
		at.of(line).add(start, cost)
	}
}

// An extent is the time from the first piece of work to the last.
type extent struct{ first, last uint64 }

// tiny are kernels that are shorter than their launch, and that an idle GPU waited for.
type tiny struct {
	timed
	kernels, launches sketch.Distribution
}

// A failure is a function and its error.
type failure struct{ function, error string }

// A pair is two streams of a device.
type pair struct{ earlier, later *timeline.Stream }

// gaps are long gaps, with what the launching threads did.
type gaps struct {
	timed
	did  record[doing]
	ends record[*timeline.PythonFrame] // lines whose launches end the gaps
	kept []critical.Lost
	most int  // kept
	some bool // shorter ones were not kept
}

// New returns a collector.
func New() *Collector {
	return &Collector{Least: leastCost, kept: mostKept, processes: make(map[*timeline.Process]*processHabits)}
}

func (c *Collector) process(p *timeline.Process) *processHabits {
	r := c.processes[p]
	if r == nil {
		r = &processHabits{Process: p, first: timeline.Never, worked: make(map[uint32]extent), gaps: make(map[uint32]*gaps),
			idle: make(map[uint32]*timed), tiny: make(map[uint32]*tiny),
			kernels: make(map[*timeline.Shape]bool), names: make(map[string]bool), graphs: make(map[uint32]bool)}
		r.stages.none = p.Midway > 0
		r.failures.stages, r.serial.stages, r.loads.stages, r.waits.stages = &r.stages, &r.stages, &r.stages, &r.stages
		for _, of := range []*record[string]{&r.starts, &r.pageable, &r.small, &r.sets, &r.allocs} {
			of.stages = &r.stages
		}
		for _, of := range []*record[*timeline.PythonFrame]{&r.lines.pageable, &r.lines.small, &r.lines.sets,
			&r.lines.allocs} {
			of.stages = &r.stages
		}
		c.processes[p] = r
		c.list = append(c.list, r)
	}
	return r
}

func (p *processHabits) during(start, end uint64) {
	p.first, p.last = min(p.first, start), max(p.last, end)
}

// A Thread takes the calls of a thread.
type Thread struct {
	*processHabits
	started  uint64                        // end of the last call that belongs to a start-up
	launches uint64                        // calls so far that put work on a GPU
	at       map[*activity.Function]uint64 // launches when an allocating function was last called
}

// Thread returns a thread without calls.
func (c *Collector) Thread(t *timeline.Thread) *Thread {
	return &Thread{processHabits: c.process(t.Process)}
}

// Call takes a call that lies in no other one.
func (t *Thread) Call(sl *timeline.Slice, f *activity.Function, failed bool) {
	end := max(sl.Start, sl.End)
	t.during(sl.Start, end)
	t.Inner(sl, f)
	if failed && !harmless(sl) && !probes(sl) {
		t.failures.of(failure{f.Name, sl.ErrorName()}).add(sl.Start, 0)
	}
	switch f.Role {
	case activity.Launching:
		t.launches++
		return
	case activity.Ordering:
		t.orders = true
	case activity.Allocating:
		t.allocate(f, sl.Start, end, t.lines.of(sl.Python, sl.Operator))
	}
	t.told = true
}

// Inner takes a call that lies in another one.
func (t *Thread) Inner(sl *timeline.Slice, f *activity.Function) {
	what := startsUp(f)
	if what == "" {
		return
	}
	end := max(sl.Start, sl.End)
	if end > t.started {
		at := max(sl.Start, t.started)
		t.starts.of(what).add(at, end-at)
		t.started = end
	}
}

// allocate takes a call that allocates or frees. It is one of a loop if GPU work was launched
// since the thread last called the function.
func (t *Thread) allocate(f *activity.Function, start, end uint64, line *timeline.PythonFrame) {
	before, again := t.at[f]
	if t.at == nil {
		t.at = make(map[*activity.Function]uint64)
	}
	t.at[f] = t.launches
	if again && before != t.launches {
		t.allocs.of(f.Name).add(start, end-start)
		seen(&t.lines.allocs, line, start, end-start)
	}
}

// harmless reports whether an error is the expected answer to a question, or says that something is
// already as it should be.
func harmless(sl *timeline.Slice) bool {
	switch cudaapi.Unversioned(sl.Name) {
	case "cudaGetLastError", "cudaPeekAtLastError", // the error of an earlier call
		"cudaPointerGetAttributes", "cuPointerGetAttribute", "cuPointerGetAttributes", "cuGetProcAddress",
		"cudaGetDriverEntryPoint",
		"cudaStreamIsCapturing", "cuStreamIsCapturing", "cudaStreamGetCaptureInfo", "cuStreamGetCaptureInfo",
		"cudaFuncGetAttributes",
		"cuDeviceGetAttribute", "cudaDeviceGetAttribute":
		return true
	}
	return sl.Ret == cudaapi.ErrorPeerAccessAlreadyEnabled || sl.Ret == cudaapi.ErrorHostMemoryAlreadyRegistered
}

// probes reports whether NCCL asks, while it starts, for a kernel that it has for other GPUs only.
func probes(sl *timeline.Slice) bool {
	return sl.Name == "cuLibraryGetKernel" && sl.Ret == cudaapi.ErrorNoBinaryForGPU &&
		sl.Caller != nil && strings.HasPrefix(sl.Caller.File(), "libnccl.")
}

// A Stream takes the work of a stream.
type Stream struct {
	*processHabits
	on  uint32 // timeline.GPU.Index
	run run
	gpu *gpu
}

// A run is copies of one direction that follow each other on a stream, all of them small.
type run struct {
	kind  uint32
	list  []moment // start and time of the first calls
	bytes uint64
	rest  evidence              // of the other calls
	line  *timeline.PythonFrame // of all copies; nil where they have several, or none
}

// leastRun is the least number of copies that follow each other of which it is said that they
// could be one.
const leastRun = 4

// Stream returns a stream without work.
func (c *Collector) Stream(s *timeline.Stream) *Stream {
	return &Stream{processHabits: c.process(s.Context.Process), on: s.Context.GPU, gpu: c.gpu(s.Context.GPU)}
}

// Work takes a piece of work. Work comes mostly by start.
func (s *Stream) Work(w *timeline.Work) {
	s.stages.pieces++
	if w.Kind == timeline.KernelWork {
		s.stages.kernels++
	}
	if !w.Untimed {
		s.work(w)
		if w.Kind == timeline.KernelWork {
			s.gpu.kernel(s.Process, w)
		}
	}
	known := w.Call.Function != nil && w.Graph == 0 && !w.Untimed
	switch {
	case w.Kind == timeline.MemcpyWork && known:
		s.copy(w)
		return
	case w.Kind == timeline.MemsetWork && known && !w.Call.Async:
		s.sets.of(w.Call.Name).add(w.Call.Start, callTime(w))
		seen(&s.lines.sets, s.lines.of(w.Call.Python, w.Call.Operator), w.Call.Start, callTime(w))
	}
	s.endRun()
}

// work notes when the process worked. The first work on a GPU and the first launch of a kernel or of a graph belong to
// the start-up.
func (s *Stream) work(w *timeline.Work) {
	end := timeline.End(w.Start, w.Dur)
	s.during(w.Start, end)
	e, known := s.worked[s.on]
	if !known {
		e.first = w.Start
	}
	s.worked[s.on] = extent{min(e.first, w.Start), max(e.last, end)}
	if news := w.Kind == timeline.KernelWork && s.launched(w.Shape); news || !known || w.Graph != 0 &&
		s.launchedGraph(w.Graph) {
		s.stages.first(Launched(w))
	}
}

// Launched is the moment that decides to which stage of a process a piece of work belongs: when its call returned, or
// when the work started if that was earlier, or if the call is not known.
func Launched(w *timeline.Work) uint64 {
	if w.Call.Function != nil {
		return min(w.Start, w.Call.End)
	}
	return w.Start
}

// Stages returns the stages of a process.
func (c *Collector) Stages(of *timeline.Process) *Stages { return &c.process(of).stages }

// Stage returns when the process last did something for the first time, as far as its steady state may begin there.
func (s *Stream) Stage() uint64 {
	if n := len(s.stages.list); n > 0 {
		return s.stages.list[n-1].from
	}
	return 0
}

// launchedGraph reports whether a graph is launched for the first time.
func (p *processHabits) launchedGraph(id uint32) bool {
	if p.graphs[id] || len(p.graphs) >= maxKernels {
		return false
	}
	p.graphs[id] = true
	return true
}

// launched reports whether a kernel is launched for the first time.
func (p *processHabits) launched(shape *timeline.Shape) bool {
	if p.kernels[shape] {
		return false
	}
	if len(p.kernels) >= maxProducts {
		clear(p.kernels)
	}
	p.kernels[shape] = true
	name := shape.Kernel.Name
	if p.names[name] || len(p.names) >= maxKernels {
		return false
	}
	p.names[name] = true
	return true
}

// callTime is the time of the call that caused a piece of work.
func callTime(w *timeline.Work) uint64 { return w.Call.End - min(w.Call.Start, w.Call.End) }

func (s *Stream) copy(w *timeline.Work) {
	m := &w.Shape.Memcpy
	if m.Pageable() && m.Bytes > critical.SmallCopy {
		s.pageable.of(cudaapi.MemcpyKindName(m.CopyKind)).copied(w, m.Bytes)
		seen(&s.lines.pageable, s.lines.of(w.Call.Python, w.Call.Operator), w.Call.Start, callTime(w))
	}
	if m.Bytes > critical.SmallCopy || m.CopyKind != s.run.kind {
		s.endRun()
	}
	if m.Bytes <= critical.SmallCopy {
		s.run.add(w, m, s.lines.of(w.Call.Python, w.Call.Operator))
	}
}

// copied adds a copy.
func (t *timed) copied(w *timeline.Work, bytes uint64) {
	e := t.at(w.Call.Start)
	e.add(w.Call.Start, callTime(w))
	e.bytes = sketch.Sum(e.bytes, bytes)
	if w.Call.Async {
		e.async++
	}
}

func (r *run) add(w *timeline.Work, m *timeline.MemcpyShape, line *timeline.PythonFrame) {
	r.kind = m.CopyKind
	if len(r.list) == 0 || line != r.line {
		r.line = nil
		if len(r.list) == 0 {
			r.line = line
		}
	}
	r.bytes = sketch.Sum(r.bytes, m.Bytes)
	if len(r.list) < leastRun {
		r.list = append(r.list, moment{w.Call.Start, callTime(w)})
		return
	}
	r.rest.add(w.Call.Start, callTime(w))
}

// endRun ends a run. All its copies but one are a cost.
func (s *Stream) endRun() {
	r := &s.run
	if len(r.list) == leastRun {
		var copies evidence
		for _, m := range r.list[1:] {
			copies.add(m.at, m.cost)
		}
		copies.join(&r.rest)
		if r.line != nil {
			s.lines.small.of(r.line).at(r.list[0].at).join(&copies)
		}
		all := s.small.of(cudaapi.MemcpyKindName(r.kind)).at(r.list[0].at)
		all.join(&copies)
		all.runs++
		all.bytes = sketch.Sum(all.bytes, r.bytes)
	}
	*r = run{list: r.list[:0], rest: evidence{longest: r.rest.longest[:0]}}
}
