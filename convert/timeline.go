// Package convert turns a log into a timeline: call stacks per thread, GPU work
// per stream, and the arrow from each call to the work it caused.
//
// The log holds three things about a launch: the uprobe pair (thread, entry and
// return time, arguments), the CUPTI API record (thread, time, correlation ID)
// and the activity record of the GPU work (correlation ID, no thread). The pair
// and the API record belong together when they are on one thread and one
// interval holds the other; the correlation ID then names the work.
//
// What a call waited for is found from CUPTI's synchronization records: the last
// work of the stream that was launched before the wait and ended by its end. NVTX
// ranges, memory in use and CUPTI's own overhead become tracks of their own, on
// which, as on those of calls, each slice lies within the one around it.
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

// A Process holds what one program did as one process. A process that runs exec
// is several of these, with one PID.
type Process struct {
	PID, PPID uint32
	Name      string
	Args      []string
	Start     uint64
	Threads   []*Thread  // main thread first, then by number
	Tracks    []*Track   // what belongs to no thread: NVTX ranges across threads, CUPTI's overhead, memory pools
	Counters  []*Counter // memory in use
	Queues    []*Queue   // by GPU, context and stream
}

// A Thread holds the calls of one thread as a forest, in pre-order.
type Thread struct {
	PID, TID uint32
	Name     string
	Slices   []Slice
	Tracks   []*Track // its NVTX ranges, one per domain
}

// A Function is what slices are calls of.
type Function struct {
	Name     string
	Category string // "runtime" or "driver"
	ArgNames []argName
	base     string // Name without suffixes of version and stream
	launches bool   // it launches a kernel
	work     bool   // a driver function that creates GPU work
	handle   int    // place of the argument that names the kernel, -1 without
	wait     uint32 // the type of Sync record that it makes, 0 for none
}

// A Slice is one call on a thread's track.
type Slice struct {
	*Function
	Start, End  uint64
	Depth       int32
	Correlation uint32 // 0 when no API record named it
	Ret         int32
	Flags       uint32 // tracelog.CallUnfinished, tracelog.CallNoReturn
	Args        []uint64
	Work        []uint64 // ids of the GPU work that the call caused
	Queue       *Queue   // where that work is, its last piece
	Waits       []uint64 // ids of the GPU work that the call waited for
	Kernel      *Kernel  // what it launched, where no GPU work says so
}

// A Kernel is a kernel that a handle stands for.
type Kernel struct{ Name string } // mangled

// A Track holds slices that are no calls, each within the one around it, as a
// forest in pre-order.
type Track struct {
	PID      uint32
	Name     string
	Category string
	Spans    []Span
}

// A Span is a slice or an instant on a Track.
type Span struct {
	Name       string
	Start, End uint64 // equal for an instant
	Depth      int32
	Instant    bool
	Args       []Detail
}

// A Detail is a fact shown with a Span: a number, or a text where there is one.
type Detail struct {
	Name  string
	Value uint64
	Text  string
	Hex   bool
}

// A Counter is a number of bytes as it changes.
type Counter struct {
	PID    uint32
	Name   string
	Points []Point
}

// A Point is the value of a counter from a time on.
type Point struct{ Time, Value uint64 }

// A Queue is one stream of one context of one process.
type Queue struct {
	PID, GPU, Device, Context, Stream uint32
	Default                           bool   // the context's default stream
	Name, ContextName                 string // as the program calls them
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
	WorkGraph // a whole graph, its nodes not told apart
)

// Work is one kernel, copy, set or graph on a queue.
type Work struct {
	ID          uint64 // dense, from 1
	Start, Dur  uint64
	GraphNode   uint64
	launch      uint64 // when its call was entered, 0 when not known
	shapes      *shapes
	Correlation uint32
	Graph       uint32
	Desc        uint32 // index into the kernels, copies or sets of the timeline's shapes
	Kind        WorkKind
	Untimed     bool // CUPTI gave no times: placed at its call's return
	awaited     bool // a call has waited for it
}

// end is when the work was done.
func (w *Work) end() uint64 { return end(w.Start, w.Dur) }

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
