package record

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/internal/threads"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ranks"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A session is one run of the recorder. One goroutine, that of loop, owns its processes and all that decides what
// happens to them. It hears of processes by events and never waits: whatever may take its time (files, the kernel's
// probes, a terminal, messages to processes) is done on other goroutines, which tell of it by further events. Records
// go straight from their sources to the log.
type session struct {
	opts    Options
	log     *logFile
	output  string // path of the files without suffix
	report  *report
	calls   *calls
	metrics metrics
	threads *threads.Recorder // nil: what threads do is not recorded
	memory  torchMemory       // of PyTorch's allocators
	pythons *cupti.PythonLog
	server  *cupti.Server      // nil if the injected library cannot be loaded
	why     string             // it cannot be
	armed   []*cupti.ArmedCall // armed processes, when attached to running ones
	unseen  *unseen            // nil without server
	program *program           // nil when attached to running processes

	epochs atomic.Uint64 // of processes whose calls CUPTI records

	ctx       context.Context
	cancel    context.CancelFunc
	events    chan event
	over      chan struct{}   // closed when nobody takes events any more
	later     threads.Backlog // what the loop leaves to another goroutine
	preparing sync.WaitGroup  // what must be over before recording can end
	workers   sync.WaitGroup  // what must be over before the probes are removed
	beside    sync.WaitGroup  // what goes on until recording ends
	ending    chan struct{}   // closed when it does
	closing   sync.Once

	decided chan struct{}  // closed when it is decided that recording ends:
	early   early          // why
	signal  syscall.Signal // by which a person wants it

	// What follows belongs to the loop and, when that has ended, to finish.
	processes
	newest  newest
	queue   queue
	opened  bool             // calls can be probed, or never will be
	used    bool             // a process uses CUDA: delay and duration count
	begins  <-chan time.Time // fires when the delay is over; nil: never
	ends    <-chan time.Time // fires when the duration is over; nil: never
	paused  bool             // the delay is not over, or recording ends
	resumed bool             // the delay is over
	looking bool             // a look for new libraries is under way
	crowded bool             // it was said that there was no time to probe a process

	otherSteps atomic.Bool // an NVTX range of a step that is not recorded was seen
}

// An event is what the loop is told. take must not wait.
type event interface{ take(s *session) }

// post gives an event to the loop, unless that has ended.
func (s *session) post(e event) (posted bool) {
	select {
	case s.events <- e:
		return true
	case <-s.over:
		return false
	}
}

// tell gives an event to the loop, and waits until that has taken it.
func (s *session) tell(e event) {
	ask(s, func() bool {
		e.take(s)
		return true
	})
}

// A question is put to the loop by another goroutine.
type question func()

func (q question) take(*session) { q() }

// ask has the loop answer a question about its processes. When the loop has ended, the answer is the zero value.
func ask[T any](s *session, about func() T) (answer T) {
	reply := make(chan T, 1)
	if s.post(question(func() { reply <- about() })) {
		answer = <-reply
	}
	return answer
}

// loop takes events until recording has ended. idle is closed when there is nothing left to record.
func (s *session) loop(idle <-chan struct{}) {
	defer close(s.over)
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	for !isClosed(s.decided) {
		select {
		case e := <-s.events:
			e.take(s)
		case <-rescan.C:
			s.rescan()
		case <-s.begins:
			s.resume()
		case <-s.newest.asked:
			s.want(wish{why: "SIGUSR2"}, true)
		case <-s.newest.looks:
			s.lookAtNewest()
		case <-idle:
			s.decide(notEarly, 0)
		case <-s.ends:
			s.decide(stopByTime, 0)
		case <-s.opts.Stop:
			s.decide(stopByTime, 0)
		}
	}
	s.paused = true
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.stop()
	}()
	for {
		select {
		case e := <-s.events:
			e.take(s)
		case <-ended:
			return
		}
	}
}

// decide ends recording, unless its end is decided already.
func (s *session) decide(why early, by syscall.Signal) {
	if !isClosed(s.decided) {
		s.early, s.signal = why, by
		close(s.decided)
	}
}

// opened is the event that calls can be probed, or never will be.
type opened struct{}

func (opened) take(s *session) {
	s.opened = true
	s.beside.Go(s.save)
	s.newest.begin(s)
	for _, p := range s.all {
		switch {
		case p.reply == nil:
		case p.state == isMet:
			s.attach(p)
		default: // it waited no longer, and its process runs another program
			s.answer(p, true)
		}
	}
}

