package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/metadata"
	"github.com/cudatrace/cudatrace/record/probe"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A tracee is one program in one process, from its hello to its end. A process that runs another
// program by exec is two tracees, one after the other. A process that was attached to by PID says
// no hello.
type tracee struct {
	pid      uint32
	attached bool   // by PID: no library in it talks to us
	request  uint64 // the argument of our own registration with CUPTI
	answered bool   // CUPTI is on in it, or cannot be
	recorded bool   // by CUPTI
	rival    bool   // another CUPTI client gets its records
	ended    bool
	cut      bool   // it was said why its last records are missing
	absent   string // why it runs unrecorded although it said hello
	end      tracelog.ProcessEnd
}

// tracees are all tracees of a recording.
type tracees struct {
	log  *tracelog.Writer
	bare bool                                // processes are logged without arguments, folder and environment
	exit func(pid uint32) (probe.Exit, bool) // how a process ended; false if its end is not watched
	left func(pid uint32, reason string)     // is called when a process has ended

	mu   sync.Mutex
	byID map[uint64]*tracee // by cupti.Peer.ID; an attached process by attachedID and its PID
}

const attachedID = 1 << 63

func newTracees(log *tracelog.Writer, exit func(uint32) (probe.Exit, bool)) *tracees {
	return &tracees{log: log, exit: exit, left: func(uint32, string) {}, byID: map[uint64]*tracee{}}
}

// add adds a tracee and logs its process, which has mapped some files.
func (ts *tracees) add(id uint64, t tracee, mapped []string) {
	ts.mu.Lock()
	ts.byID[id] = &t
	ts.mu.Unlock()
	ts.describe(t.pid, mapped, host.Monotonic())
}

// attach adds a process that was attached to.
func (ts *tracees) attach(pid uint32, mapped []string) {
	ts.add(attachedID|uint64(pid), tracee{pid: pid, attached: true}, mapped)
}

// meet notes that a process that was attached to has said hello after all.
func (ts *tracees) meet(id uint64, pid uint32, request uint64) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byID[attachedID|uint64(pid)]
	if t == nil {
		t = &tracee{pid: pid}
	}
	delete(ts.byID, attachedID|uint64(pid))
	t.attached, t.request = false, request
	ts.byID[id] = t
}

// describe logs which program a process runs since a time, and under which circumstances.
func (ts *tracees) describe(pid uint32, mapped []string, since uint64) {
	p := procfs.Describe(int(pid))
	record := tracelog.Process{PID: pid, PPID: p.Parent, Start: since, Exe: p.Executable,
		Cudart: metadata.Version(mapped, "libcudart"), NCCL: metadata.Version(mapped, "libnccl")}
	record.Args, _, _ = strings.Cut(p.Args, "\x00")
	if !ts.bare {
		record.Args, record.Cwd = metadata.WithoutCredentials(p.Args), p.Folder
		if environ, err := procfs.Environment(int(pid)); err == nil {
			record.Environment = strings.Join(metadata.Variables(environ), "\x00")
		}
	}
	record.AddTo(ts.log)
}

// end is called with a tracee's own account of its end. If that has no reason, the probes may know
// one.
func (ts *tracees) end(id uint64, e tracelog.ProcessEnd) {
	if x, ok := ts.exit(e.PID); ok && e.Reason == "" {
		e.Reason = x.Reason // now: after an exec, the next program's end would hide it
	}
	ts.mu.Lock()
	if t := ts.byID[id]; t != nil {
		t.ended, t.end = true, e
	}
	ts.mu.Unlock()
	ts.nameThreads(e.PID)
	ts.left(e.PID, e.Reason)
}

// owing lists the processes that will still hand over records of CUPTI's.
func (ts *tracees) owing() (pids []uint32) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byID {
		if t.recorded && !t.ended && !t.rival && !t.cut {
			pids = append(pids, t.pid)
		}
	}
	return pids
}

// nameThreads logs the current names of a process's threads: many programs name a thread after its
// first CUDA call. If the process is gone, the log keeps the names at the first call.
func (ts *tracees) nameThreads(pid uint32) {
	for tid, name := range procfs.ThreadNames(pid) {
		ts.log.Add(&tracelog.Thread{PID: pid, TID: tid, Name: name})
	}
}

// any says whether a condition holds for any tracee.
func (ts *tracees) any(holds func(*tracee) bool) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byID {
		if holds(t) {
			return true
		}
	}
	return false
}

// none says whether no process used CUDA.
func (ts *tracees) none() bool { return !ts.any(func(*tracee) bool { return true }) }

// worked says whether any process sent GPU work.
func (ts *tracees) worked() bool {
	return ts.any(func(t *tracee) bool { return t.end.Kernels+t.end.Copies+t.end.Sets > 0 })
}

// wasRecorded says whether CUPTI has ever recorded a process.
func (ts *tracees) wasRecorded(pid uint32) bool {
	return ts.any(func(t *tracee) bool { return t.pid == pid && t.recorded })
}

// hasRival says whether a process's records go to another CUPTI client.
func (ts *tracees) hasRival(pid uint32) bool {
	return ts.any(func(t *tracee) bool { return t.pid == pid && t.rival })
}

