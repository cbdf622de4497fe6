package probe

import (
	"errors"
	"fmt"
	"os"
	"strconv"
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

// deliverOpen delivers a thread's open calls, outermost first, and returns their number.
func deliverOpen(t *bpf.ProbesThread, sink Sink) int {
	n := 0
	for i := range min(int(t.Depth), bpf.MaxDepth) {
		e := &t.Frames[i].Event
		if e.Flags&bpf.FlagQuiet != 0 || e.Func == watchCookie {
			continue
		}
		n++
		sink.Call(&tracelog.Call{
			PID: e.Pid, TID: e.Tid, Func: uint32(e.Func), Flags: uint32(e.Flags) | tracelog.CallUnfinished,
			Enter: e.Enter, NArgs: uint32(e.Nargs), Args: e.Args,
		})
	}
	return n
}

// renamed delivers the name of a thread that has another one than when it was first seen.
func renamed(id uint64, t *bpf.ProbesThread, sink Sink) {
	if t.Announced == 0 {
		return // it made no call that is recorded
	}
	pid, tid := uint32(id>>32), uint32(id)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	if err != nil {
		return // the thread is gone, and had its last name delivered
	}
	name := strings.TrimSuffix(string(text), "\n")
	if name != commString(unsafe.Slice((*byte)(unsafe.Pointer(&t.Comm)), len(t.Comm))) {
		sink.Thread(&tracelog.Thread{PID: pid, TID: tid, Name: name, LocalTID: localTID(pid, tid)})
	}
}

// localTID is a thread's id in its innermost PID namespace, 0 when that is tid or the
// thread is gone.
func localTID(pid, tid uint32) uint32 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(ids)
			if len(fields) == 0 {
				return 0
			}
			local, err := strconv.ParseUint(fields[len(fields)-1], 10, 32)
			if err != nil || uint32(local) == tid {
				return 0
			}
			return uint32(local)
		}
	}
	return 0
}
