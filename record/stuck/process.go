package stuck

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/internal/blocked"
	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// A view is one look at a thread.
type view struct {
	at       time.Time
	stat     procfs.ThreadStat
	ran      uint64 // ns
	state    blocked.State
	blocked  bool
	why      blocked.Cause
	pipe     string // that it reads from or writes to, or the socket at the other end
	python   []Frame
	unread   bool // it has Python frames that could not be read
	argument int  // of wait4 and waitid: the child, 0 for any
}

// A look is a process that is looked at.
type look struct {
	ProcessReport
	all     *group
	blocked *blocked.WatchedProcess
	python  map[uint32]bool // threads with a Python state
	cut     bool            // there may be more of them
	first   map[uint32]view
}

// A group are processes that may wait for each other.
type group struct {
	looks map[int]*look
	tried map[int]bool
	pipes pipes
	known map[node]chain // of the threads that were followed from one thread on: ways to them are without number
}

func newGroup() *group { return &group{looks: map[int]*look{}, tried: map[int]bool{}} }

// begin looks at a process for the first time.
func (g *group) begin(pid int) (*look, error) {
	g.tried[pid] = true
	described := procfs.Describe(pid)
	program := strings.ReplaceAll(described.Args, "\x00", " ")
	l := &look{
		all: g, ProcessReport: ProcessReport{PID: pid, Program: cmp.Or(program, filepath.Base(described.Executable))},
		blocked: blocked.NewProcess(uint32(pid)),
	}
	if environ, err := procfs.Environment(pid); err == nil || len(environ) > 0 { // else it has no rank
		if rank := ranks.Place(ranks.Variables(environ)); rank.Known {
			l.Rank, l.World = &rank.Number, rank.Of
		}
	}
	s, running := procfs.StatOf(pid)
	switch {
	case !running:
		return nil, fmt.Errorf("there is no process %d", pid)
	case s.Ended:
		return nil, fmt.Errorf("process %d has ended; its parent, process %d, has not waited for it", pid, s.Parent)
	case program == "" && described.Executable == "":
		return nil, fmt.Errorf("process %d is a kernel thread or has just ended", pid)
	}
	if _, _, err := blocked.Read(uint32(pid), uint32(pid)); err != nil {
		return nil, explainAccess(pid, err)
	}
	in, err := pyframes.Find(pid)
	why := pyframes.Unusable("")
	switch {
	case errors.As(err, &why):
		l.Notes = append(l.Notes, "its Python frames are not read: "+string(why))
	case err != nil:
		return nil, explainAccess(pid, err)
	case in == nil && looksLikePython(described.Executable):
		l.Notes = append(l.Notes, "its Python frames are not read: its interpreter has no symbols (stripped), or is none "+
			"that is known")
	case in != nil:
		l.blocked.Walker = pyframes.NewWalker(pid, in)
	}
	l.first = l.look()
	g.looks[pid] = l
	return l, nil
}

func looksLikePython(executable string) bool {
	return strings.HasPrefix(filepath.Base(executable), "python")
}

// retriesMost bounds, for a look at a process, how often threads are looked at again that have a processor.
const retriesMost = 60

// look looks at all threads.
func (l *look) look() map[uint32]view {
	views := map[uint32]view{}
	if w := l.blocked.Walker; w != nil {
		l.python, l.cut, _ = w.Threads() // those that could be read
	}
	l.LeftOut = 0
	retries := retriesMost
	for tid := range procfs.Threads(uint32(l.PID)) {
		if len(views) >= threadsMost {
			l.LeftOut++
			continue
		}
		v, ok := l.view(tid)
		for n := 0; ok && !v.blocked && n < 10 && retries > 0; n++ { // it may just have woken up for a moment
			retries--
			time.Sleep(2 * time.Millisecond)
			v, ok = l.view(tid)
		}
		if ok {
			views[tid] = v
		}
	}
	l.children = procfs.Children(l.PID)
	return views
}