// use begins to count delay and duration.
func (s *session) use() {
	if s.used {
		return
	}
	s.used = true
	if s.opts.Delay > 0 {
		s.begins = time.After(s.opts.Delay)
	}
	if s.opts.Duration > 0 {
		s.ends = time.After(s.opts.Delay + s.opts.Duration)
	}
}

// leaves is the event that a process is not recorded, because of its rank.
type leaves struct {
	pid   uint32
	start procfs.StartTime
	at    uint64
	rank  ranks.Rank
}

func (e leaves) take(s *session) { s.leave(e.pid, e.start, e.at, e.rank) }

// hello is the event that a process has initialised CUDA and waits for the answer.
type hello struct {
	*listener
	start procfs.StartTime
	reply chan<- cupti.GoConfig
}

func (e hello) take(s *session) {
	p := s.hello(e.listener, e.start)
	p.reply = e.reply
	if e.armed {
		s.later.Do(func() {
			s.report.note(p.pid, tracelog.NoteInfo, fmt.Sprintf("process %d was armed: its GPU work is recorded from here on",
				p.pid))
		})
	}
	if s.opened {
		s.attach(p)
	} else {
		s.workers.Go(func() { s.calls.examine(p.pid) })
	}
}

// attach has a process probed that waits for the answer to its hello.
func (s *session) attach(p *recordedProcess) {
	p.step(stepAttach)
	f := p.listener
	if !f.armed { // its thread that waits is ours
		p.overdue = time.AfterFunc(f.patience(), func() { s.post(overdue{p}) })
	}
	s.workers.Go(func() {
		e := located{p, f.locate(), s.findPython(f.peer.PID), procfs.Translator(int(f.peer.PID))}
		s.beginThreads(p.pid, e.python)
		if e.translator == "" {
			s.memory.look(p.pid, &p.torch.memory, e.python)
		}
		s.post(e)
	})
}

// located is the event that it is known where libcupti is for a process, which can be probed now.
type located struct {
	*recordedProcess
	found      []cupti.Candidate
	python     *python
	translator string // see procfs.Translator
}

func (e located) take(s *session) {
	p := e.recordedProcess
	p.found, p.python, p.translator = e.found, e.python, e.translator
	switch {
	case p.translator != "" && s.calls.intrudes():
		s.answer(p, true)
	case p.listener.armed: // it was probed before
		s.answer(p, false)
	case s.queue.add(p, p.listener.patience()):
		s.probeNext()
	default:
		s.answer(p, true)
	}
}

// probeNext has the process probed whose turn it is.
func (s *session) probeNext() {
	if p := s.queue.next(); p != nil {
		s.workers.Go(func() {
			began := time.Now()
			looked := s.calls.begin(p.pid)
			s.post(attached{p, looked, time.Since(began)})
		})
	}
}

// attached is the event that a process has been probed.
type attached struct {
	*recordedProcess
	looked uint64        // epoch in which its code was read
	turn   time.Duration // that it took; 0: there was no queue
}

func (e attached) take(s *session) {
	e.recordedProcess.looked = e.looked
	s.answer(e.recordedProcess, false)
	if e.turn > 0 {
		s.queue.done(e.turn)
		s.probeNext()
	}
}

// overdue is the event that a process can wait no longer until it is probed.
type overdue struct{ *recordedProcess }

func (e overdue) take(s *session) { s.answer(e.recordedProcess, true) }

// answer has a process go on that waits for the answer to its hello.
func (s *session) answer(p *recordedProcess, late bool) {
	p.step(stepAnswer)
	if !isClosed(s.calls.answered) {
		close(s.calls.answered)
	}
	p.asked = s.calls.probed && !late
	if p.reply == nil {
		return
	}
	if p.overdue != nil {
		p.overdue.Stop()
	}
	if late {
		p.late, p.listener.late = true, true
		if p.translator != "" {
			s.translated(p)
		} else {
			s.notInTime(p.pid)
		}
	}
	p.reply <- s.config(p)
	p.reply, p.found = nil, nil
	if len(s.opts.PIDs) == 0 {
		s.use()
	}
}

// callsOfCUPTI is the remedy where --calls uprobe leaves a process without calls.
const callsOfCUPTI = "--calls auto has CUPTI record them"

