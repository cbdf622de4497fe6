package read

import "github.com/cudatrace/cudatrace/record/tracelog"

// Names are the names of threads, streams, contexts and devices, and the host TIDs and
// namespace TIDs of threads.
type Names struct {
	given     map[tracelog.Name]string // names given by the program, through NVTX; the key has no name
	threads   map[ThreadKey]string     // the kernel's names
	host      map[ThreadKey]uint32     // host TID, by namespace TID
	namespace map[ThreadKey]uint32     // namespace TID, by host TID
	texts     int                      // bytes of the names
}

func newNames() Names {
	return Names{
		given:     make(map[tracelog.Name]string),
		threads:   make(map[ThreadKey]string),
		host:      make(map[ThreadKey]uint32),
		namespace: make(map[ThreadKey]uint32),
	}
}

func (n *Names) learn(b *tracelog.Block, i int) {
	if b.Kind == tracelog.KindThread {
		var t tracelog.Thread
		t.Read(b, i)
		n.thread(&t)
		return
	}
	var x tracelog.Name
	x.Read(b, i)
	n.give(x)
}

func (n *Names) thread(t *tracelog.Thread) {
	if t.Name != "" {
		n.threads[ThreadKey{t.PID, t.TID}] = t.Name
		n.texts += len(t.Name)
	}
	if t.NamespaceTID != 0 {
		n.host[ThreadKey{t.PID, t.NamespaceTID}] = t.TID
		n.namespace[ThreadKey{t.PID, t.TID}] = t.NamespaceTID
	}
}

// give takes the name that the program gives to an object; a later name replaces it. A
// context's number is unique in its process, so its device does not matter.
func (n *Names) give(x tracelog.Name) {
	name := x.Name
	if x.ObjectKind != tracelog.ObjectStream {
		x.Context = 0
	}
	x.Device, x.Name = 0, ""
	n.given[x] = name
	n.texts += len(name)
}

// HostTID returns the host TID of a thread with a namespace TID, which is the only one that
// CUPTI knows.
func (n *Names) HostTID(pid, tid uint32) uint32 {
	if len(n.host) > 0 {
		if host, ok := n.host[ThreadKey{pid, tid}]; ok {
			return host
		}
	}
	return tid
}

// Thread returns the name that the program gave to a thread, else the kernel's name for it,
// which has at most 15 letters.
func (n *Names) Thread(pid, hostTID uint32) string {
	tid, ok := n.namespace[ThreadKey{pid, hostTID}]
	if !ok {
		tid = hostTID
	}
	if name := n.given[tracelog.Name{PID: pid, ObjectKind: tracelog.ObjectThread, ID: tid}]; name != "" {
		return name
	}
	return n.threads[ThreadKey{pid, hostTID}]
}

// Stream returns the name that the program gave to a stream.
func (n *Names) Stream(pid, context, stream uint32) string {
	return n.given[tracelog.Name{PID: pid, ObjectKind: tracelog.ObjectStream, ID: stream, Context: context}]
}

// Context returns the name that the program gave to a context.
func (n *Names) Context(pid, context uint32) string {
	return n.given[tracelog.Name{PID: pid, ObjectKind: tracelog.ObjectContext, ID: context}]
}

// device returns a device's product name with the name that the program gave it.
func (n *Names) device(d *tracelog.Device) string {
	name := n.given[tracelog.Name{PID: d.PID, ObjectKind: tracelog.ObjectDevice, ID: d.ID}]
	switch {
	case name != "" && d.Name != "":
		return d.Name + " (" + name + ")"
	case name != "":
		return name
	}
	return d.Name
}
