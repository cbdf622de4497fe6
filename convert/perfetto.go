package convert

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// perfettoSink maps the timeline onto Perfetto's tracks and its GPU model.
type perfettoSink struct {
	w        *perfetto.Writer
	shift    uint64 // added to all times, wrapping: where logs of several hosts meet
	several  bool   // more than one process: queue names say whose they are
	threads  map[*Thread]*perfetto.Track
	tracks   map[*Track]*perfetto.Track
	counters map[*Counter]*perfetto.Counter
	queues   map[*Queue]*sinkQueue
	names    map[uint32]bool // PIDs that are described
	track    *perfetto.Track // the chosen thread's, or one beside it
	category string          // of the slices on that one
	counter  *perfetto.Counter
	queue    *sinkQueue
	stream   *Queue
	own      *perfetto.Track // the "cudatrace" track
	kernels  map[KernelShape]perfetto.KernelID
	titles   map[string]kernelTitle
	args     []perfetto.Arg
	vary     []perfetto.Arg              // those that differ from event to event
	once     perfetto.TrackEventTemplate // of the event that is written

	correlation *perfetto.ArgName
	calls       []callTemplate // with arguments, by their id
	plain       []callTemplate // without
	works       []workTemplate
}

// newPerfettoSink returns a sink that writes to w. Its Close is w's.
func newPerfettoSink(w *perfetto.Writer, several bool) *perfettoSink {
	return &perfettoSink{
		w: w, several: several, correlation: w.ArgName("correlation"),
		threads:  make(map[*Thread]*perfetto.Track),
		tracks:   make(map[*Track]*perfetto.Track),
		counters: make(map[*Counter]*perfetto.Counter),
		queues:   make(map[*Queue]*sinkQueue),
		names:    make(map[uint32]bool),
		kernels:  make(map[KernelShape]perfetto.KernelID),
		titles:   make(map[string]kernelTitle),
		calls:    make([]callTemplate, recentArguments),
		plain:    make([]callTemplate, templates),
		works:    make([]workTemplate, templates),
	}
}

// A sinkQueue is a queue with its place in the order of their first use.
type sinkQueue struct {
	*perfetto.Queue
	nth uint64
}

// at is a time of the log as one of the trace.
func (s *perfettoSink) at(ts uint64) uint64 { return ts + s.shift }

// kernelTitle is a kernel's name without and with its parameters.
type kernelTitle struct{ short, full string }

func (s *perfettoSink) GPUs(gpus []GPU) {
	list := make([]perfetto.GPU, 0, len(gpus))
	for _, g := range gpus {
		uuid, err := hex.DecodeString(g.UUID)
		if err != nil {
			uuid = nil // not known: the field stays out
		}
		list = append(list, perfetto.GPU{
			ID: g.Index, Name: g.Name, Vendor: "NVIDIA", Model: g.Name, UUID: uuid,
			Architecture: fmt.Sprintf("sm_%d%d", g.Major, g.Minor),
			Extra: []string{
				"multiprocessors", fmt.Sprint(g.Multiprocessors),
				"memory_bytes", fmt.Sprint(g.Memory),
			},
		})
	}
	s.w.GPUs(list)
}

func (s *perfettoSink) Process(p *Process) {
	s.names[p.PID] = true
	start := p.Start
	if start != 0 {
		start = s.at(start)
	}
	s.w.Process(perfetto.Process{PID: p.PID, Name: p.Name, Args: p.Args, Start: start, Rank: len(s.names)})
}

func (s *perfettoSink) Thread(t *Thread) { s.track = s.thread(t) }

func (s *perfettoSink) thread(t *Thread) *perfetto.Track {
	track := s.threads[t]
	if track == nil {
		info := perfetto.Thread{PID: t.PID, TID: t.TID, Name: t.Name, Rank: 1}
		if t.Main {
			info.Rank = 0
			info.Name = cmp.Or(t.Name, t.Process.Name)
		}
		track = s.w.Thread(info)
		s.threads[t] = track
	}
	return track
}

// ranks order what a process shows beside its threads.
var ranks = map[string]int{categoryNVTX: 1, categoryMemory: 3, categoryCUPTI: 4}

const counterRank = 2

func (s *perfettoSink) Track(t *Track) {
	track := s.tracks[t]
	if track == nil {
		info := perfetto.TrackInfo{Name: t.Name, PID: t.PID, Rank: ranks[t.Category]}
		if t.Thread != nil {
			info.Thread = s.thread(t.Thread)
		}
		track = s.w.Track(info)
		s.tracks[t] = track
	}
	s.track, s.category = track, t.Category
}

func (s *perfettoSink) BeginSpan(sp *Span) {
	s.details(sp.Args)
	s.once.Encode(s.w, sp.Name, s.category, s.args)
	s.track.Begin(s.at(sp.Start), &s.once, 0, perfetto.UintArg{})
}

