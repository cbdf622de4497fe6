package record

import (
	"strings"
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/callers"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/metadata"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A listener hears what the injected library in one process says. Its methods do what takes time: the process waits, or
// its records do, and nobody else. What they find out they tell the loop.
type listener struct {
	*session
	peer  cupti.Peer
	at    uint64 // ns: when its hello came
	sites sites

	// The loop sets what follows before it answers the hello.
	process *recordedProcess
	armed   bool // it was attached to by PID, and armed
	late    bool // there was no time to probe its libraries
}

// Hello waits for the answer to a process's hello.
func (s *session) Hello(p cupti.Peer) (cupti.GoConfig, cupti.Listener) {
	l := &listener{session: s, peer: p, at: host.Monotonic()}
	l.sites.epoch = func(begins bool) uint64 { // it is known by then whether calls are probed
		switch {
		case s.calls.probed:
			return s.calls.prober.Callers().Epoch(int(p.PID))
		case begins:
			return s.epochs.Add(1)
		}
		return 0
	}
	if s.unseen != nil {
		s.unseen.hear()
	}
	start, _ := procfs.Started(int(p.PID)) // 0 if it has just ended
	reply := make(chan cupti.GoConfig, 1)
	s.post(hello{l, start, reply})
	select {
	case c := <-reply:
		return c, l
	case <-s.over:
		return cupti.GoConfig{NoCUPTI: true}, l
	}
}

// Warn is called with a line from the server.
func (s *session) Warn(pid uint32, text string) { s.report.miss(pid, text) }

// locate finds libcupti for a process that waits for the answer to its hello, and tells of the process what is known.
func (l *listener) locate() []cupti.Candidate {
	pid := l.peer.PID
	mapped := mappedBy(pid)
	found := cupti.LocateCUPTI(int(pid), mapped)
	if l.armed {
		return found
	}
	l.describe(pid, mapped, l.at)
	l.metrics.offer(pid, found)
	l.metrics.begin()
	if l.wantsCallers() {
		l.sites.renew()
	}
	l.calls.renew(pid)
	return found
}

// patience is how long a process can wait for the answer to its hello until it is probed.
func (l *listener) patience() time.Duration { return l.peer.Patience() - answerTime }

// answerTime is left of the time for which a process waits when its turn to be probed comes at last.
const answerTime = time.Second

// mappedBy lists the files that a process has mapped; none if we may not read that, or it ends.
func mappedBy(pid uint32) []string {
	mapped, err := procfs.Files(int(pid))
	if err != nil {
		return nil
	}
	return mapped
}

// describe logs which program a process runs since a time, and under which circumstances.
func (s *session) describe(pid uint32, mapped []string, since uint64) {
	p := procfs.Describe(int(pid))
	record := tracelog.Process{PID: pid, PPID: p.Parent, Start: since, Exe: p.Executable,
		Cudart: metadata.Version(mapped, "libcudart"), NCCL: metadata.Version(mapped, "libnccl")}
	record.Args, _, _ = strings.Cut(p.Args, "\x00")
	if !s.opts.NoMetadata {
		record.Args, record.Cwd = metadata.WithoutCredentials(p.Args), p.Folder
		if environ, err := procfs.Environment(int(pid)); err == nil {
			record.Environment = strings.Join(metadata.Variables(environ), "\x00")
		}
	}
	record.AddTo(s.log.Writer)
}

// nameThreads logs the current names of a process's threads: many programs name a thread after its
// first CUDA call. If the process is gone, the log keeps the names at the first call.
func (s *session) nameThreads(pid uint32) {
	for tid, name := range procfs.ThreadNames(pid) {
		s.log.Add(&tracelog.Thread{PID: pid, TID: tid, Name: name})
	}
}

// Status probes libcupti, if calls are probed, which the library has loaded by now: whoever registers from now on is
// another client. It also probes what CUPTI has no records of.
func (l *listener) Status(c tracelog.CUPTI) {
	l.calls.attach(l.peer.PID, l.late)
	if c.Status != "on" { // or no longer: another client has the records
		l.calls.complete(l.peer.PID)
	}
	l.post(status{l.process, c})
}

// WatchExit makes a process hand over its last GPU records before an end that it cannot see
// itself.
func (l *listener) WatchExit(signal uint32, handler, over uint64) {
	if !l.late || !l.calls.intrudes() {
		l.calls.watchExit(l.peer.PID, signal, handler, over)
	}
}

// Note is called with a line from the library.
func (l *listener) Note(severity uint32, text string) {
	if strings.HasPrefix(text, noCallers) || strings.HasPrefix(text, noRecords) {
		l.calls.complete(l.peer.PID)
	}
	switch isOther := func() bool { return l.process.otherClient }; {
	case severity == cupti.NoteStep:
		l.otherSteps.Store(true)
	case severity == cupti.NoteRemark:
		l.report.remark(l.peer.PID, text)
	case severity < tracelog.NoteWarning || ask(l.session, isOther):
		l.report.note(l.peer.PID, severity, text)
	case strings.HasPrefix(text, pythonLines): // all calls and all GPU work are there
		l.report.note(l.peer.PID, severity, text)
		l.report.sayOnce(text, text)
	default:
		l.report.miss(l.peer.PID, text)
	}
}

// End is called at the end of the process.
func (l *listener) End(e cupti.End) {
	seen, _ := l.calls.exit(l.peer.PID) // now: after an exec, the next program's end would hide it
	l.nameThreads(l.peer.PID)
	if e.Cut || e.Absent != "" { // it may go on, unrecorded by CUPTI
		l.calls.complete(l.peer.PID)
	}
	l.post(ended{l.process, e, seen})
}

// FindCaller gives a chain of return addresses the ID of its caller record, which follows.
func (l *listener) FindCaller(c cupti.Chain, need func(depth int)) (caller uint32) {
	epoch, ok := l.sites.epochOf(c.Epoch)
	if !ok {
		return 0
	}
	return l.calls.callers.Add(callers.Chain{PID: l.peer.PID, Epoch: epoch, Addresses: c.Addresses, Need: need})
}

// FindFunction finds out which function of the driver a thread is in.
func (l *listener) FindFunction(c cupti.OpenCall) string {
	name := l.calls.callers.DriverFunction(l.peer.PID, l.sites.now(), c.Inner)
	if l.calls.probed && !l.calls.spares(name) {
		return "" // its probe tells
	}
	return name
}

// noCallers begins the library's note that CUPTI's callback does not tell who calls, noRecords that its records cannot
// be switched on again.
const (
	noCallers = "calls have no callers"
	noRecords = "GPU work from here on is missing"
)

// sites are the epochs of a program whose calls CUPTI records: times in which no address in it changes its meaning.
type sites struct {
	epoch func(begins bool) uint64 // begins an epoch, or tells that of the probes; 0: that of before

	mu     sync.Mutex
	number uint64 // of the epoch; no other one of any program has it. 0: its calls have no callers
	own    uint64 // the same, as the process counts
}

// firstEpoch is the epoch in which a process is at its hello, as the process itself counts.
const firstEpoch = 1

// renew begins the first epoch.
func (s *sites) renew() { s.epochOf(firstEpoch) }

// now returns the number of the epoch. Where calls are probed that is the prober's, whether a chain of a call has come
// or not.
func (s *sites) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.number == 0 {
		s.number = s.epoch(false)
	}
	return s.number
}

// epochOf returns the number of an epoch for the process's own count. ok is false for an epoch that is over.
func (s *sites) epochOf(own uint64) (number uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own < s.own {
		return 0, false
	}
	if n := s.epoch(own > s.own); n != 0 {
		s.number = n
	}
	s.own = own
	return s.number, s.number != 0
}
