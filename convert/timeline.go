// Package convert turns a log into a timeline: call stacks per thread, GPU work
// per stream, and the arrow from each call to the work it caused.
//
// The log holds three things about a launch: the uprobe pair (thread, entry and
// return time, arguments), the CUPTI API record (thread, time, correlation ID)
// and the activity record of the GPU work (correlation ID, no thread). The pair
// and the API record belong together when they are on one thread and one
// interval holds the other; the correlation ID then names the work.
package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// A Timeline is everything a log says, joined and ordered. Times are
// nanoseconds of CLOCK_MONOTONIC.
type Timeline struct {
	Clock     tracelog.Clock // first reading of the clocks
	Start     uint64         // earliest time
	End       uint64         // latest time
	GPUs      []GPU
	Processes []*Process // by first sight
	Marks     []Mark
	Summary   Summary
}

// A GPU is a physical device; processes may number it differently.
type GPU struct {
	tracelog.Device
	Index uint32 // dense, the trace's own
}

// A Process holds what one process did.
type Process struct {
	PID, PPID uint32
	Name      string
	Args      []string
	Start     uint64
	Threads   []*Thread // main thread first, then by first call
	Queues    []*Queue  // by GPU, context and stream
}

// A Thread holds the calls of one thread as a forest, in pre-order.
type Thread struct {
	PID, TID uint32
	Name     string
	Slices   []Slice
}

// A Slice is one call on a thread's track.
type Slice struct {
	Name        string
	Category    string // "runtime" or "driver"
	Start, End  uint64
	Depth       int32
	Correlation uint32 // 0 when no API record named it
	Ret         int32
	Flags       uint32 // tracelog.CallUnfinished, tracelog.CallNoReturn
	ArgNames    []argName
	Args        []uint64
	Work        []uint64 // ids of the GPU work that the call caused
}

// A Queue is one stream of one context of one process.
type Queue struct {
	PID, GPU, Device, Context, Stream uint32
	Default                           bool // the context's default stream
	Priority                          int32
	Work                              []Work // by start
}

// WorkKind tells kinds of GPU work apart.
type WorkKind uint8

// The kinds of GPU work.
const (
	WorkKernel WorkKind = iota
	WorkMemcpy
	WorkMemset
)

// Work is one kernel, copy or set on a queue.
type Work struct {
	ID          uint64 // dense, from 1
	Kind        WorkKind
	Start, Dur  uint64
	Correlation uint32
	Graph       uint32
	GraphNode   uint64
	Untimed     bool   // CUPTI gave no times: placed at its call\'s return
	Desc        uint32 // index into the kernels, copies or sets of the timeline's shapes
	shapes      *shapes
}

// Kernel gives the launch shape of a kernel.
func (w *Work) Kernel() *KernelShape { return &w.shapes.kernels[w.Desc] }

// Memcpy gives the shape of a copy.
func (w *Work) Memcpy() *MemcpyShape { return &w.shapes.copies[w.Desc] }

// Memset gives the shape of a set.
func (w *Work) Memset() *MemsetShape { return &w.shapes.sets[w.Desc] }

// KernelShape is what launches of a kernel have in common; equal shapes are
// held once.
type KernelShape struct {
	Name                                                   string
	Grid, Block, Cluster                                   [3]uint32
	StaticShared, DynamicShared, LocalPerThread, Registers uint32
}

// MemcpyShape is a copy's size and direction.
type MemcpyShape struct {
	Bytes                      uint64
	CopyKind, SrcKind, DstKind uint32
	SrcDevice, DstDevice       uint32
}

// MemsetShape is a set's size and value.
type MemsetShape struct {
	Bytes uint64
	Value uint32
}

// A Mark is a moment that a person should see on the "cudatrace" track.
type Mark struct {
	Time uint64
	PID  uint32
	Text string
}

// shapes interns launch shapes, so that a record of GPU work stays small.
type shapes struct {
	kernels   []KernelShape
	kernelIDs map[KernelShape]uint32
	copies    []MemcpyShape
	copyIDs   map[MemcpyShape]uint32
	sets      []MemsetShape
	setIDs    map[MemsetShape]uint32
}

func newShapes() *shapes {
	return &shapes{
		kernelIDs: make(map[KernelShape]uint32),
		copyIDs:   make(map[MemcpyShape]uint32),
		setIDs:    make(map[MemsetShape]uint32),
	}
}

func intern[S comparable](ids map[S]uint32, list *[]S, s S) uint32 {
	id, ok := ids[s]
	if !ok {
		id = uint32(len(*list))
		*list = append(*list, s)
		ids[s] = id
	}
	return id
}

func (s *shapes) kernel(k *tracelog.Kernel) uint32 {
	return intern(s.kernelIDs, &s.kernels, KernelShape{
		Name: k.Name, Grid: k.Grid, Block: k.Block, Cluster: k.Cluster,
		StaticShared: k.StaticShared, DynamicShared: k.DynamicShared,
		LocalPerThread: k.LocalPerThread, Registers: k.Registers,
	})
}

func (s *shapes) memcpy(m *tracelog.Memcpy) uint32 {
	return intern(s.copyIDs, &s.copies, MemcpyShape{
		Bytes: m.Bytes, CopyKind: m.CopyKind, SrcKind: m.SrcKind, DstKind: m.DstKind,
		SrcDevice: m.SrcDevice, DstDevice: m.DstDevice,
	})
}

func (s *shapes) memset(m *tracelog.Memset) uint32 {
	return intern(s.setIDs, &s.sets, MemsetShape{Bytes: m.Bytes, Value: m.Value})
}