func (s *perfettoSink) Instant(sp *Span) {
	s.details(sp.Args)
	s.once.Encode(s.w, sp.Name, s.category, s.args)
	s.track.Instant(s.at(sp.Start), &s.once)
}

func (s *perfettoSink) details(details []Detail) {
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
}

func (s *perfettoSink) Counter(c *Counter) {
	s.counter = s.counters[c]
	if s.counter == nil {
		s.counter = s.w.Counter(perfetto.TrackInfo{Name: c.Name, PID: c.PID, Rank: counterRank})
		s.counters[c] = s.counter
	}
}

func (s *perfettoSink) Value(ts, v uint64) {
	s.counter.Value(s.at(ts), int64(min(v, math.MaxInt64)))
}

func (s *perfettoSink) Begin(sl *Slice) {
	m, start := s.call(sl), s.at(sl.Start)
	var correlation perfetto.UintArg
	if sl.Correlation != 0 {
		correlation = s.correlation.Value(uint64(sl.Correlation))
	}
	if sl.links == nil && sl.Flags&tracelog.CallUnfinished == 0 { // nearly all
		s.track.Begin(start, m, sl.first[0], correlation)
		return
	}
	s.vary = s.vary[:0]
	if sl.Flags&tracelog.CallUnfinished != 0 {
		s.vary = append(s.vary, perfetto.Uint("age_ns", sl.End-sl.Start))
	}
	s.track.BeginWith(start, m, perfetto.GPUCorrelation{Submitted: sl.Work(), WaitedFor: sl.Waits()}, correlation, s.vary...)
}

// callArgs are the arguments that calls of one function often have in common.
func (s *perfettoSink) callArgs(sl *Slice) {
	s.args = s.args[:0]
	for i, v := range sl.Args {
		s.args = append(s.args, callArg(sl, i, v))
	}
	switch {
	case sl.Flags&tracelog.CallUnfinished != 0:
		s.args = append(s.args, perfetto.String("unfinished", "had not returned when recording ended"))
	case sl.Flags&tracelog.CallNoReturn != 0:
		s.args = append(s.args, perfetto.String("no_return", "left without returning"))
	default:
		s.result(sl)
	}
	if sl.Kernel != nil {
		s.args = append(s.args, perfetto.String("kernel", s.title(sl.Kernel.Name).full))
	}
	if sl.Queue != nil { // the number that the queue bears: a stream's handle says little
		s.args = append(s.args, perfetto.Uint("stream_id", uint64(sl.Queue.Stream)))
	}
}

func (s *perfettoSink) result(sl *Slice) {
	if name := resultName(sl.Category, sl.Ret); name != "" {
		s.args = append(s.args, perfetto.String("error", name), perfetto.Int("result", int64(sl.Ret)))
	}
}

func callArg(sl *Slice, i int, v uint64) perfetto.Arg {
	if i >= len(sl.ArgNames) {
		return perfetto.Uint(fmt.Sprintf("arg%d", i), v)
	}
	a := sl.ArgNames[i]
	switch a.kind {
	case "ptr", "handle":
		return perfetto.Pointer(a.name, v)
	case "i32", "enum":
		return perfetto.Int(a.name, int64(int32(v)))
	case "i64":
		return perfetto.Int(a.name, int64(v))
	case "f32":
		return perfetto.Float(a.name, float64(math.Float32frombits(uint32(v))))
	default:
		return perfetto.Uint(a.name, v)
	}
}

func (s *perfettoSink) End(ts uint64) { s.track.End(s.at(ts)) }

func (s *perfettoSink) Queue(q *Queue) {
	s.stream, s.queue = q, s.queues[q]
	if s.queue == nil {
		s.queue = &sinkQueue{nth: uint64(len(s.queues)), Queue: s.w.Queue(perfetto.QueueInfo{
			PID: q.PID, GPU: q.GPU, Context: q.Context, Stream: q.Stream, Name: s.queueName(q),
			Description: description(q),
		})}
		s.queues[q] = s.queue
	}
}

func (s *perfettoSink) queueName(q *Queue) string {
	name := fmt.Sprintf("Stream %02d", q.Stream)
	switch {
	case q.Default && q.Name != "":
		name += " (default, " + q.Name + ")"
	case q.Default:
		name += " (default)"
	case q.Name != "":
		name += " (" + q.Name + ")"
	}
	if s.several {
		name += fmt.Sprintf(" · %s %d", q.Process.Name, q.PID)
	}
	return name
}

func description(q *Queue) string {
	context := fmt.Sprint(q.Context)
	if q.ContextName != "" {
		context += " (" + q.ContextName + ")"
	}
	return fmt.Sprintf("process %d, context %s, stream %d, priority %d", q.PID, context, q.Stream, q.Priority)
}

