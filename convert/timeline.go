// Package convert turns logs into a timeline: call stacks per thread, GPU work per
// stream, and the arrow from each call to the work it caused.
//
// A log holds three things about a launch: the uprobe pair (thread, entry and return
// time, arguments), the CUPTI API record (thread, time, correlation ID) and the activity
// record of the GPU work (correlation ID, no thread). The pair and the API record belong
// together when they are on one thread and one interval holds the other; the correlation
// ID then names the work.
//
// What a call waited for is the last work of the stream that was launched before the wait
// and ended by its end. The stream is known by the handle that launches on it were given,
// or, in a log with CUPTI's synchronization records, by these. NVTX ranges, memory
// in use and CUPTI's own overhead become tracks of their own, on which, as on those of
// calls, each slice lies within the one around it.
//
// A log is read twice. The first reading takes what is small (names, processes, symbols)
// and notes for each thread and stream when its blocks begin. The second one goes through
// calls, API records, GPU work and the rest side by side, each with a reader of its own:
// a thread's calls are stacked as far as no block to come reaches back, joined through a
// window of calls and work that still miss each other, and given to a [Sink]. What is in
// memory is that window, whatever the size of the log.
package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// A GPU is a physical device; processes may number it differently.
type GPU struct {
	tracelog.Device
	Index uint32 // dense, the trace's own
}

// A Process holds what one program did as one process. A process that runs exec
// is several of these, with one PID.
type Process struct {
	PID, PPID uint32 // the trace's: where logs of several hosts meet, not the host's own
	Name      string
	Args      []string
	Start     uint64
}

// A Thread is a thread whose calls or ranges are shown.
type Thread struct {
	*Process
	TID  uint32
	Name string
	Main bool
}

// A Function is what slices are calls of.
type Function struct {
	Name     string
	Category string // "runtime" or "driver"
	ArgNames []argName
	id       uint32 // dense
	base     string // Name without suffixes of version and stream
	launches bool   // it launches a kernel
	work     bool   // a driver function that creates GPU work
	handle   int    // place of the argument that names the kernel, -1 without
	stream   int    // place of the argument that names the stream, -1 without
	own      bool   // its default stream is that of the thread
	driver   bool   // by its Category
	runtime  bool
	wait     uint32 // the type of Sync record that it makes, 0 for none
	window   uint32 // how much other work to wait for its own
}

// A Slice is one call on a thread's track.
type Slice struct {
	*Function
	*Arguments
	End    uint64
	Kernel *Kernel // what it launched, where no GPU work says so
	links  *links  // where there is more than one piece of work; nil nearly always
	// The rest is looked at again when the work is found, in an order that is not that of the
	// slices in memory: it is close together.
	Start       uint64
	Queue       *Queue       // where its work is, the last piece
	first       [1]uint64    // id of the GPU work that the call caused, 0 without
	stream      streamHandle // that it names, or the driver call inside it; 0 where none does
	Depth       int32
	Correlation uint32 // 0 when no API record named it
	Ret         int32
	tid         uint32
	Flags       uint16 // tracelog.CallUnfinished, tracelog.CallNoReturn
	state       state
	hidden      bool // a filter leaves it out
}

// links are the ids of the GPU work that a call caused and waited for.
type links struct{ work, waits []uint64 }

// Work returns the ids of the GPU work that the call caused.
func (sl *Slice) Work() []uint64 {
	switch {
	case sl.links != nil && sl.links.work != nil:
		return sl.links.work
	case sl.first[0] != 0:
		return sl.first[:]
	}
	return nil
}

// Waits returns the ids of the GPU work that the call waited for.
func (sl *Slice) Waits() []uint64 {
	if sl.links == nil {
		return nil
	}
	return sl.links.waits
}

func (sl *Slice) more() *links {
	if sl.links == nil {
		sl.links = new(links)
	}
	return sl.links
}

// addWork adds a piece of work that the call caused.
func (sl *Slice) addWork(id uint64) {
	if sl.first[0] == 0 {
		sl.first[0] = id
		return
	}
	l := sl.more()
	if l.work == nil {
		l.work = append(l.work, sl.first[0])
	}
	l.work = append(l.work, id)
}

// A Kernel is a kernel that a handle stands for.
type Kernel struct{ Name string } // mangled

// A Track holds slices that are no calls, each within the one around it.
type Track struct {
	*Process
	Thread   *Thread // whose it is; nil for one of the process
	Name     string
	Category string
}

// A Span is a slice or an instant on a Track.
type Span struct {
	Name       string
	Start, End uint64 // equal for an instant
	Instant    bool
	Args       []Detail
	open       bool // its end is not known yet
	moved      bool // to another track
	kept       bool // its end is awaited
}

// A Detail is a fact shown with a Span or a Mark: a number, or a text where there is one.
type Detail struct {
	Name  string
	Value uint64
	Text  string
	Hex   bool
}

// A Counter is a number of bytes as it changes.
type Counter struct {
	*Process
	Name string
}

// A Queue is one stream of one context of one process.
type Queue struct {
	*Process
	GPU, Device, Context, Stream uint32
	Default                      bool   // the context's default stream
	Name, ContextName            string // as the program calls them
	Priority                     int32
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
	ID          uint64 // its own in the trace, not 0
	Start, Dur  uint64
	GraphNode   uint64
	Shape       *Shape
	Correlation uint32
	Graph       uint32
	Kind        WorkKind
	Untimed     bool // CUPTI gave no times: placed at its call's return
}

// A Shape is what pieces of work have in common: the member for their kind is set.
type Shape struct {
	Kernel KernelShape
	Memcpy MemcpyShape
	Memset MemsetShape
	id     uint32 // dense
	title  string // of a kernel, once it was asked for
}

// KernelShape is what launches of a kernel have in common.
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
	Args []Detail
}
