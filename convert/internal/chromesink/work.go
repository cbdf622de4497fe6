package chromesink

import (
	"cmp"
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

const (
	// gpuPlace is the place of device 0 among the processes, Kineto's number.
	gpuPlace = 5_000_000

	// warpSize is the number of threads in a warp, on every GPU.
	warpSize = 32

	peerCopy = 10 // CUPTI_ACTIVITY_MEMCPY_KIND_PTOP
)

func (s *Sink) workList(l *timeline.WorkList) {
	if len(l.List) == 0 {
		return
	}
	r := s.streamRow(l.Stream)
	if r == nil {
		return
	}
	for i := range l.List {
		s.work(r, l.Stream, &l.List[i])
	}
}

// streamRow returns the row of a stream, nil without a file.
func (s *Sink) streamRow(t *timeline.Stream) *row {
	r := s.rows[t]
	if r == nil {
		c := t.Context
		f := s.file(c.Process)
		if f == nil {
			return nil
		}
		f.gpu(c.Device)
		r = &row{file: f, pid: c.Device, base: t.ID, name: streamName(t)}
		s.rows[t] = r
	}
	return r
}

// gpu describes a device's row once.
func (f *file) gpu(device uint32) {
	if !f.known[device] {
		f.known[device] = true
		label := fmt.Sprintf("GPU %d", device)
		f.processRow(device, label+" ("+programName(f.process)+")", label, gpuPlace+uint64(device))
	}
}

// streamName is a stream's name; Kineto's form, without our qualifier, ends in a blank.
func streamName(t *timeline.Stream) string {
	return fmt.Sprintf("stream %d%s", t.ID, cmp.Or(t.Qualifier(), " "))
}

// workCategories are Kineto's.
var workCategories = [...]string{
	timeline.KernelWork: "kernel", timeline.MemcpyWork: "gpu_memcpy", timeline.MemsetWork: "gpu_memset",
}

// work writes a piece of GPU work, and the end of the arrow from its call.
func (s *Sink) work(r *row, t *timeline.Stream, w *timeline.Work) {
	f, end := r.file, timeline.End(w.Start, w.Dur)
	l := r.place(w.Start, end, 0)
	o := f.beginNamed("X", workCategories[w.Kind], s.title(w), r.pid, l.tid, w.Start)
	o.micros("dur", length(w.Start, end))
	o.begin("args")
	workPlace(&o, t, w)
	switch w.Kind {
	case timeline.KernelWork:
		s.kernelArgs(&o, t, w.Shape)
	case timeline.MemcpyWork:
		bytesArgs(&o, w.Shape.Memcpy.Bytes, w.Dur)
	case timeline.MemsetWork:
		bytesArgs(&o, w.Shape.Memset.Bytes, w.Dur)
		o.uint("value", uint64(w.Shape.Memset.Value))
	}
	if w.Correlation != 0 && w.Captured == nil && isOperator(w.Call.Operator) && !w.Call.Thread.Spans {
		o.uint("External id", uint64(w.Correlation))
	}
	ncclArgs(&o, w.NCCL)
	o.uint("graph id", uint64(w.Graph))
	o.uint("graph node id", w.GraphNode)
	if by := w.CapturedBy(); by != "" {
		o.string("captured by", by)
	}
	if w.Untimed {
		o.string("untimed", timeline.UntimedReason)
	}
	f.endArgs(&o)
	if w.Call.Function != nil && (s.options.Shown == nil || s.options.Shown(&w.Call)) {
		f.flow(launchArrow, "f", flowID(w.Correlation, w.ID), r.pid, l.tid, w.Start)
	}
}

// title returns the name of a piece of work in JSON form. It is valid until the next call.
func (s *Sink) title(w *timeline.Work) []byte {
	t := &s.names
	switch w.Kind {
	case timeline.KernelWork:
		return t.kernel(w.Shape.Kernel.Name)
	case timeline.MemcpyWork:
		c := &w.Shape.Memcpy
		t.scratch = fmt.Appendf(t.scratch[:0], `"Memcpy %s (%s -> %s)"`,
			cudaapi.MemcpyKindName(c.CopyKind), memoryName(c.SrcKind), memoryName(c.DstKind))
		return t.scratch
	}
	return []byte(`"Memset"`)
}

// memoryNames are Kineto's names, where they differ from CUPTI's.
var memoryNames = map[string]string{
	"DeviceStatic": "Device Static", "ManagedStatic": "Managed Static", "unknown": "Unknown",
}

func memoryName(kind uint32) string {
	name := cudaapi.MemoryKindName(kind)
	return cmp.Or(memoryNames[name], name)
}

// workPlace adds where a piece of work ran. A copy between devices names both.
func workPlace(o *object, t *timeline.Stream, w *timeline.Work) {
	c := t.Context
	if copied := &w.Shape.Memcpy; w.Kind == timeline.MemcpyWork && copied.CopyKind == peerCopy {
		o.uint("fromDevice", uint64(copied.SrcDevice))
		o.uint("inDevice", uint64(c.Device))
		o.uint("toDevice", uint64(copied.DstDevice))
		o.uint("inContext", uint64(c.ID))
	} else {
		o.uint("device", uint64(c.Device))
		o.uint("context", uint64(c.ID))
	}
	o.uint("stream", uint64(t.ID))
	o.uint("correlation", uint64(w.Correlation))
}

func (s *Sink) kernelArgs(o *object, t *timeline.Stream, shape *timeline.Shape) {
	k, on := &shape.Kernel, s.gpu(t.Context)
	o.uint("registers per thread", uint64(k.Registers))
	o.uint("shared memory", uint64(k.StaticShared)+uint64(k.DynamicShared))
	if on != nil && on.Multiprocessors != 0 {
		blocks := volume(k.Grid) / float64(on.Multiprocessors)
		o.float("blocks per SM", rounded(blocks))
		o.float("warps per SM", rounded(blocks*volume(k.Block)/warpSize))
	}
	o.triple("grid", k.Grid)
	o.triple("block", k.Block)
	if on != nil {
		on.fill(o, shape)
	}
	if k.Cluster != [3]uint32{} {
		o.triple("cluster", k.Cluster)
	}
	if k.LocalPerThread != 0 {
		o.uint("local memory per thread", uint64(k.LocalPerThread))
	}
}

// gpu returns the GPU of a context, nil where the timeline does not have it.
func (s *Sink) gpu(c *timeline.Context) *gpu {
	if int(c.GPU) < len(s.gpus) {
		return s.gpus[c.GPU]
	}
	return nil
}

func volume(v [3]uint32) float64 { return float64(v[0]) * float64(v[1]) * float64(v[2]) }

// rounded rounds to the six decimals that Kineto writes.
func rounded(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// bytesArgs adds the size and the rate of a copy or a memset. Bytes per ns are GB per second.
// ncclArgs adds what the calls of NCCL that launched a kernel say.
func ncclArgs(o *object, n *timeline.NCCL) {
	if n == nil {
		return
	}
	if n.Communicator != 0 {
		o.pointer("communicator", n.Communicator)
	}
	if n.HasBytes {
		o.uint("bytes", n.Bytes)
	}
}

func bytesArgs(o *object, bytes, dur uint64) {
	o.uint("bytes", bytes)
	if dur > 0 {
		o.float("memory bandwidth (GB/s)", rounded(float64(bytes)/float64(dur)))
	}
}
