package record

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Steps are what the Python module cudatrace (packaging/python/cudatrace/_marks.py) counts in an armed process, recorded
// or not.
type Steps struct {
	Last  uint64 // beginning of the latest step, ns of CLOCK_MONOTONIC
	Count uint64 // of steps that have begun
}

// The memory in which the module keeps them, of 8-byte words: the beginning of the latest step, the number of steps, the
// thread, stepsKept; then a beginning and a number for each of the latest steps. The process writes what it likes there.
const (
	stepsFile = "/memfd:cudatrace-steps" // as /proc/PID/maps has it
	stepsKept = 4094
	stepsAt   = 4 // words
)

// stepsMemory finds that memory in a process and returns what reads words of it; ok is false if the process counts no steps.
func stepsMemory(pid int) (read func(word, words uint64) ([]uint64, error), ok bool) {
	at, ok := procfs.FindMapping(pid, stepsFile, 0)
	memory := procfs.Memory{PID: pid}
	return func(word, words uint64) ([]uint64, error) {
		b, list := make([]byte, 8*words), make([]uint64, words)
		err := memory.Read(at.From+8*word, b)
		for i := range list {
			list[i] = binary.NativeEndian.Uint64(b[8*i:])
		}
		return list, err
	}, ok
}

// StepsOf reads the steps of a process; ok is false if it counts none.
func StepsOf(pid int) (s Steps, ok bool) {
	read, ok := stepsMemory(pid)
	for before, tries := s, 0; ok && tries < 3; tries++ { // the process may have begun a step between the two numbers
		head, err := read(0, 2)
		if err != nil {
			return Steps{}, false
		}
		if s = (Steps{head[0], head[1]}); s == before {
			break
		}
		before = s
	}
	return s, s.Count > 0
}

// stepsLook is the time between two looks at the steps of a process.
const stepsLook = 250 * time.Millisecond

// An armedSteps follows the steps of a process into the log.
type armedSteps struct {
	pid, tid uint32
	next     uint64 // the first step that was not seen
	since    uint64 // no step that began before is logged: its GPU work is not whole
	last     uint64 // beginning of the latest step that is logged
	open     uint64 // that step's ID, 0 before the first one
	missing  uint64
	log      func(tracelog.Record)
}

// followSteps follows the steps of armed processes from now until recording is to end, which it waits for.
func (s *session) followSteps() {
	var all []*armedSteps
	for _, pid := range s.opts.PIDs {
		if s.isCalled(pid) {
			since := host.Monotonic() + uint64(s.opts.Delay)
			all = append(all, &armedSteps{pid: uint32(pid), since: since, log: func(r tracelog.Record) { s.log.Add(r) }})
		}
	}
	if len(all) == 0 {
		return
	}
	s.beside.Go(func() {
		for over := false; !over; {
			select {
			case <-s.ending:
				over = true
			case <-time.After(stepsLook):
			}
			for _, a := range all {
				a.look()
			}
		}
		for _, a := range all {
			if a.missing > 0 {
				s.report.miss(a.pid, fmt.Sprintf("process %d: %d steps are missing: they came faster than they could be read",
					a.pid, a.missing))
			}
		}
	})
}

// look logs the steps that have begun since the look before.
func (a *armedSteps) look() {
	if read, ok := stepsMemory(int(a.pid)); ok { // else it has not begun one, or has ended
		a.take(read, host.Monotonic)
	}
}

// take logs the steps in the memory. The process may write there meanwhile.
func (a *armedSteps) take(read func(word, words uint64) ([]uint64, error), clock func() uint64) {
	head, err := read(0, stepsAt)
	if err != nil || head[3] != stepsKept || head[1] <= a.next {
		return // it has ended, or begun none
	}
	if a.next == 0 {
		a.tid = threadOf(a.pid, uint32(head[2]))
	}
	count, first := head[1], max(a.next, head[1]-min(head[1], stepsKept))
	var steps []uint64
	for i := first; i < count; { // the memory is a ring
		n := min(count-i, stepsKept-i%stepsKept)
		part, err := read(stepsAt+2*(i%stepsKept), 2*n)
		if err != nil {
			return
		}
		steps, i = append(steps, part...), i+n
	}
	if head, err = read(0, stepsAt); err != nil {
		return
	}
	now := clock()
	kept := max(first, head[1]-min(head[1], stepsKept)) // later steps may have been written over earlier ones
	if kept > first && kept < count {
		kept++ // the next one is being written
	}
	if a.open != 0 {
		a.missing += min(kept, count) - a.next
	}
	for i := kept; i < count; i++ {
		if at := steps[2*(i-first)]; at >= a.since && at >= a.last && at <= now {
			a.begin(i+1, at, int64(steps[2*(i-first)+1]))
		}
	}
	a.next = count
}

// firstStepID is more than any ID of a range that the injected library records.
const firstStepID = 1 << 31

// begin logs that a step has begun, and the one before ended.
func (a *armedSteps) begin(id, at uint64, number int64) {
	m := tracelog.Marker{PID: a.pid, TID: a.tid, Time: at}
	if a.open != 0 {
		end := m
		end.Flags, end.ID = tracelog.MarkerEnd, firstStepID|uint32(a.open)
		a.log(&end)
	}
	m.Flags, m.ID, m.Name = tracelog.MarkerStart, firstStepID|uint32(id), "step "+strconv.FormatInt(number, 10)
	a.log(&m)
	a.open, a.last = id, at
}

// threadOf is the thread that has a number in the PID namespace of its process; the main thread if none has it any more.
func threadOf(pid, own uint32) uint32 {
	tids := slices.Collect(procfs.Threads(pid))
	for _, tid := range tids {
		if in := procfs.NamespaceTID(pid, tid); in == own || in == 0 && tid == own {
			return tid
		}
	}
	return pid
}
