package convert

import (
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Perfetto writes a timeline as a Perfetto trace.
func Perfetto(t *Timeline, w io.Writer) error {
	s := &perfettoSink{
		w: perfetto.NewWriter(w, perfetto.Options{
			Monotonic: t.Clock.Monotonic, Realtime: t.Clock.Realtime, Boottime: t.Clock.Boottime,
			Start: t.Start,
		}),
		kernels: make(map[KernelShape]perfetto.KernelID),
		titles:  make(map[string]kernelTitle),
		several: len(t.Processes) > 1,
	}
	t.Send(s)
	return s.w.Close()
}

// perfettoSink maps the timeline onto Perfetto's tracks and its GPU model.
type perfettoSink struct {
	w        *perfetto.Writer
	several  bool // more than one process: queue names say whose they are
	names    map[uint32]string
	thread   *perfetto.Track
	track    *perfetto.Track // the thread's, or one beside it
	category string          // of the slices on that one
	queue    *perfetto.GPUQueue
	stream   *Queue
	own      *perfetto.Track // the "cudatrace" track
	kernels  map[KernelShape]perfetto.KernelID
	titles   map[string]kernelTitle
	args     []perfetto.Arg
}

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
	if s.names == nil {
		s.names = make(map[uint32]string)
	}
	s.names[p.PID] = p.Name
	s.w.Process(perfetto.Process{PID: p.PID, Name: p.Name, Args: p.Args, Start: p.Start, Rank: len(s.names)})
}

func (s *perfettoSink) Thread(t *Thread) {
	name := t.Name
	if name == "" && t.TID == t.PID {
		name = s.names[t.PID]
	}
	rank := 1
	if t.TID == t.PID {
		rank = 0
	}
	s.thread = s.w.Thread(perfetto.Thread{PID: t.PID, TID: t.TID, Name: name, Rank: rank})
	s.track = s.thread
}

// ranks order what a process shows beside its threads.
var ranks = map[string]int{categoryNVTX: 1, categoryMemory: 3, categoryCUPTI: 4}

const counterRank = 2

func (s *perfettoSink) Track(t *Track, thread bool) {
	info := perfetto.TrackInfo{Name: t.Name, PID: t.PID, Rank: ranks[t.Category]}
	if thread {
		info.Thread = s.thread
	}
	s.track, s.category = s.w.Track(info), t.Category
}

func (s *perfettoSink) BeginSpan(sp *Span) {
	s.details(sp)
	s.track.Begin(sp.Start, sp.Name, s.category, nil, nil, s.args)
}

func (s *perfettoSink) Instant(sp *Span) {
	s.details(sp)
	s.track.Instant(sp.Start, sp.Name, s.category, s.args)
}

func (s *perfettoSink) details(sp *Span) {
	s.args = s.args[:0]
	for _, d := range sp.Args {
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
	counter := s.w.Counter(perfetto.CounterInfo{TrackInfo: perfetto.TrackInfo{Name: c.Name, PID: c.PID, Rank: counterRank}})
	for _, p := range c.Points {
		counter.Value(p.Time, int64(min(p.Value, math.MaxInt64)))
	}
}

func (s *perfettoSink) Begin(sl *Slice) {
	s.args = s.args[:0]
	if sl.Correlation != 0 {
		s.args = append(s.args, perfetto.Uint("correlation", uint64(sl.Correlation)))
	}
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
	s.track.Begin(sl.Start, sl.Name, sl.Category, sl.Work, sl.Waits, s.args)
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

func (s *perfettoSink) End(ts uint64) { s.track.End(ts) }

func (s *perfettoSink) Queue(q *Queue) {
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
		name += fmt.Sprintf(" · %s %d", s.names[q.PID], q.PID)
	}
	s.stream = q
	s.queue = s.w.Queue(perfetto.Queue{
		PID: q.PID, GPU: q.GPU, Context: q.Context, Stream: q.Stream, Name: name,
		Description: description(q),
	})
}

func description(q *Queue) string {
	context := fmt.Sprint(q.Context)
	if q.ContextName != "" {
		context += " (" + q.ContextName + ")"
	}
	return fmt.Sprintf("process %d, context %s, stream %d, priority %d", q.PID, context, q.Stream, q.Priority)
}

func (s *perfettoSink) Work(w *Work) {
	s.args = s.args[:0]
	e := perfetto.GPUEvent{ID: w.ID, Start: w.Start, Dur: w.Dur}
	switch w.Kind {
	case WorkKernel:
		s.kernel(&e, w.Kernel())
	case WorkMemcpy:
		s.memcpy(&e, w.Memcpy())
	case WorkMemset:
		s.memset(&e, w.Memset())
	case WorkGraph:
		e.Stage, e.Name = perfetto.StageGraph, fmt.Sprintf("Graph %d", w.Graph)
	}
	s.place(w)
	e.Args = s.args
	s.queue.Event(&e)
}

// place adds where the work ran and what it belongs to, behind what it did.
func (s *perfettoSink) place(w *Work) {
	s.args = append(s.args,
		perfetto.Uint("device", uint64(s.stream.Device)),
		perfetto.Uint("context", uint64(s.stream.Context)),
		perfetto.Uint("stream", uint64(s.stream.Stream)),
		perfetto.Uint("correlation", uint64(w.Correlation)))
	if w.Graph != 0 {
		s.args = append(s.args, perfetto.Uint("graph", uint64(w.Graph)))
		if w.Kind != WorkGraph {
			s.args = append(s.args, perfetto.Uint("graph_node", w.GraphNode))
		}
	}
	if w.Untimed {
		s.args = append(s.args, perfetto.String("untimed", "CUPTI gave no times; shown where its call returned"))
	}
}

func (s *perfettoSink) kernel(e *perfetto.GPUEvent, k *KernelShape) {
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

func (s *perfettoSink) memcpy(e *perfetto.GPUEvent, m *MemcpyShape) {
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
	s.throughput(e, m.Bytes)
}

func (s *perfettoSink) memset(e *perfetto.GPUEvent, m *MemsetShape) {
	e.Stage, e.Name = perfetto.StageMemset, "Memset"
	s.args = append(s.args, perfetto.Uint("bytes", m.Bytes), perfetto.Uint("value", uint64(m.Value)))
	s.throughput(e, m.Bytes)
}

// throughput adds the rate that a person would otherwise work out by hand;
// bytes a nanosecond are GB a second.
func (s *perfettoSink) throughput(e *perfetto.GPUEvent, bytes uint64) {
	if e.Dur > 0 {
		s.args = append(s.args, perfetto.Float("throughput_GBps", math.Round(1000*float64(bytes)/float64(e.Dur))/1000))
	}
}

func (s *perfettoSink) Mark(m *Mark) {
	if s.own == nil {
		s.own = s.w.Track(perfetto.TrackInfo{Name: "cudatrace"})
	}
	var args []perfetto.Arg
	if m.PID != 0 {
		args = []perfetto.Arg{perfetto.Uint("pid", uint64(m.PID))}
	}
	s.own.Instant(m.Time, m.Text, "cudatrace", args)
}
