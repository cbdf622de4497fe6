package probe

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Unfinished delivers the calls that were open when their process was detached, and
// forgets them. It returns their number. Threads that live on and have been renamed
// since they were first seen are named again.
func (p *Prober) Unfinished(sink Sink) (int, error) {
	p.draining.Lock()
	defer p.draining.Unlock()
	if p.store == nil {
		return 0, nil
	}
	n := 0
	for _, t := range p.detachedThreads() {
		if !p.store.claim(t) {
			continue // it ended meanwhile, and its calls are among the events
		}
		open, err := p.deliverOpen(t, sink)
		renamed(t.id, &p.store.slots[t.slot], sink)
		p.store.release(t)
		n += open
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// A slotThread is a thread and its slot's number.
type slotThread struct {
	id   uint64
	slot uint32
}

// detachedThreads lists the threads whose process is not probed any more.
func (p *Prober) detachedThreads() []slotThread {
	p.attached.Lock()
	defer p.attached.Unlock()
	var threads []slotThread
	for i := range p.store.slots {
		id := atomic.LoadUint64(&p.store.slots[i].Id)
		if id != 0 && id != claimed && p.processes[int(id>>32)] == nil {
			threads = append(threads, slotThread{id, uint32(i)})
		}
	}
	return threads
}

// deliverOpen delivers a thread's open calls, outermost first, and returns their number.
func (p *Prober) deliverOpen(t slotThread, sink Sink) (int, error) {
	depth := min(int(p.store.slots[t.slot].Depth), bpf.MaxDepth)
	if depth == 0 {
		return 0, nil
	}
	var thread bpf.ProbesThread
	if err := p.maps.Threads.Lookup(t.slot, &thread); err != nil {
		return 0, fmt.Errorf("reading the open calls: %w", err)
	}
	if e := p.store.tail(t.slot); e != nil {
		thread.Frames[depth-1].Event = *e
	}
	n := 0
	for i := range depth {
		e := &thread.Frames[i].Event
		if e.Flags&bpf.FlagQuiet != 0 || e.Func == watchCookie {
			continue
		}
		c, err := p.openCall(e)
		if err != nil {
			return n, err
		}
		n++
		sink.Call(c)
	}
	return n, nil
}

func (p *Prober) openCall(e *bpf.ProbesEvent) (*tracelog.Call, error) {
	c := &tracelog.Call{
		PID: e.Pid, TID: e.Tid, Func: uint32(e.Func), Flags: uint32(e.Flags&^bpf.FlagRaw) | tracelog.CallUnfinished,
		Enter: e.Enter, NArgs: uint32(e.Nargs), Args: e.Args,
	}
	if e.Flags&bpf.FlagRaw == 0 {
		return c, nil
	}
	c.Args = [len(c.Args)]uint64{}
	return c, p.takeApart(c, unsafe.Slice((*byte)(unsafe.Pointer(&e.Args)), unsafe.Sizeof(e.Args)))
}

// renamed delivers the name of a thread that has another one than when it was first seen.
func renamed(id uint64, t *bpf.ProbesSlot, sink Sink) {
	if t.Announced == 0 {
		return // it made no call that is recorded
	}
	pid, tid := uint32(id>>32), uint32(id)
	name, ok := procfs.ThreadName(pid, tid)
	if !ok {
		return // the thread is gone, and had its last name delivered
	}
	if name != commString(unsafe.Slice((*byte)(unsafe.Pointer(&t.Comm)), unsafe.Sizeof(t.Comm))) {
		sink.Thread(&tracelog.Thread{PID: pid, TID: tid, Name: name, LocalTID: procfs.NamespaceTID(pid, tid)})
	}
}
