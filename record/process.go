package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ranks"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An identity tells a program from all others that processes run: PIDs are reused, and by exec a process runs one
// program after the other.
type identity struct {
	pid        uint32
	start      procfs.StartTime // of the process; 0 if it had ended before anybody looked
	generation int              // of its programs, from 1
}

// A state is where a program is in its life.
type state uint8

const (
	isMet        state = iota // it waits for its libraries to be probed
	isAttaching               // they are being probed
	isRecorded                // it runs, and is recorded
	isUnrecorded              // it runs, and its rank is not among the chosen ones
	isEnding                  // it runs no more; its last records are on their way
	isEnded                   // its last record has come
)

// A step is what happens to a program.
type step uint8

const (
	stepAttach  step = iota // its turn to be probed has come
	stepLeave               // its rank is not among the chosen ones
	stepAnswer              // it is told to go on
	stepReplace             // its process runs another program by exec, or its PID is another process's
	stepVanish              // its process is gone
	stepEnd                 // its last record has come
)

// transitions says which state a step leads to. docs/architecture.md shows the same table.
var transitions = [...][6]state{
	//            attach       leave         answer        replace    vanish    end
	isMet:        {isAttaching, isUnrecorded, isMet, isEnding, isEnding, isEnded},
	isAttaching:  {isAttaching, isAttaching, isRecorded, isEnding, isEnding, isEnded},
	isRecorded:   {isRecorded, isRecorded, isRecorded, isEnding, isEnding, isEnded},
	isUnrecorded: {isUnrecorded, isUnrecorded, isUnrecorded, isEnded, isEnded, isEnded},
	isEnding:     {isEnding, isEnding, isEnding, isEnding, isEnding, isEnded},
	isEnded:      {isEnded, isEnded, isEnded, isEnded, isEnded, isEnded},
}

// A recordedProcess is one program in one process: all that is known of it. It belongs to the goroutine of the
// session.
type recordedProcess struct {
	identity
	before, next *recordedProcess // which had the PID before, and have it next; nil: none
	state        state
	// ns, CLOCK_MONOTONIC: what happens in the process from then on, until the next one begins, is the program's
	began uint64

	// listener hears what the injected library in it says. A process that was attached to by PID has none, unless
	// it was armed.
	listener *listener
	reply    chan<- cupti.GoConfig // gets the answer to its hello; nil: it does not wait
	overdue  *time.Timer           // answers when the process can wait no longer
	found    []cupti.Candidate     // places of libcupti for it
	late     bool                  // its libraries are not probed: there was no time, or its code is translated
	// translator is the program that translates its code, "" for none.
	translator string
	looked     uint64  // epoch in which its code was read last
	python     *python // nil: no frames are read in it
	torch      torch

	asked       bool        // a probe notices its _exit and exec, and asks for its last records then
	answered    bool        // CUPTI is on in it, or cannot be
	recorded    bool        // by CUPTI
	otherClient bool        // another CUPTI client gets its records
	left        *ranks.Rank // because of which it is not recorded
	end         cupti.End
	seen        probe.Exit // how the kernel saw its process end, or about to end, when its end came
}

func (p *recordedProcess) step(s step) { p.state = transitions[p.state][s] }

// runs reports whether the program may still run, as far as is known.
func (p *recordedProcess) runs() bool {
	return p.state == isMet || p.state == isAttaching || p.state == isRecorded
}

// owns reports whether what happens in the process at a time is the program's.
func (p *recordedProcess) owns(at uint64) bool {
	return p.began <= at && (p.next == nil || at < p.next.began)
}

// ranExec reports whether the process runs the next program by exec.
func (p *recordedProcess) ranExec() bool { return p.next != nil && p.next.start == p.start }

// owes reports whether the program will still hand over records of CUPTI's.
func (p *recordedProcess) owes() bool { return p.recorded && p.state != isEnded && !p.otherClient }

