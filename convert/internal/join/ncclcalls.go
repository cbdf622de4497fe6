package join

import (
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// ncclCalls finds the calls of NCCL that launch their kernels together, on each thread. Such calls follow each other between
// ncclGroupStart and ncclGroupEnd. A group may be within another one, and then launches nothing. A call may make others:
// what those say is part of what it says itself.
type ncclCalls map[uint32]*ncclThread // by host TID

type ncclThread struct {
	said  *tracelog.NCCLCall // by the call whose range has not begun
	depth int                // groups that have begun
	group *timeline.NCCLGroup
	open  *timeline.Range // the outermost open call that is no beginning or end of a group
}

func (c ncclCalls) thread(tid uint32) *ncclThread {
	t := c[tid]
	if t == nil {
		t = new(ncclThread)
		c[tid] = t
	}
	return t
}

// say takes what a call says just before its range begins.
func (c ncclCalls) say(call *tracelog.NCCLCall) { c.thread(call.TID).said = call }

// Begin takes a range of NCCL that begins on a thread.
func (c ncclCalls) Begin(tid uint32, r *timeline.Range) {
	t := c.thread(tid)
	said := t.said
	if t.said = nil; said != nil && said.Name == r.Name {
		r.NCCL = saidByNCCL(said)
	}
	switch {
	case r.Name == "ncclGroupStart":
		t.starts()
	case endsGroup(r.Name):
		if t.depth == 1 {
			r.Group = t.group
		}
	case launchesNCCL(r.Name):
		t.call(r)
	}
}

// saidByNCCL are what a call says, nil for nothing.
func saidByNCCL(call *tracelog.NCCLCall) *timeline.NCCL {
	n := &timeline.NCCL{Call: call.Name}
	if call.Known&tracelog.NCCLCommunicator != 0 {
		n.Communicator = call.Communicator
	}
	if call.Known&tracelog.NCCLBytes != 0 {
		n.Bytes, n.HasBytes = call.Bytes, true
	}
	if n.Communicator == 0 && !n.HasBytes {
		return nil
	}
	return n
}

func endsGroup(name string) bool { return name == "ncclGroupEnd" || name == "ncclGroupSimulateEnd" }

// launchesNCCL reports whether a function of NCCL may launch a kernel. Those for communicators and memory launch none with others.
func launchesNCCL(name string) bool {
	for _, other := range []string{"ncclComm", "ncclGet", "ncclMem", "ncclRedOp"} {
		if strings.HasPrefix(name, other) {
			return false
		}
	}
	return true
}

func pointToPoint(name string) bool { return name == "ncclSend" || name == "ncclRecv" }

func (t *ncclThread) starts() {
	t.depth++
	if t.group == nil {
		t.group = new(timeline.NCCLGroup)
	}
}

// call takes the range of a call.
func (t *ncclThread) call(r *timeline.Range) {
	if t.open != nil && (!pointToPoint(r.Name) || pointToPoint(t.open.Name)) {
		*t = ncclThread{} // recording was off at the end of the open call
	}
	inner := t.open != nil
	if t.group == nil {
		t.group = new(timeline.NCCLGroup)
	}
	if !inner {
		t.open = r
		t.group.Add(r.NCCL)
	}
	if t.depth == 0 {
		r.Group = t.group
	}
}

// End takes the end of a range of NCCL on the thread that it began on.
func (c ncclCalls) End(tid uint32, r *timeline.Range, at uint64) {
	t := c.thread(tid)
	t.said = nil // of a range whose beginning was lost
	switch {
	case endsGroup(r.Name):
		t.depth = max(0, t.depth-1)
	case r == t.open:
		t.open = nil
	}
	if t.depth == 0 && t.open == nil && t.group != nil {
		t.group.Ended(at)
		t.group = nil
	}
}
