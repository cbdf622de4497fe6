package pfsink

import (
	"cmp"
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// works write GPU work.
type works struct {
	w         *perfetto.Writer
	names     timeline.KernelNames
	callers   callerTexts
	gpus      map[uint32]*gpu // by index
	hang      string          // what waits for the work that had not ended
	kernels   map[kernelKey]perfetto.KernelID
	shapes    map[string]int                // interned shapes, by the kernel's name
	whole     map[workKey]perfetto.KernelID // see wholeUses
	templates []workTemplate
	args      []perfetto.Arg
}

// A workTemplate has the common part of work that is encoded alike.
type workTemplate struct {
	key  workKey
	uses int
	perfetto.RenderStageTemplate
}

type workKey struct {
	shape    *timeline.Shape
	stream   *timeline.Stream
	call     *timeline.Function
	caller   *timeline.Caller
	python   *timeline.Python
	operator *timeline.Operator
	made     *timeline.Function // of the captured call, or of the call
	maker    *timeline.Caller   // the same's
	graph    uint32
	kind     timeline.WorkKind
	lack     timeline.Uncaptured
}

func newWorks(w *perfetto.Writer, names timeline.KernelNames, callers callerTexts) works {
	return works{w: w, names: names, callers: callers, gpus: make(map[uint32]*gpu),
		kernels: make(map[kernelKey]perfetto.KernelID), shapes: make(map[string]int),
		whole: make(map[workKey]perfetto.KernelID), templates: make([]workTemplate, templates)}
}

// write writes a piece of work.
func (s *works) write(q *queue, w *timeline.Work) {
	t := s.template(q, w)
	s.args = s.args[:0]
	if w.Kind == timeline.MemcpyWork || w.Kind == timeline.MemsetWork {
		s.throughput(q.stream.Context.GPU, w)
	}
	if w.Graph != 0 {
		s.args = append(s.args, perfetto.Uint("graph_node", w.GraphNode))
	}
	if w.Part != nil {
		s.part(w.Part)
	}
	s.nccl(w.NCCL)
	if w.Unfinished {
		s.args = append(s.args, perfetto.String("unfinished", "had not ended when recording ended"),
			perfetto.Uint("age_ns", w.Dur), perfetto.String("hang", s.hang))
	}
	if w.Untimed {
		s.args = append(s.args, perfetto.String("untimed", timeline.UntimedReason))
	}
	if w.Correlation != 0 || !w.Unfinished {
		s.args = append(s.args, perfetto.Uint("correlation", uint64(w.Correlation)))
	}
	if w.Call.Function != nil && !w.Untimed && !guessed(w) {
		// The exact value would take a byte more of each launch. Two times in the trace have it.
		s.args = append(s.args, perfetto.Uint("queue_delay_ns", twoDigits(w.Start-min(w.Start, w.Call.End))))
	}
	q.Event(t, w.ID, w.Start, w.Dur, s.args...)
}

// nccl adds what the calls of NCCL that launched a kernel say.
func (s *works) nccl(n *timeline.NCCL) {
	if n == nil {
		return
	}
	if n.Communicator != 0 {
		s.args = append(s.args, perfetto.Pointer("communicator", n.Communicator))
	}
	if n.HasBytes {
		s.args = append(s.args, perfetto.Uint("bytes", n.Bytes))
	}
}

// throughput adds the rate, so that people need not compute it. Bytes per nanosecond are GB per
// second.
func (s *works) throughput(index uint32, w *timeline.Work) {
	bytes := w.Shape.Memcpy.Bytes + w.Shape.Memset.Bytes // one of them is 0
	if w.Dur == 0 {
		return
	}
	rate := float64(bytes) / float64(w.Dur)
	s.args = append(s.args, perfetto.Float("throughput_GBps", math.Round(1000*rate)/1000))
	if g := s.gpus[index]; g != nil && w.Kind == timeline.MemcpyWork {
		s.share(g, &w.Shape.Memcpy, 1e9*rate)
	}
}

// share adds the share of a copy's rate, in bytes a second, in what its way gives: the PCIe link between host and
// device, the memory of a device, where each byte is read and written. The log does not tell the way between two
// devices.
func (s *works) share(g *gpu, m *timeline.MemcpyShape, rate float64) {
	switch m.CopyKind {
	case cudaapi.MemcpyHtoD, cudaapi.MemcpyDtoH, cudaapi.MemcpyHtoA, cudaapi.MemcpyAtoH:
		if most := g.Link.Rate(); most > 0 {
			s.args = append(s.args, perfetto.Uint("link_share_percent", percent(rate/most)))
		}
	case cudaapi.MemcpyDtoD:
		if most := 1000 * float64(g.Bandwidth); most > 0 && m.SrcDevice == m.DstDevice {
			s.args = append(s.args, perfetto.Uint("memory_share_percent", percent(2*rate/most)))
		}
	}
}

// template returns the template of a piece of work on a queue.
func (s *works) template(q *queue, w *timeline.Work) *perfetto.RenderStageTemplate {
	h := uint64(w.Shape.ID)<<4 + q.nth // a few hundred shapes on a few streams do not collide
	if w.Call.Caller != nil {
		h += uint64(w.Call.Caller.ID) << 7
	}
	if w.Call.Python != nil {
		h += pythonSpread * uint64(w.Call.Python.ID)
	}
	h += operatorNumber(w.Call.Operator)
	made := cmp.Or(w.Captured, &w.Call)
	if w.Captured != nil && made.Caller != nil {
		h += uint64(made.Caller.ID) << 13
	}
	if w.Graph != 0 {
		h = (h ^ uint64(w.Graph)) * spread >> 32
	}
	t := &s.templates[h%templates]
	if k := &t.key; k.shape != w.Shape || k.stream != q.stream || k.caller != w.Call.Caller ||
		k.python != w.Call.Python || k.operator != w.Call.Operator || k.call != w.Call.Function ||
		k.graph != w.Graph || k.kind != w.Kind || k.made != made.Function || k.maker != made.Caller ||
		k.lack != w.Uncaptured {
		t.key, t.uses = workKey{w.Shape, q.stream, w.Call.Function, w.Call.Caller, w.Call.Python, w.Call.Operator, made.Function, made.Caller,
			w.Graph, w.Kind, w.Uncaptured}, 0
		t.Encode(s.w, s.event(q.stream, w))
	}
	if t.uses++; t.uses == wholeUses {
		if e := s.event(q.stream, w); s.intern(&t.key, e) {
			t.Encode(s.w, e)
		}
	}
	return &t.RenderStageTemplate
}

// Launches that are alike, from the wholeUses-th on, have their arguments from an interned kernel of their own. That
// takes half of each launch's bytes; the interned kernel takes those of some launches. maxWhole bounds the interned
// kernels.
const (
	wholeUses = 16
	maxWhole  = 1 << 12
)

// intern moves the arguments of a launch to an interned kernel. It reports whether it did.
func (s *works) intern(key *workKey, e *perfetto.RenderStageEvent) bool {
	if e.Kernel == 0 {
		return false
	}
	id, known := s.whole[*key]
	if !known {
		if len(s.whole) == maxWhole {
			return false
		}
		id = s.w.KernelWith(e.Kernel, e.Args)
		s.whole[*key] = id
	}
	e.Kernel, e.Args = id, nil
	return true
}

// event returns the common part of the work of one template, its arguments in the order in which people use them: the
// kernel and what its speed follows from, the stream, the line of the program, and then the rest.
func (s *works) event(t *timeline.Stream, w *timeline.Work) *perfetto.RenderStageEvent {
	s.args = s.args[:0]
	e := &perfetto.RenderStageEvent{Name: s.names.Title(w)}
	switch w.Kind {
	case timeline.KernelWork:
		if w.ID > firstHang { // only its launch was recorded
			e.Stage = perfetto.StageKernel
			if name := w.Shape.Kernel.Name; name != "" {
				s.args = append(s.args, perfetto.String("kernel_demangled_name", s.names.Of(name).Full))
			}
			break
		}
		s.kernel(e, t.Context.GPU, &w.Shape.Kernel)
	case timeline.MemcpyWork:
		s.memcpy(e, &w.Shape.Memcpy)
	case timeline.MemsetWork:
		m := &w.Shape.Memset
		e.Stage = perfetto.StageMemset
		s.args = append(s.args, perfetto.Uint("bytes", m.Bytes), perfetto.Uint("value", uint64(m.Value)))
	}
	s.args = append(s.args, perfetto.Uint("stream", uint64(t.ID)))
	s.args = appendOperator(appendPython(s.args, w.Call.Python), w.Call.Operator)
	if w.Call.Caller != nil {
		s.args = append(s.args, perfetto.Repeated("caller", s.callers.of(w.Call.Caller)))
	}
	if by := w.CapturedBy(); by != "" {
		s.args = append(s.args, perfetto.Repeated("captured_by", by))
	}
	if w.Call.Function != nil {
		s.args = append(s.args, perfetto.String("call", w.Call.Name))
	}
	if w.Graph != 0 {
		s.args = append(s.args, perfetto.Uint("graph", uint64(w.Graph)))
	}
	if w.Kind == timeline.KernelWork && w.ID <= firstHang {
		s.size(&w.Shape.Kernel)
	}
	s.args = append(s.args,
		perfetto.Uint("device", uint64(t.Context.Device)),
		perfetto.Uint("context", uint64(t.Context.ID)),
		perfetto.String("category", categories[w.Kind]))
	e.Args = s.args
	return e
}

// categories are the categories of GPU work. The trace processor has no column for them.
var categories = [...]string{
	timeline.KernelWork: "kernel", timeline.MemcpyWork: "memcpy", timeline.MemsetWork: "memset",
}

// A kernelKey identifies an interned kernel: the first shapes of a kernel on a GPU, or without grid,
// block, cluster and dynamic shared memory all others.
type kernelKey struct {
	timeline.KernelShape
	gpu uint32
}

// internedShapes is the number of shapes of a kernel that are interned with their occupancy, which
// takes less of each launch. Programs with more have very many.
const internedShapes = 4

func (s *works) kernel(e *perfetto.RenderStageEvent, index uint32, k *timeline.KernelShape) {
	e.Stage, e.Grid, e.Block = perfetto.StageKernel, k.Grid, k.Block
	id, fill := kernelKey{*k, index}, s.occupancy(index, k)
	kernel, known := s.kernels[id]
	shape := []perfetto.Arg{perfetto.String("grid", dimensions(k.Grid)), perfetto.String("block", dimensions(k.Block))}
	fill = append([]perfetto.Arg{perfetto.Uint("shared_mem_dynamic", uint64(k.DynamicShared))}, fill...)
	if !known && s.shapes[k.Name] >= internedShapes {
		id = kernelKey{KernelShape: timeline.KernelShape{Name: k.Name, StaticShared: k.StaticShared, Registers: k.Registers,
			LocalPerThread: k.LocalPerThread}}
		kernel, known = s.kernels[id]
		s.args, shape, fill = append(append(s.args, shape...), fill...), nil, nil
	}
	if !known {
		s.shapes[k.Name]++
		all := append(shape, perfetto.Uint("registers_per_thread", uint64(k.Registers)),
			perfetto.Uint("shared_mem_static", uint64(k.StaticShared)))
		kernel = s.w.Kernel(perfetto.Kernel{Name: k.Name, Demangled: s.names.Of(k.Name).Full,
			Args: append(append(all, fill...), perfetto.Uint("local_mem_per_thread", uint64(k.LocalPerThread)))})
		s.kernels[id] = kernel
	}
	e.Kernel = kernel
}

// size adds what the size of a launch is besides its grid and block.
func (s *works) size(k *timeline.KernelShape) {
	s.args = append(s.args, perfetto.Uint("thread_count", volume(k.Grid)*volume(k.Block)))
	if k.Cluster[0] != 0 {
		s.args = append(s.args, perfetto.String("cluster_size", dimensions(k.Cluster)))
	}
}

func volume(d [3]uint32) uint64 { return uint64(d[0]) * uint64(d[1]) * uint64(d[2]) }

func (s *works) memcpy(e *perfetto.RenderStageEvent, m *timeline.MemcpyShape) {
	e.Stage = perfetto.StageMemcpy
	s.args = append(s.args,
		perfetto.Uint("bytes", m.Bytes),
		perfetto.String("direction", cudaapi.MemcpyKindName(m.CopyKind)),
		perfetto.String("src_memory", cudaapi.MemoryKindName(m.SrcKind)),
		perfetto.String("dst_memory", cudaapi.MemoryKindName(m.DstKind)))
	switch {
	case m.SrcKind == cudaapi.PageableKind || m.DstKind == cudaapi.PageableKind:
		s.args = append(s.args, perfetto.String("host_memory", "pageable"))
	case m.SrcKind == cudaapi.PinnedKind || m.DstKind == cudaapi.PinnedKind:
		s.args = append(s.args, perfetto.String("host_memory", "pinned"))
	}
	if m.SrcDevice != m.DstDevice {
		s.args = append(s.args,
			perfetto.Uint("src_device", uint64(m.SrcDevice)),
			perfetto.Uint("dst_device", uint64(m.DstDevice)))
	}
}

// twoDigits rounds a number to its two leading digits.
func twoDigits(v uint64) uint64 {
	unit := uint64(1)
	for v/unit >= 100 {
		unit *= 10
	}
	return (v + unit/2) / unit * unit
}
