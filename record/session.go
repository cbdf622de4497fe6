package record

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/probe"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A session is one process from its hello to its end. A process that runs another
// program (exec) has one after the other.
type session struct {
	pid      uint32
	recorded bool   // by CUPTI
	foreign  bool   // another CUPTI client has its records, which was said
	attached bool   // by PID: nothing in it talks to us
	request  uint64 // by which our own registration with CUPTI is known
	ended    bool
	end      tracelog.ProcessEnd
}

// Hello prepares a process that has initialised CUDA: its probes are attached
// when this returns, and only then does it go on.
func (r *recorder) Hello(p cupti.Peer) cupti.GoConfig {
	<-r.opened
	r.open(p.ID, session{pid: p.PID, request: p.BufferRequest})
	r.attach(p.PID)
	mapped, err := cupti.MappedFiles(int(p.PID))
	if err != nil {
		mapped = nil // of a process that we may not look into: the usual places are left
	}
	return r.config(cupti.Locate(int(p.PID), mapped))
}

// config says what the injected library is to record.
func (r *recorder) config(candidates []cupti.Candidate) cupti.GoConfig {
	c := cupti.GoConfig{
		Candidates: candidates, Records: cupti.DefaultRecords,
		CaptureRange: r.opts.CaptureRange, Paused: r.paused.Load(),
		WatchRivals:   r.prober == nil,
		FlushInterval: min(r.opts.FlushInterval/2, maxHandover), MemoryLimit: r.opts.MemoryLimit,
	}
	if r.opts.Graphs == GraphWhole {
		c.Records |= cupti.RecordGraphs
	}
	if r.opts.Waits != WaitsCUPTI {
		c.Records &^= cupti.RecordSync
	}
	switch {
	case r.opts.Calls == CallsCUPTI:
		c.Calls = apiRecords(r.opts.Functions, r.opts.Driver)
	case r.opts.Driver:
		c.Calls = apiRecords(nil, true)
	}
	c.NoCUPTI = r.opts.GPU == GPUNone && r.opts.Calls != CallsCUPTI
	return c
}

// maxHandover is how long the injected library keeps records back at most, however seldom the
// log is to be written: the others of the same time wait for them in memory.
const maxHandover = time.Second

// apiRecords are the functions whose API records give the chosen calls. Those that
// create GPU work are always there, as their correlation IDs name the work: the driver's,
// and, unless these are enough, the runtime's, in the place of those inside them. (CUPTI
// records a driver call inside a runtime call only when it does not record that one. An
// H200 with CUPTI 13.0.1 joined all work of a PyTorch loop, of graphs too, by the driver's
// calls, and the loop took 3 % less time.)
func apiRecords(chosen []*cudaapi.Function, driver bool) []string {
	var names []string
	for _, f := range chosen {
		names = append(names, f.Name)
	}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		creates := f.Category == "launch" || f.Category == "copy" || f.Category == "set"
		if f.GPUWork || f.Library == cudaapi.Runtime && creates && !driver {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// open begins a session.
func (r *recorder) open(id uint64, s session) {
	r.mu.Lock()
	r.sessions[id] = &s
	r.mu.Unlock()
	desc := describeProcess(s.pid)
	r.log.Process(&desc)
}

// live lists the sessions that have not ended.
func (r *recorder) live() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*session
	for _, s := range r.sessions {
		if !s.ended {
			list = append(list, s)
		}
	}
	return list
}

// End takes a process's last word, or notes that there was none.
func (r *recorder) End(p cupti.Peer, e tracelog.ProcessEnd) {
	r.close(p.ID, e)
	r.threadNames(p.PID)
}

func (r *recorder) close(id uint64, e tracelog.ProcessEnd) {
	if x, ok := r.exitOf(e.PID); ok && e.Reason == "" {
		e.Reason = x.Reason // of an exec, the next program would hide it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[id]; s != nil {
		s.ended, s.end = true, e
	}
}

// exitOf says how a process ended, where that is watched.
func (r *recorder) exitOf(pid uint32) (probe.Exit, bool) {
	if r.prober == nil {
		return probe.Exit{}, false
	}
	return r.prober.ExitReason(int(pid))
}

// Note takes what the injected library has to say.
func (r *recorder) Note(p cupti.Peer, severity uint32, text string) {
	if severity >= tracelog.NoteWarning && !r.isForeign(p.PID) {
		r.miss(p.PID, text)
		return
	}
	r.log.Note(&tracelog.Note{Time: now(), PID: p.PID, Severity: severity, Text: text})
}

// isForeign says whether a process's records go to another CUPTI client.
func (r *recorder) isForeign(pid uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		if s.pid == pid && s.foreign {
			return true
		}
	}
	return false
}

// finishSessions closes every session, and says whose last records are missing.
func (r *recorder) finishSessions(res *Result, why early) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var cut []string
	for _, id := range slices.Sorted(maps.Keys(r.sessions)) {
		e := r.lastWord(r.sessions[id])
		if r.cmd != nil && int(e.PID) == r.cmd.Process.Pid && why == notEarly {
			e.Status = int32(res.ExitCode)
		}
		if e.Complete == 0 && why == notEarly && !r.sessions[id].foreign {
			cut = append(cut, cutWords(&e))
		}
		r.log.ProcessEnd(&e)
	}
	for _, words := range cut[:min(len(cut), maxCut)] {
		r.missing.add(words)
	}
	if more := len(cut) - maxCut; more > 0 {
		r.missing.add(fmt.Sprintf("so did %d more processes", more))
	}
}

// maxCut is how many processes are named one by one whose last records are missing.
const maxCut = 5

// lastWord is a session's end, as far as it is known.
func (r *recorder) lastWord(s *session) tracelog.ProcessEnd {
	e := s.end
	if !s.ended {
		e = tracelog.ProcessEnd{PID: s.pid, Time: now(), Status: -1}
	}
	if s.attached {
		e.Complete = 1
	}
	x, ok := r.exitOf(s.pid)
	if ok && x.Final && e.Reason != "exec" {
		e.Status = x.Status
		if strings.HasPrefix(x.Reason, "signal") { // what it was about to do, a signal may have stopped
			e.Reason = x.Reason
		}
	}
	return e
}

// cutWords says that a process's last records are missing.
func cutWords(e *tracelog.ProcessEnd) string {
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

// threadNames reads the names that threads have at the end: many programs name
// a thread after its first CUDA call.
func (r *recorder) threadNames(pid uint32) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return // the process is gone: the names seen at first call stand
	}
	for _, t := range tasks {
		tid, err := strconv.ParseUint(t.Name(), 10, 32)
		if err != nil {
			continue
		}
		if comm, err := os.ReadFile(dir + "/" + t.Name() + "/comm"); err == nil {
			r.log.Thread(&tracelog.Thread{PID: pid, TID: uint32(tid), Name: strings.TrimSuffix(string(comm), "\n")})
		}
	}
}