// change changes the tracees with a PID.
func (ts *tracees) change(pid uint32, to func(*tracee)) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byID {
		if t.pid == pid {
			to(t)
		}
	}
}

// setRecorded notes that CUPTI records a process.
func (ts *tracees) setRecorded(pid uint32) { ts.change(pid, func(t *tracee) { t.recorded = true }) }

// hasAnswered says whether a process has said what becomes of CUPTI in it, or never will.
func (ts *tracees) hasAnswered(pid uint32) bool {
	return ts.any(func(t *tracee) bool { return t.pid == pid && (t.answered || t.ended) })
}

// isAttached says whether a process was attached to and no library in it talks to us.
func (ts *tracees) isAttached(pid uint32) bool {
	return ts.any(func(t *tracee) bool { return t.pid == pid && t.attached })
}

// isOwn says whether a registration with CUPTI is that of a process's injected library.
func (ts *tracees) isOwn(pid uint32, request uint64) bool {
	return ts.any(func(t *tracee) bool { return t.pid == pid && t.request == request })
}

// setRival notes that a process's records go to another CUPTI client. It says whether that is new.
func (ts *tracees) setRival(pid uint32) (fresh bool) {
	fresh = true
	ts.change(pid, func(t *tracee) { fresh, t.rival = fresh && !t.rival, true })
	return fresh
}

// setAbsent notes why a tracee runs unrecorded.
func (ts *tracees) setAbsent(id uint64, why string) { ts.set(id, func(t *tracee) { t.absent = why }) }

// setCut notes that it was said why the last records of a tracee are missing.
func (ts *tracees) setCut(id uint64) { ts.set(id, func(t *tracee) { t.cut = true }) }

// set changes a tracee.
func (ts *tracees) set(id uint64, to func(*tracee)) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byID[id]; t != nil {
		to(t)
	}
}

// has says whether a process is a tracee, or has been one.
func (ts *tracees) has(pid uint32) bool { return ts.any(func(t *tracee) bool { return t.pid == pid }) }

// live lists the PIDs of the tracees that have not ended.
func (ts *tracees) live() []uint32 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var pids []uint32
	for _, t := range ts.byID {
		if !t.ended {
			pids = append(pids, t.pid)
		}
	}
	return pids
}

// finish logs the end of every tracee; known says how processes ended, by PID. It returns a line for each
// process whose last records are missing, and none if recording ended early.
func (ts *tracees) finish(known map[uint32]probe.Exit, early bool) []string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var cut []string
	absent := map[string][]uint32{}
	for _, id := range slices.Sorted(maps.Keys(ts.byID)) {
		t := ts.byID[id]
		e := ts.lastWord(t)
		if x, ok := known[e.PID]; ok {
			e.Status = x.Status
			struck(&e, &x)
		}
		switch {
		case early:
		case t.absent != "":
			absent[t.absent] = append(absent[t.absent], t.pid)
		case e.Complete == 0 && !t.rival && !t.cut:
			cut = append(cut, cutText(&e))
		}
		e.AddTo(ts.log)
	}
	if more := len(cut) - maxCut; more > 0 {
		cut = append(cut[:maxCut], "so did "+figures.Count(more, "more process", "more processes"))
	}
	for _, why := range slices.Sorted(maps.Keys(absent)) {
		cut = append(cut, absentText(absent[why], why))
	}
	return cut
}

// absentText names processes that run unrecorded.
func absentText(pids []uint32, why string) string {
	text := fmt.Sprintf("%s not recorded (%d", figures.Count(len(pids), "process is", "processes are"), pids[0])
	for _, pid := range pids[1:min(len(pids), maxCut)] {
		text += fmt.Sprintf(", %d", pid)
	}
	if len(pids) > maxCut {
		text += ", ..."
	}
	return text + "): " + why
}

// maxCut is the most processes that are named one by one.
const maxCut = 5

// lastWord is the end of a tracee, as the tracee reported it and as the probes saw it.
func (ts *tracees) lastWord(t *tracee) tracelog.ProcessEnd {
	e := t.end
	if !t.ended {
		e = tracelog.ProcessEnd{PID: t.pid, Time: host.Monotonic(), Status: -1}
	}
	if t.attached {
		e.Complete = 1
	}
	x, ok := ts.exit(t.pid)
	if ok && x.Final && e.Reason != "exec" {
		e.Status = x.Status
		struck(&e, &x)
	}
	return e
}

// struck makes a signal the reason of an end: it struck before the process could end as it meant to.
func struck(e *tracelog.ProcessEnd, x *probe.Exit) {
	if x.Signaled() && e.Reason != "exec" {
		e.Reason = x.Reason
	}
}

// cutText says that the last records of a process are missing.
func cutText(e *tracelog.ProcessEnd) string {
	how := "ended before its last records were handed over"
	if e.Reason != "" {
		how += ", by " + e.Reason
	}
	if e.Until == 0 || e.Until > e.Time {
		return fmt.Sprintf("process %d %s", e.PID, how)
	}
	return fmt.Sprintf("process %d %s: GPU work of its last %s may be missing", e.PID, how,
		time.Duration(e.Time-e.Until).Round(time.Millisecond))
}