// finish notes the end of a program, the first time. seen is how the kernel saw its process end, or about to end, last.
func (p *recordedProcess) finish(e cupti.End, seen probe.Exit) {
	if p.state == isEnded {
		return
	}
	p.end, p.seen = e, seen
	p.step(stepEnd)
}

// reason says how a program ended, as far as is known by now: the hello of the one that follows may come after its end.
func (p *recordedProcess) reason() string {
	switch {
	case p.ranExec():
		return "exec"
	case p.end.Reason != "":
		return p.end.Reason
	case p.next == nil && p.seen.Exec > p.began:
		return "exec"
	case p.owns(p.seen.Time):
		return p.seen.Reason
	}
	return ""
}

// depart notes that a program no longer runs. One whose library does not talk to us has no other end.
func (p *recordedProcess) depart(s step, at uint64) {
	p.step(s)
	if p.listener == nil && p.state == isEnding {
		p.finish(cupti.End{ProcessEnd: tracelog.ProcessEnd{PID: p.pid, Time: at, Complete: 1, Status: -1}}, probe.Exit{})
	}
}

// processes are the programs of a recording.
type processes struct {
	all    []*recordedProcess          // in the order in which they were met
	latest map[uint32]*recordedProcess // the one that a PID has run last
}

// begin adds a program that a process runs from a time on.
func (ps *processes) begin(pid uint32, start procfs.StartTime, at uint64) *recordedProcess {
	p := &recordedProcess{identity: identity{pid, start, 1}, before: ps.latest[pid], began: at}
	for q := p.before; q != nil; q = q.before {
		if q.start == start {
			p.generation = q.generation + 1
			break
		}
	}
	if p.before != nil {
		p.before.next = p
		p.before.depart(stepReplace, at)
	}
	if ps.latest == nil {
		ps.latest = map[uint32]*recordedProcess{}
	}
	ps.all, ps.latest[pid] = append(ps.all, p), p
	return p
}

// hello is called when a process has said hello. A process that was attached to by PID and was armed says it late.
func (ps *processes) hello(f *listener, start procfs.StartTime) *recordedProcess {
	p := ps.latest[f.peer.PID]
	f.armed = p != nil && p.listener == nil && p.state == isRecorded && p.start == start
	if !f.armed {
		p = ps.begin(f.peer.PID, start, f.at)
	}
	p.listener, f.process = f, p
	return p
}

// leave notes that a process is not recorded, because of its rank.
func (ps *processes) leave(pid uint32, start procfs.StartTime, at uint64, rank ranks.Rank) {
	p := ps.latest[pid]
	if p == nil || p.state != isUnrecorded || p.start != start {
		p = ps.begin(pid, start, at)
	}
	p.left = &rank
	p.step(stepLeave)
}

// owner returns the program that a PID ran at a time, nil for none.
func (ps *processes) owner(pid uint32, at uint64) *recordedProcess {
	p := ps.latest[pid]
	for p != nil && !p.owns(at) {
		p = p.before
	}
	return p
}

// chosen lists the programs without those of other ranks, in the order in which they were met.
func (ps *processes) chosen() []*recordedProcess {
	return slices.DeleteFunc(slices.Clone(ps.all), func(p *recordedProcess) bool { return p.left != nil })
}

