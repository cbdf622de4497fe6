package probe

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// deliverOpenCalls delivers and forgets the calls that are open in some threads. It also delivers the names of those
// that were renamed after their first call. frames is the eBPF program's map of open calls, by slot.
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
	if err := e.store.mapChunkOf(t); err != nil {
		return err
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

// An openKey is a call that has not returned.
type openKey struct {
	pid, tid, function uint32
	enter              uint64
}

// lookAtOpenCalls gives the calls that were entered before a time and have not returned to take, each one once. Threads
// write while they are looked at, so that a call is one only if the look before has seen the same.
func (e *events) lookAtOpenCalls(frames *ebpf.Map, before uint64, take func(*tracelog.Call)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.store == nil {
		return
	}
	seen := map[openKey]bool{}
	for _, t := range e.store.threads() {
		for _, event := range e.store.openEvents(t, frames) {
			if event.Enter >= before || event.Pid != t.PID || event.Tid != t.TID {
				continue
			}
			c, err := e.decoder.openCall(&event)
			if err != nil || c == nil {
				continue // it is being written, or not recorded
			}
			key := openKey{c.PID, c.TID, c.Func, c.Enter}
			taken, known := e.open[key]
			if known && !taken {
				take(c)
			}
			seen[key] = known
		}
	}
	e.open = seen
}

// openEvents copies the open calls of a thread that goes on, outermost first.
func (s *eventStore) openEvents(t callingThread, frames *ebpf.Map) (all []bpf.ProbesEvent) {
	depth := min(int(atomic.LoadUint32(&s.slots[t.Slot].Depth)), bpf.MaxDepth)
	innermost := s.tail(t)
	if depth > 1 || depth == 1 && innermost == nil {
		var thread bpf.ProbesThread
		if frames.Lookup(t.Slot, &thread) != nil {
			return nil // the next look tries again
		}
		for i := range depth {
			all = append(all, thread.Frames[i].Event)
		}
	}
	if depth > 0 && innermost != nil {
		all = append(all[:max(len(all)-1, 0)], *innermost)
	}
	return all
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