// view looks at a thread; ok is false if it has ended.
func (l *look) view(tid uint32) (v view, ok bool) {
	pid := uint32(l.PID)
	v.at = time.Now()
	if v.stat, ok = procfs.StatOfThread(pid, tid); !ok || v.stat.State == 'Z' || v.stat.State == 'X' {
		return v, false
	}
	schedule, _ := procfs.ThreadSchedule(pid, tid) // where the kernel does not count, no thread runs
	v.ran = schedule.Ran
	v.state, v.blocked, _ = blocked.Read(pid, tid) // one that may not be read is not blocked
	if v.blocked {
		v.why = l.blocked.Explain(&v.state)
		switch v.why.Call {
		case "wait4", "waitid":
			v.argument = l.awaited(&v)
		}
		if len(v.why.Files) == 1 {
			v.pipe = otherEnd(l.PID, v.why.Files[0])
		}
	}
	if l.blocked.Walker == nil {
		return v, true
	}
	local := cmp.Or(procfs.NamespaceTID(pid, tid), tid)
	if !l.python[local] {
		return v, true
	}
	frames, _, err := l.blocked.Walker.Stack(local, nil)
	v.unread = err != nil
	for _, f := range frames {
		if line := f.Line(); line > 0 {
			v.python = append(v.python, Frame{f.Code.File, line, f.Code.Function})
		}
	}
	return v, true
}

// awaited is the child that a thread waits for, 0 for any of several.
func (l *look) awaited(v *view) int {
	const onePID, oneDescriptor = 1, 3 // P_PID and P_PIDFD of waitid
	n := int(int32(v.state.Arguments[0]))
	if v.why.Call == "waitid" {
		kind := n
		switch n = int(int32(v.state.Arguments[1])); kind {
		case onePID:
		case oneDescriptor: // as Go waits
			return int(max(aboutDescriptor(l.PID, n, "\nPid:", 10), 0))
		default:
			n = 0
		}
	}
	if n <= 0 {
		return 0
	}
	for _, child := range procfs.Children(l.PID) { // in the process's own PID namespace children have other IDs
		own := procfs.NamespaceTID(uint32(child), uint32(child))
		if int(own) == n || own == 0 && child == n {
			return child
		}
	}
	return 0
}

// others lists processes that those that are looked at wait for, and that were not tried.
func (g *group) others() (list []int) {
	add := func(pid int) {
		if !g.tried[pid] && !slices.Contains(list, pid) {
			list = append(list, pid)
		}
	}
	for _, l := range g.looks {
		for _, v := range l.first {
			for _, pid := range l.awaits(&v) {
				add(pid)
			}
		}
	}
	slices.Sort(list)
	return list
}

// awaits lists the processes that a thread waits for.
func (l *look) awaits(v *view) []int {
	switch {
	case !v.blocked:
	case v.why.Call == "wait4" || v.why.Call == "waitid":
		if v.argument != 0 {
			return []int{v.argument}
		}
		return l.running()
	case v.pipe != "":
		return l.all.pipes.others(v.pipe, l.PID, !isWrite(v.why.Call))
	}
	return nil
}

// running are the children that have not ended.
func (l *look) running() (list []int) {
	for _, pid := range l.children {
		if s, ok := procfs.StatOf(pid); ok && !s.Ended {
			list = append(list, pid)
		}
	}
	return list
}

func isWrite(call string) bool {
	switch call {
	case "write", "writev", "pwrite64", "sendfile", "splice", "sendto", "sendmsg", "sendmmsg":
		return true
	}
	return false
}

// again looks at the process for the second time, and says what moved.
func (l *look) again() {
	now := l.look()
	l.Gone = l.gone()
	l.take(l.first, now)
	if l.cut {
		l.Notes = append(l.Notes, fmt.Sprintf("Python frames were read of %s only",
			figures.Count(len(l.python), "thread", "threads")))
	}
	if len(now) == 0 {
		l.Notes = append(l.Notes, "it ended between the two looks")
	}
}