// translated says that a process is not probed, since the translator of its code would run into the probes.
func (s *session) translated(p *recordedProcess) {
	text := fmt.Sprintf("process %d is not probed: %s translates its code, and would end it at a probe", p.pid,
		p.translator)
	switch s.calls.source {
	case CallsAuto:
		text += "; its calls come from CUPTI instead, without arguments and callers"
	case CallsUprobe:
		s.later.Do(func() { s.report.miss(p.pid, text+"; its calls are not recorded ("+callsOfCUPTI+")") })
		return
	}
	s.later.Do(func() { s.report.miss(p.pid, text+"; functions of libraries are not recorded") })
}

// notInTime says that there was no time to probe a process, and what that costs.
func (s *session) notInTime(pid uint32) {
	first := !s.crowded && s.calls.intrudes()
	s.crowded = s.crowded || first
	s.later.Do(func() {
		s.report.note(pid, tracelog.NoteInfo, fmt.Sprintf("process %d is not probed: it could wait no longer", pid))
		text := "there was no time to probe all processes: too many start at the same time, or the machine is too busy"
		if s.saysPython() {
			text += "; these have no Python lines"
		}
		switch {
		case !first:
		case !s.calls.probed:
			s.report.miss(0, text+"; functions of libraries that some call are not recorded")
		case s.calls.source == CallsAuto:
			s.report.remark(0, text+"; the calls of some come from CUPTI instead, without arguments and callers")
		default:
			s.report.miss(0, text+"; the calls of some are not recorded ("+callsOfCUPTI+")")
		}
	})
}

// status is the event that the library has loaded libcupti into a process and registered with it, or could not, or lost
// its records to another client.
type status struct {
	*recordedProcess
	cupti tracelog.CUPTI
}

func (e status) take(s *session) {
	p := e.recordedProcess
	p.answered = true
	switch {
	case e.cupti.Status == "on":
		p.recorded = true
	case p.recorded: // it no longer is
		s.taken(p)
	default:
		s.withoutCUPTI(p, e.cupti)
	}
}

// registered is the event that a client has registered with CUPTI. CUPTI serves the client that came
// last: once another client has registered, its process's records no longer come to us.
type registered struct {
	pid     uint32
	request uint64
	at      uint64
}

func (e registered) take(s *session) {
	p := s.owner(e.pid, e.at)
	if p == nil || p.listener == nil || p.listener.peer.BufferRequest == e.request {
		return // we never had CUPTI's records, or it is our own registration
	}
	s.workers.Go(func() {
		s.server.OtherClient(e.pid)
		s.calls.complete(e.pid)
	})
	s.taken(p)
}

// taken notes that another client has CUPTI's records of a process: the probe on CUPTI's registration
// or the injected library says so, or both.
func (s *session) taken(p *recordedProcess) {
	what := fromCUPTI(s.calls.source, s.opts.GPU)
	if p.otherClient || what == "" {
		p.otherClient = true
		return
	}
	p.otherClient = true
	text := fmt.Sprintf("process %d: another CUPTI client (PyTorch's profiler, for instance) has taken over CUPTI's "+
		"records: from here to its end the log lacks its %s", p.pid, what)
	if s.calls.probed {
		text += "; calls are still recorded"
		if len(s.calls.spared) > 0 {
			text += ", but for launches, copies and fills until these are probed"
		}
	}
	s.later.Do(func() { s.report.miss(p.pid, text) })
}

// withoutCUPTI says why CUPTI does not record a process, and what to do.
func (s *session) withoutCUPTI(p *recordedProcess, c tracelog.CUPTI) {
	what := fromCUPTI(s.calls.source, s.opts.GPU)
	if what == "" {
		return
	}
	if s.saysPython() {
		what += " and Python lines"
	}
	why, _, _ := strings.Cut(c.Status, "; ")
	if about, ok := strings.CutPrefix(why, "it "); ok {
		why = "the libcupti that was found " + about
	}
	text := fmt.Sprintf("CUPTI cannot record the %s of process %d: ", what, c.PID)
	switch {
	case c.Path == "" && p.late:
		text += "there was no time to look for libcupti: the machine is too busy"
	case c.Path == "":
		text += why + ". Looked beside the CUDA libraries that it has mapped, in its Python packages, in CUDA_HOME, " +
			"/usr/local/cuda*, /opt/cuda* and" +
			" the linker's path. Install the toolkit's cuda-cupti package, or for Python: pip install nvidia-cuda-cupti"
	default:
		text += fmt.Sprintf("%s: %s", c.Path, why)
	}
	s.later.Do(func() { s.report.miss(c.PID, text) })
}

