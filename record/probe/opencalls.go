package probe

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/probe/decode"
	"github.com/cudatrace/cudatrace/record/probe/eventstore"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// deliverOpenCalls delivers and forgets the calls that were open when their process was
// detached. It also delivers the names of threads that were renamed after their first call.
func (p *Prober) deliverOpenCalls(sink Sink) error {
	p.events.mu.Lock()
	defer p.events.mu.Unlock()
	if p.events.store == nil {
		return nil
	}
	threads := slices.DeleteFunc(p.events.store.Threads(), func(t eventstore.Thread) bool { return p.processes.has(int(t.PID)) })
	for _, t := range threads {
		if err := p.events.deliverOpen(t, p.program.maps.threads, sink); err != nil {
			return err
		}
	}
	return nil
}

// deliverOpen delivers a thread's open calls, outermost first, and its name if that has
// changed. frames is the eBPF program's map of open calls, by slot.
func (e *events) deliverOpen(t eventstore.Thread, frames *ebpf.Map, sink Sink) error {
	if !e.store.Claim(t) {
		return nil // the thread ended meanwhile: its calls are among the events
	}
	defer e.store.Release(t)
	err := e.deliverFrames(t, frames, sink)
	renamed(t, e.store.Claimed(t), sink)
	return err
}

func (e *events) deliverFrames(t eventstore.Thread, frames *ebpf.Map, sink Sink) error {
	depth := min(int(e.store.Claimed(t).Depth), bpf.MaxDepth)
	if depth == 0 {
		return nil
	}
	var thread bpf.ProbesThread
	if err := frames.Lookup(t.Slot, &thread); err != nil {
		return fmt.Errorf("reading the open calls: %w", err)
	}
	if innermost := e.store.Tail(t); innermost != nil {
		thread.Frames[depth-1].Event = *innermost
	}
	for i := range depth {
		c, err := e.decoder.OpenCall(&thread.Frames[i].Event)
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
func renamed(t eventstore.Thread, slot *bpf.ProbesSlot, sink Sink) {
	if slot.Announced == 0 {
		return // no call of the thread is recorded
	}
	name, ok := procfs.ThreadName(t.PID, t.TID)
	if !ok {
		return // the thread is gone: its last name has been delivered
	}
	if name != decode.ThreadName(unsafe.Slice((*byte)(unsafe.Pointer(&slot.Comm)), unsafe.Sizeof(slot.Comm))) {
		sink.Thread(&tracelog.Thread{PID: t.PID, TID: t.TID, Name: name, NamespaceTID: procfs.NamespaceTID(t.PID, t.TID)})
	}
}
