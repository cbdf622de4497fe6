package probe

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// deliverOpenCalls delivers and forgets the calls that are open in some threads. It also delivers the names of those that were
// renamed after their first call. frames is the eBPF program's map of open calls, by slot.
func (e *events) deliverOpenCalls(of func(callingThread) bool, frames *ebpf.Map, sink Sink) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.store == nil {
		return nil
	}
	for _, t := range e.store.threads() {
		if !of(t) {
			continue
		}
		if err := e.deliverOpen(t, frames, sink); err != nil {
			return err
		}
	}
	return nil
}

// isReplaced returns a condition for the threads that ran another program by exec in these processes. Such a thread
// goes on under the number of its process, and no end of it is seen under its own.
func isReplaced(pids []uint32) func(callingThread) bool {
	return func(t callingThread) bool {
		return slices.Contains(pids, t.PID) && !slices.Contains(slices.Collect(procfs.Threads(t.PID)), t.TID)
	}
}

// deliverOpen delivers a thread's open calls, outermost first, and its name if that has
// changed.
func (e *events) deliverOpen(t callingThread, frames *ebpf.Map, sink Sink) error {
	if !e.store.claim(t) {
		return nil // the thread ended meanwhile: its calls are among the events
	}
	defer e.store.release(t)
	err := e.deliverFrames(t, frames, sink)
	renamed(t, e.store.claimed(t), sink)
	return err
}

func (e *events) deliverFrames(t callingThread, frames *ebpf.Map, sink Sink) error {
	depth := min(int(e.store.claimed(t).Depth), bpf.MaxDepth)
	if depth == 0 {
		return nil
	}
	var thread bpf.ProbesThread
	if err := frames.Lookup(t.Slot, &thread); err != nil {
		return fmt.Errorf("reading the open calls: %w", err)
	}
	if innermost := e.store.tail(t); innermost != nil {
		thread.Frames[depth-1].Event = *innermost
	}
	for i := range depth {
		c, err := e.decoder.openCall(&thread.Frames[i].Event)
		if err != nil {
			return err
		}
		if c != nil {
			sink.Call(c)
		}
	}
	return nil
}

// renamed delivers the name of a thread whose name has changed since its first call.
func renamed(t callingThread, slot *bpf.ProbesSlot, sink Sink) {
	if slot.Announced == 0 {
		return // no call of the thread is recorded
	}
	name, ok := procfs.ThreadName(t.PID, t.TID)
	if !ok {
		return // the thread is gone: its last name has been delivered
	}
	if name != threadName(unsafe.Slice((*byte)(unsafe.Pointer(&slot.Comm)), unsafe.Sizeof(slot.Comm))) {
		sink.Thread(&tracelog.Thread{PID: t.PID, TID: t.TID, Name: name, NamespaceTID: procfs.NamespaceTID(t.PID, t.TID)})
	}
}
