package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Unfinished delivers the calls that were open when their process was detached, and
// forgets them. It returns their number. Threads that live on and have been renamed
// since they were first seen are named again.
func (p *Prober) Unfinished(sink Sink) (int, error) {
	ids, err := p.detachedThreads()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, id := range ids {
		var t bpf.ProbesThread
		err := p.maps.Threads.LookupAndDelete(id, &t)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue // it ended meanwhile, and its calls are in a ring buffer
		}
		if err != nil {
			return n, fmt.Errorf("reading the open calls: %w", err)
		}
		n += deliverOpen(&t, sink)
		renamed(id, &t, sink)
	}
	return n, nil
}

// detachedThreads lists the threads of the map whose process is not probed any more.
func (p *Prober) detachedThreads() ([]uint64, error) {
	p.attached.Lock()
	defer p.attached.Unlock()
	var ids []uint64
	var id uint64
	var t bpf.ProbesThread
	all := p.maps.Threads.Iterate()
	for all.Next(&id, &t) {
		if p.processes[int(id>>32)] == nil {
			ids = append(ids, id)
		}
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("reading the open calls: %w", err)
	}
	return ids, nil
}

// deliverOpen delivers a thread's open calls, outermost first.
func deliverOpen(t *bpf.ProbesThread, sink Sink) int {
	depth := min(int(t.Depth), bpf.MaxDepth)
	for i := range depth {
		e := &t.Frames[i].Event
		sink.Call(&tracelog.Call{
			PID: e.Pid, TID: e.Tid, Func: uint32(e.Func), Flags: uint32(e.Flags) | tracelog.CallUnfinished,
			Enter: e.Enter, NArgs: uint32(e.Nargs), Args: e.Args,
		})
	}
	return depth
}

// renamed delivers the name of a thread that has another one than when it was first seen.
func renamed(id uint64, t *bpf.ProbesThread, sink Sink) {
	pid, tid := uint32(id>>32), uint32(id)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	if err != nil {
		return // the thread is gone, and had its last name delivered
	}
	name := strings.TrimSuffix(string(text), "\n")
	if name != commString(unsafe.Slice((*byte)(unsafe.Pointer(&t.Comm)), len(t.Comm))) {
		sink.Thread(&tracelog.Thread{PID: pid, TID: tid, Name: name})
	}
}
