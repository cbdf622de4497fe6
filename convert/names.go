package convert

import (
	"fmt"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// giveName takes what the program calls an object. A later name replaces it. A
// context is known by its own number: its device does not matter.
func (l *catalog) giveName(n tracelog.Name) {
	name := n.Name
	if n.ObjectKind != tracelog.ObjectStream {
		n.Context = 0
	}
	n.Device, n.Name = 0, ""
	l.given[n] = name
}

// threadName is what the program calls a thread, or what the kernel does, which
// has room for 15 letters. Of the thread's two numbers CUPTI knows the inner one.
func (l *catalog) threadName(pid, tid uint32) string {
	number, ok := l.inner[threadKey{pid, tid}]
	if !ok {
		number = tid
	}
	if name := l.given[tracelog.Name{PID: pid, ObjectKind: tracelog.ObjectThread, ID: number}]; name != "" {
		return name
	}
	return l.names[threadKey{pid, tid}]
}

func (l *catalog) nameQueue(pid uint32, q *Queue) {
	q.Name = l.given[tracelog.Name{PID: pid, ObjectKind: tracelog.ObjectStream, ID: q.Stream, Context: q.Context}]
	q.ContextName = l.given[tracelog.Name{PID: pid, ObjectKind: tracelog.ObjectContext, ID: q.Context}]
}

// nameGPU adds what the program calls a device to its product name.
func (l *catalog) nameGPU(d *tracelog.Device) {
	name := l.given[tracelog.Name{PID: d.PID, ObjectKind: tracelog.ObjectDevice, ID: d.ID}]
	switch {
	case name != "" && d.Name != "":
		d.Name += " (" + name + ")"
	case name != "":
		d.Name = name
	}
}

// overheadKinds is CUpti_ActivityOverheadKind: one kind of the driver's, and
// CUPTI's own in the upper half of the number.
var overheadKinds = map[uint32]string{
	0:       "unknown overhead",
	1:       "driver compiler",
	1 << 16: "CUPTI buffer flush",
	2 << 16: "CUPTI instrumentation",
	3 << 16: "CUPTI resource",
	4 << 16: "runtime triggered module loading",
	5 << 16: "lazy function loading",
	6 << 16: "command buffer full",
	7 << 16: "CUPTI activity buffer request",
	8 << 16: "unified memory activity start",
}

func overheadName(kind uint32) string {
	if name, ok := overheadKinds[kind]; ok {
		return name
	}
	return fmt.Sprintf("overhead of kind %#x", kind)
}

// workName is the name that work is shown under.
func workName(w *Work) string {
	switch w.Kind {
	case WorkMemcpy:
		return "Memcpy " + cudaapi.MemcpyKindName(w.Shape.Memcpy.CopyKind)
	case WorkMemset:
		return "Memset"
	case WorkGraph:
		return fmt.Sprintf("Graph %d", w.Graph)
	}
	if w.Shape.title == "" {
		w.Shape.title = titleOf(w.Shape.Kernel.Name).short
	}
	return w.Shape.title
}