func (s *perfettoSink) Work(w *Work) {
	g, start, correlation := s.work(w), s.at(w.Start), s.correlation.Value(uint64(w.Correlation))
	if w.Kind == WorkKernel && w.Graph == 0 && !w.Untimed { // nearly all
		s.queue.Event(g, w.ID, start, w.Dur, correlation)
		return
	}
	s.vary = s.vary[:0]
	if w.Kind == WorkMemcpy || w.Kind == WorkMemset {
		s.throughput(w)
	}
	if w.Graph != 0 && w.Kind != WorkGraph {
		s.vary = append(s.vary, perfetto.Uint("graph_node", w.GraphNode))
	}
	if w.Untimed {
		s.vary = append(s.vary, perfetto.String("untimed", "CUPTI gave no times; shown where its call returned"))
	}
	s.queue.Event(g, w.ID, start, w.Dur, correlation, s.vary...)
}

// event is what pieces of work of one shape on one queue have in common.
func (s *perfettoSink) event(w *Work) *perfetto.RenderStageEvent {
	s.args = s.args[:0]
	e := &perfetto.RenderStageEvent{}
	switch w.Kind {
	case WorkKernel:
		s.kernel(e, &w.Shape.Kernel)
	case WorkMemcpy:
		s.memcpy(e, &w.Shape.Memcpy)
	case WorkMemset:
		m := &w.Shape.Memset
		e.Stage, e.Name = perfetto.StageMemset, "Memset"
		s.args = append(s.args, perfetto.Uint("bytes", m.Bytes), perfetto.Uint("value", uint64(m.Value)))
	case WorkGraph:
		e.Stage, e.Name = perfetto.StageGraph, fmt.Sprintf("Graph %d", w.Graph)
	}
	s.args = append(s.args,
		perfetto.Uint("device", uint64(s.stream.Device)),
		perfetto.Uint("context", uint64(s.stream.Context)),
		perfetto.Uint("stream", uint64(s.stream.Stream)))
	if w.Graph != 0 {
		s.args = append(s.args, perfetto.Uint("graph", uint64(w.Graph)))
	}
	e.Args = s.args
	return e
}

func (s *perfettoSink) kernel(e *perfetto.RenderStageEvent, k *KernelShape) {
	e.Stage, e.Grid, e.Block = perfetto.StageKernel, k.Grid, k.Block
	title := s.title(k.Name)
	e.Name = title.short
	// What a launch may change is left out of the interned kernel.
	id := KernelShape{Name: k.Name, StaticShared: k.StaticShared, Registers: k.Registers, LocalPerThread: k.LocalPerThread}
	kernel, ok := s.kernels[id]
	if !ok {
		kernel = s.w.Kernel(perfetto.Kernel{Name: k.Name, Demangled: title.full, Args: []perfetto.Arg{
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

func (s *perfettoSink) title(mangled string) kernelTitle {
	t, ok := s.titles[mangled]
	if !ok {
		t = titleOf(mangled)
		s.titles[mangled] = t
	}
	return t
}

// titleOf demangles a kernel's name. The title leaves out the return type and
// the parameters, which for templates run to thousands of characters.
func titleOf(mangled string) kernelTitle {
	if mangled == "" {
		return kernelTitle{"(unnamed kernel)", ""}
	}
	full := demangle.Filter(mangled, demangle.LLVMStyle)
	short := demangle.Filter(mangled, demangle.NoParams, demangle.LLVMStyle)
	return kernelTitle{strings.TrimPrefix(short, "void "), full}
}

func (s *perfettoSink) memcpy(e *perfetto.RenderStageEvent, m *MemcpyShape) {
	e.Stage = perfetto.StageMemcpy
	dir := cudaapi.MemcpyKindName(m.CopyKind)
	e.Name = "Memcpy " + dir
	s.args = append(s.args,
		perfetto.Uint("bytes", m.Bytes),
		perfetto.String("direction", dir),
		perfetto.String("src_memory", cudaapi.MemoryKindName(m.SrcKind)),
		perfetto.String("dst_memory", cudaapi.MemoryKindName(m.DstKind)))
	if m.SrcDevice != m.DstDevice {
		s.args = append(s.args,
			perfetto.Uint("src_device", uint64(m.SrcDevice)),
			perfetto.Uint("dst_device", uint64(m.DstDevice)))
	}
}

// throughput adds the rate that a person would otherwise work out by hand;
// bytes a nanosecond are GB a second.
func (s *perfettoSink) throughput(w *Work) {
	bytes := w.Shape.Memcpy.Bytes + w.Shape.Memset.Bytes // one of them is 0
	if w.Dur > 0 {
		s.vary = append(s.vary, perfetto.Float("throughput_GBps", math.Round(1000*float64(bytes)/float64(w.Dur))/1000))
	}
}

func (s *perfettoSink) Mark(m *Mark) {
	if s.own == nil {
		s.own = s.w.Track(perfetto.TrackInfo{Name: "cudatrace"})
	}
	s.details(m.Args)
	if m.PID != 0 {
		s.args = append(s.args, perfetto.Uint("pid", uint64(m.PID)))
	}
	s.once.Encode(s.w, m.Text, "cudatrace", s.args)
	s.own.Instant(s.at(m.Time), &s.once)
}