// nameless is the event that nothing names the functions of a process's runtime.
type nameless struct {
	pid  uint32
	path string
}

func (e nameless) take(s *session) {
	text := fmt.Sprintf("process %d: calls have no callers and the names of the driver's functions: "+
		"nothing names the runtime's functions in %s", e.pid, e.path)
	s.later.Do(func() { s.report.remark(e.pid, text) })
}

// rescan looks for libraries that processes have opened since the last look, unless that look is under way.
func (s *session) rescan() {
	if !s.opened || s.looking {
		return
	}
	if s.calls.prober == nil && !s.readsPython() && !s.readsOperators() && s.memory.recorder == nil {
		return // nothing looks
	}
	var all []look
	for _, p := range s.all {
		if p.state == isRecorded && !p.late {
			all = append(all, look{recordedProcess: p, looked: p.looked})
		}
	}
	s.looking = true
	s.workers.Go(func() {
		for i := range all {
			s.look(&all[i])
		}
		s.post(looked(all))
	})
}

// A look is a look at a process, for libraries that it has opened.
type look struct {
	*recordedProcess        // of which a look reads only what never changes
	looked           uint64 // epoch in which its code was read last
	exec             uint64 // ns: since when it runs another program by exec, 0 if it does not
	gone             bool   // the process has ended
}

// look looks at a process. Under -p it has its next program probed; others say hello then, and wait.
func (s *session) look(l *look) {
	s.findPythonAgain(l.pid, l.python)
	s.lookAtTorch(l.pid, &l.torch)
	s.memory.look(l.pid, &l.torch.memory, l.python)
	if s.calls.prober == nil {
		return
	}
	if start, ok := procfs.Started(int(l.pid)); !ok || l.start != 0 && start != l.start {
		l.gone = true
		return
	}
	if l.looked, l.exec = s.calls.rescan(l.pid, l.looked); l.exec != 0 {
		s.describe(l.pid, mappedBy(l.pid), l.exec)
		s.beginThreads(l.pid, nil)
	}
}

// looked is the event that there was a look at all processes.
type looked []look

func (e looked) take(s *session) {
	s.looking = false
	for _, l := range e {
		p := l.recordedProcess
		p.looked = l.looked
		switch {
		case l.gone:
			p.depart(stepVanish, host.Monotonic())
		case l.exec != 0 && p.runs():
			next := s.begin(p.pid, p.start, l.exec)
			next.looked = l.looked
			next.step(stepAttach)
			next.step(stepAnswer)
		}
	}
}

// ended is the event that the last record of a process has reached the log. seen is how the kernel saw it end, if it
// did.
type ended struct {
	*recordedProcess
	end  cupti.End
	seen probe.Exit
}

func (e ended) take(s *session) {
	p := e.recordedProcess
	p.finish(e.end, e.seen)
	if reason := p.reason(); isCrash(reason) {
		s.want(wish{why: crashText(p.pid, reason)}, true)
	}
}

// live lists the processes that are recorded and may still run.
func (s *session) live() []uint32 {
	return ask(s, func() []uint32 { return s.which((*recordedProcess).runs) })
}

// knows reports whether a process is recorded, or has been.
func (s *session) knows(pid uint32) bool {
	return ask(s, func() bool {
		return slices.Contains(s.which(func(p *recordedProcess) bool { return p.left == nil }), pid)
	})
}

// isLeft reports whether a process is known not to be recorded, because of its rank.
func (s *session) isLeft(pid uint32) bool {
	return ask(s, func() bool {
		p := s.latest[pid]
		return p != nil && p.left != nil
	})
}

// epoch returns the number of a process's epoch, 0 of a process whose calls CUPTI does not record.
func (s *session) epoch(pid int) uint64 {
	return ask(s, func() uint64 { return s.epochOf(uint32(pid)) })
}

// resume starts recording after a delay.
func (s *session) resume() {
	s.begins, s.paused, s.resumed = nil, false, true
	s.preparing.Go(func() { // GPU work first, so that no recorded call lacks its work
		if s.server != nil {
			s.server.Resume()
			time.Sleep(resumeWait)
		}
		s.calls.pause(false)
		s.metrics.resume()
		if s.threads != nil {
			s.threads.Pause(false)
		}
		s.memory.pause(false)
	})
}

// resumeWait is the time in which the injected libraries switch records on.
const resumeWait = 50 * time.Millisecond
