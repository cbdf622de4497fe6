package pfsink

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// works write GPU work.
type works struct {
	w           *perfetto.Writer
	correlation *perfetto.ArgName
	names       timeline.KernelNames
	kernels     map[timeline.KernelShape]perfetto.KernelID
	templates   []workTemplate
	args        []perfetto.Arg
}

// A workTemplate has the common part of work that is encoded alike.
type workTemplate struct {
	key workKey
	perfetto.RenderStageTemplate
}

type workKey struct {
	shape  *timeline.Shape
	stream *timeline.Stream
	graph  uint32
	kind   timeline.WorkKind
}

// A queue is the hardware queue of a stream.
type queue struct {
	*perfetto.Queue
	stream *timeline.Stream
	nth    uint64 // number in the order of first use
}

func newWorks(w *perfetto.Writer, correlation *perfetto.ArgName, names timeline.KernelNames) works {
	return works{w: w, correlation: correlation, names: names,
		kernels: make(map[timeline.KernelShape]perfetto.KernelID), templates: make([]workTemplate, templates)}
}

func (s *Sink) workList(l *timeline.WorkList) {
	q := s.queue(l.Stream)
	s.shown += uint64(len(l.List))
	for i := range l.List {
		s.works.write(q, &l.List[i])
	}
}

func (s *Sink) queue(t *timeline.Stream) *queue {
	q := s.queues[t]
	if q == nil {
		c := t.Context
		q = &queue{stream: t, nth: uint64(len(s.queues)), Queue: s.w.Queue(perfetto.QueueInfo{
			PID: c.Process.PID, GPU: c.GPU, Context: c.ID, Stream: t.ID, Name: queueName(t, s.several),
			Description: queueDescription(t),
		})}
		s.queues[t] = q
	}
	return q
}

// queueName returns the name of a stream's queue; withProcess adds the process.
func queueName(t *timeline.Stream, withProcess bool) string {
	name := fmt.Sprintf("Stream %02d%s", t.ID, t.Qualifier())
	if withProcess {
		name += fmt.Sprintf(" · %s %d", t.Context.Process.Name, t.Context.Process.PID)
	}
	return name
}

func queueDescription(t *timeline.Stream) string {
	c := t.Context
	context := fmt.Sprint(c.ID)
	if c.Name != "" {
		context += " (" + c.Name + ")"
	}
	return fmt.Sprintf("process %d, context %s, stream %d, priority %d", c.Process.PID, context, t.ID, t.Priority)
}

// write writes a piece of work.
func (s *works) write(q *queue, w *timeline.Work) {
	t, correlation := s.template(q, w), s.correlation.Value(uint64(w.Correlation))
	if w.Kind == timeline.KernelWork && w.Graph == 0 && !w.Untimed && w.Cut == 0 { // nearly all work
		q.Event(t, w.ID, w.Start, w.Dur, correlation)
		return
	}
	s.args = s.args[:0]
	if w.Kind == timeline.MemcpyWork || w.Kind == timeline.MemsetWork {
		s.throughput(w)
	}
	if w.Graph != 0 && w.Kind != timeline.GraphWork {
		s.args = append(s.args, perfetto.Uint("graph_node", w.GraphNode))
	}
	if w.Untimed {
		s.args = append(s.args, perfetto.String("untimed", timeline.UntimedReason))
	}
	if w.Cut != 0 {
		s.args = append(s.args, perfetto.String(timeline.CutName, timeline.CutText(w.Cut)))
	}
	q.Event(t, w.ID, w.Start, w.Dur, correlation, s.args...)
}

// throughput adds the rate, so that people need not compute it. Bytes per nanosecond are GB per
// second.
func (s *works) throughput(w *timeline.Work) {
	bytes := w.Shape.Memcpy.Bytes + w.Shape.Memset.Bytes // one of them is 0
	if w.Dur > 0 {
		s.args = append(s.args, perfetto.Float("throughput_GBps", math.Round(1000*float64(bytes)/float64(w.Dur))/1000))
	}
}

// template returns the template of a piece of work on a queue.
func (s *works) template(q *queue, w *timeline.Work) *perfetto.RenderStageTemplate {
	h := uint64(w.Shape.ID)<<4 + q.nth // a few hundred shapes on a few streams do not collide
	if w.Graph != 0 {
		h = (h ^ uint64(w.Graph)) * 0x9E3779B97F4A7C15 >> 32
	}
	t := &s.templates[h%templates]
	if k := &t.key; k.shape != w.Shape || k.stream != q.stream || k.graph != w.Graph || k.kind != w.Kind {
		t.key = workKey{w.Shape, q.stream, w.Graph, w.Kind}
		t.Encode(s.w, s.event(q.stream, w))
	}
	return &t.RenderStageTemplate
}

// event returns the common part of the work of one template.
func (s *works) event(t *timeline.Stream, w *timeline.Work) *perfetto.RenderStageEvent {
	s.args = s.args[:0]
	e := &perfetto.RenderStageEvent{Name: s.names.Title(w)}
	switch w.Kind {
	case timeline.KernelWork:
		s.kernel(e, &w.Shape.Kernel)
	case timeline.MemcpyWork:
		s.memcpy(e, &w.Shape.Memcpy)
	case timeline.MemsetWork:
		m := &w.Shape.Memset
		e.Stage = perfetto.StageMemset
		s.args = append(s.args, perfetto.Uint("bytes", m.Bytes), perfetto.Uint("value", uint64(m.Value)))
	case timeline.GraphWork:
		e.Stage = perfetto.StageGraph
	}
	s.args = append(s.args,
		perfetto.Uint("device", uint64(t.Context.Device)),
		perfetto.Uint("context", uint64(t.Context.ID)),
		perfetto.Uint("stream", uint64(t.ID)))
	if w.Graph != 0 {
		s.args = append(s.args, perfetto.Uint("graph", uint64(w.Graph)))
	}
	e.Args = s.args
	return e
}

func (s *works) kernel(e *perfetto.RenderStageEvent, k *timeline.KernelShape) {
	e.Stage, e.Grid, e.Block = perfetto.StageKernel, k.Grid, k.Block
	// Leave out of the interned kernel everything that may differ between launches.
	id := timeline.KernelShape{Name: k.Name, StaticShared: k.StaticShared, Registers: k.Registers, LocalPerThread: k.LocalPerThread}
	kernel, ok := s.kernels[id]
	if !ok {
		kernel = s.w.Kernel(perfetto.Kernel{Name: k.Name, Demangled: s.names.Of(k.Name).Full, Args: []perfetto.Arg{
			perfetto.Uint("registers_per_thread", uint64(k.Registers)),
			perfetto.Uint("shared_mem_static", uint64(k.StaticShared)),
			perfetto.Uint("local_mem_per_thread", uint64(k.LocalPerThread)),
		}})
		s.kernels[id] = kernel
	}
	e.Kernel = kernel
	s.args = append(s.args,
		perfetto.Uint("shared_mem_dynamic", uint64(k.DynamicShared)),
		perfetto.Uint("thread_count", volume(k.Grid)*volume(k.Block)))
	if k.Cluster[0] != 0 {
		s.args = append(s.args, perfetto.String("cluster_size", fmt.Sprintf("%dx%dx%d", k.Cluster[0], k.Cluster[1], k.Cluster[2])))
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
	if m.SrcDevice != m.DstDevice {
		s.args = append(s.args,
			perfetto.Uint("src_device", uint64(m.SrcDevice)),
			perfetto.Uint("dst_device", uint64(m.DstDevice)))
	}
}