// take makes the threads of the two looks.
func (l *look) take(before, now map[uint32]view) {
	code := &codeMap{pid: l.PID}
	for tid, v := range now {
		t := Thread{
			TID: tid, Name: v.stat.Name, State: v.stat.StateName(), Channel: v.stat.Channel, Python: v.python, seen: v,
		}
		if v.blocked {
			t.Call, t.On, t.Holder = v.why.Call, v.why.On, v.why.Holder
			t.Library = code.at(v.state.Instruction)
		}
		old, known := before[tid]
		t.before = old
		t.Moved = moved(&t, &old, &v, known)
		l.Threads = append(l.Threads, t)
	}
	main := uint32(l.PID)
	slices.SortFunc(l.Threads, func(a, b Thread) int { // the main thread's number may be larger than others
		return cmp.Or(cmp.Compare(oneUnless(a.TID == main), oneUnless(b.TID == main)), cmp.Compare(a.TID, b.TID))
	})
}

func oneUnless(first bool) int {
	if first {
		return 0
	}
	return 1
}

// busy is the share of the time from which on a thread that had a processor has moved by that alone.
const busy = 0.05

// moved says what was different at the second look.
func moved(t *Thread, old, now *view, known bool) string {
	if !known {
		return "new"
	}
	if elapsed := now.at.Sub(old.at); elapsed > 0 && now.ran >= old.ran {
		t.Ran = min(float64(now.ran-old.ran)/float64(elapsed), 1)
	}
	t.Woken = now.stat.Switches - min(old.stat.Switches, now.stat.Switches)
	switch {
	case now.stat.State == 'T' || now.stat.State == 't':
		return ""
	case t.Woken == 0 && old.blocked && now.blocked: // it has not run, whatever was read
		return ""
	case !slices.Equal(old.python, now.python) && !now.unread && !old.unread:
		return "Python line"
	case t.Ran >= busy:
		return "ran"
	case isReady(now), isGILWait(now) && isReady(old): // it may have waited for a processor all the time
		return ""
	case !old.blocked || !now.blocked:
		return "woke up"
	case old.state.Call != now.state.Call && !isGILWait(old) && !isGILWait(now):
		return "system call"
	}
	return ""
}

// know takes what a recording knows. A thread that waits in a call of CUDA may run all the while: it has not gone on by
// that.
func (l *look) know(r *Recorded) {
	if l.Recorded = r; r == nil {
		return
	}
	for i := range l.Threads {
		t := &l.Threads[i]
		t.CUDA = r.Calls[t.TID]
		if t.CUDA != nil && t.CUDA.Waits && (t.Moved == "ran" || t.Moved == "woke up") {
			t.Moved = ""
		}
	}
}

// isReady reports whether a thread runs, or is ready to.
func isReady(v *view) bool { return !v.blocked && v.stat.State == 'R' }

// isGILWait reports whether a thread waits for the GIL, which it does in pieces of 5 ms.
func isGILWait(v *view) bool { return v.blocked && v.why.On == blocked.OnGIL }

// gone lists the children that have ended.
func (l *look) gone() (list []Gone) {
	for _, pid := range l.children {
		s, ok := procfs.StatOf(pid)
		if !ok || !s.Ended {
			continue
		}
		g := Gone{PID: pid, bad: true}
		if stat, ok := procfs.StatOfThread(uint32(pid), uint32(pid)); ok {
			g.Name = stat.Name
		}
		switch status, known := procfs.Status(pid); {
		case !known:
		case status.Signaled():
			g.How = "killed by " + cmp.Or(unix.SignalName(status.Signal()), fmt.Sprintf("signal %d", status.Signal()))
		default:
			g.How, g.bad = fmt.Sprintf("exit code %d", status.ExitStatus()), status.ExitStatus() != 0
		}
		list = append(list, g)
	}
	return list
}

// A codeMap finds the file of an instruction.
type codeMap struct {
	pid  int
	read bool
	code []procfs.Mapping
}

func (c *codeMap) at(address uint64) string {
	if !c.read {
		c.read = true
		c.code, _ = procfs.Code(c.pid) // none if it has ended
	}
	if m := procfs.Around(c.code, address); m != nil && m.Path != "" {
		return filepath.Base(m.Path)
	}
	return ""
}

// tracer is the process that traces a thread, 0 if it does not any more.
func (l *look) tracer(tid uint32) uint32 { return procfs.Tracer(uint32(l.PID), tid) }