// which lists the PIDs of the programs for which a condition holds.
func (ps *processes) which(holds func(*recordedProcess) bool) (pids []uint32) {
	for _, p := range ps.all {
		if holds(p) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// epochOf returns the number of the epoch of the program that a PID runs, 0 if CUPTI does not record its calls.
func (ps *processes) epochOf(pid uint32) uint64 {
	if p := ps.latest[pid]; p != nil && p.listener != nil && p.runs() {
		return p.listener.sites.now()
	}
	return 0
}

// worked reports whether any program sent GPU work.
func (ps *processes) worked() bool {
	return len(ps.which(func(p *recordedProcess) bool { return p.end.Kernels+p.end.Copies+p.end.Sets > 0 })) > 0
}

// others says which ranks used CUDA and are not recorded: "rank 1 is not among --ranks 0"; "" for none.
func (ps *processes) others(chosen *ranks.List) string {
	var numbers []uint32
	for _, p := range ps.all {
		if p.left != nil {
			numbers = append(numbers, p.left.Number)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	switch len(numbers) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("rank %d is not among --ranks %s", numbers[0], chosen.String())
	}
	return fmt.Sprintf("ranks %s are not among --ranks %s", ranks.Words(numbers), chosen.String())
}

// lastWord is the end of a program, as it was reported, and as the kernel saw the end of its process.
func (ps *processes) lastWord(p *recordedProcess, seen func(pid uint32) (probe.Exit, bool),
	now uint64) tracelog.ProcessEnd {
	e := p.end.ProcessEnd
	x, known := seen(p.pid)
	if known {
		p.seen.Exec, p.seen.Traced = x.Exec, x.Traced
	}
	e.Reason = p.reason()
	if p.state != isEnded {
		e = tracelog.ProcessEnd{PID: p.pid, Time: now, Status: -1}
		if p.listener == nil {
			e.Complete = 1
		}
	}
	if p.next != nil { // the kernel tells of the last process that had the PID
		x, known = p.seen, p.owns(p.seen.Time) && !p.ranExec()
	}
	if known && x.Final {
		e.Status = x.Status
		struck := x.Signaled() && e.Reason != "exec"                  // before the process could end as it meant to
		unseen := e.Reason == "" && e.Complete == 0 && p.owns(x.Time) // by the time that its library was gone
		if struck || unseen {
			e.Reason = x.Reason
		}
	}
	return e
}

// lastWords lists the end of every program; seen says how a process ended, by PID. missing are lines about programs
// whose last records are missing, one for each.
func (ps *processes) lastWords(seen func(pid uint32) (probe.Exit, bool), now uint64) (ends []tracelog.ProcessEnd,
	missing []string) {
	absent, remedy := map[string][]uint32{}, ""
	for _, p := range ps.chosen() {
		e := ps.lastWord(p, seen, now)
		ends = append(ends, e)
		switch {
		case p.end.Absent != "":
			absent[p.end.Absent] = append(absent[p.end.Absent], p.pid)
		case e.Complete == 0 && !p.otherClient && !p.end.Cut:
			text, more := p.cutText(&e)
			if remedy == "" && more != "" {
				text, remedy = text+more, more // once
			}
			missing = append(missing, text)
		}
	}
	if more := len(missing) - maxCut; more > 0 {
		missing = append(missing[:maxCut], "likewise "+figures.Count(more, "more process", "more processes"))
	}
	for _, why := range slices.Sorted(maps.Keys(absent)) {
		missing = append(missing, absentText(absent[why], why))
	}
	return ends, missing
}

// maxCut is the most processes that are named one by one.
const maxCut = 5

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

// cutText says that the last records of a program are missing, and how it ended. remedy says what would have had it
// hand them over, "" if nothing would, or if a tracer was in the way.
func (p *recordedProcess) cutText(e *tracelog.ProcessEnd) (text, remedy string) {
	if p.state != isEnded && e.Reason == "" { // it may run on
		return fmt.Sprintf("process %d has not handed over its last records", e.PID), ""
	}
	text = fmt.Sprintf("process %d ended before its last records were handed over", e.PID)
	switch {
	case strings.HasPrefix(e.Reason, "status "): // no exit handler has run
		text += ", by _exit"
	case e.Reason != "":
		text += ", by " + e.Reason
	}
	if e.Until != 0 && e.Until <= e.Time {
		text += fmt.Sprintf(": GPU work of its last %s may be missing", time.Duration(e.Time-e.Until).Round(time.Millisecond))
	}
	switch {
	case strings.HasPrefix(e.Reason, "signal "):
	case !p.asked:
		remedy = " (the default --calls, with the rights for probes, has _exit and exec wait for them)"
	case p.seen.Traced:
		text += " (a tracer, such as strace or gdb, keeps it from being asked for them)"
	}
	return text, remedy
}
