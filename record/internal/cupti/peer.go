package cupti

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

const (
	helloWait = 5 * time.Second // longest wait for the hello of a connection
	readSize  = 16 << 10        // larger pieces of a message are read without a copy
)

// A peer is one process and its connection. One goroutine reads it.
type peer struct {
	Peer
	link
	known     atomic.Uint32 // the PID, for other goroutines; 0 before
	server    *Server
	owner     Owner // of the entrance that the process came to
	handler   Handler
	listener  Listener // from its hello on
	started   procfs.StartTime
	callers   bool // of GoConfig
	armed     bool // GoConfig.Late
	stoppable bool // GoConfig.Door
	decoder   decoder

	cupti    tracelog.CUPTI // the record that was logged last
	bye      *bye           // the BYE, nil before it
	lastWord *bye           // the last HANDOVER, nil if the program has worked since
	until    uint64         // time up to which every record has arrived, ns, on the process's clock
	shift    clockShift
	taken    bool // another CUPTI client gets the records
	mapped   bool // its messages come through the memory
	late     bool // the process stopped waiting before it took GO

	hello    uint64 // when its hello came, ns: its calls are recorded from a later time on
	deadline uint64 // when it stops waiting

	looked uint64            // when open calls were looked at, ns
	noted  map[uint32]uint64 // starts of the open calls that the log has, by TID

	clockMoved bool // CUPTI's times are corrected: those of its callback are others
	broken     bool // the process sent a malformed message
	failed     bool // the process stopped sending before its end
}

// serve runs the connection from its hello to its end.
func (p *peer) serve() {
	defer p.server.peers.remove(p)
	defer p.unshare()
	defer p.hangUp()
	if err := p.identify(); err != nil {
		p.complain(err)
		return
	}
	messages := &messageReader{r: bufio.NewReaderSize(p.conn, readSize), memory: &p.server.memory}
	defer messages.release()
	defer p.decoder.release()
	stays, err := p.greet(messages)
	if err != nil {
		p.complain(err)
	}
	if !stays {
		return
	}
	p.hear(messages)
}

// hear handles messages until the end of the process, and reports it.
func (p *peer) hear(messages *messageReader) {
	heard := make(chan struct{})
	var relieving sync.WaitGroup
	if p.armed {
		relieving.Go(func() { p.relieve(heard) })
	}
	p.complain(p.receive(messages))
	close(heard)
	relieving.Wait()
	p.late = !p.mapped && host.Monotonic() >= p.deadline
	p.complainOfNames()
	p.explain()
	if !p.taken {
		p.addSeenCalls()
	}
	p.addOpenCalls()
	p.listener.End(End{p.end(), p.absence(), p.isCut()})
}

// identify asks the kernel which process is at the other end, and refuses other users' processes. The
// private folder keeps them out already.
func (p *peer) identify() error {
	cred, err := p.credentials()
	if err != nil {
		return err
	}
	p.PID, p.UID, p.GID = uint32(cred.Pid), cred.Uid, cred.Gid
	p.known.Store(p.PID)
	p.started, _ = procfs.Started(int(cred.Pid))
	p.shift = clockShift(host.AheadOf(int(p.PID)).Monotonic)
	p.decoder = decoder{pid: p.PID, sink: p.server.sink, shared: &p.server.memory, shift: p.shift}
	p.cupti.PID = p.PID
	return admits(p.owner, cred.Uid)
}

// admits refuses every user except root, the recorder's and the owner of the programs.
func admits(o Owner, uid uint32) error {
	if uid == 0 || int(uid) == os.Geteuid() || int(uid) == o.UID {
		return nil
	}
	return malformed("it belongs to user %d, who is not recorded here", uid)
}

// greet reads the HELLO, has the handler answer it and sends GO. It returns false if the
// connection is over: after an error, and after a LOCATE.
func (p *peer) greet(m *messageReader) (stays bool, err error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(helloWait)); err != nil {
		return false, err
	}
	t, payload, err := m.next()
	if err != nil {
		return false, err
	}
	if !p.handler.Wants(p.Peer) {
		return false, nil // the end of the connection is the answer
	}
	if t == msgLocate {
		p.locate()
		return false, nil
	}
	if t != msgHello {
		return false, malformed("message type %d before its hello", t)
	}
	h, err := parseHello(payload)
	if err != nil {
		return false, err
	}
	if err := p.conn.SetReadDeadline(time.Time{}); err != nil {
		return false, err
	}
	p.hello = host.Monotonic()
	p.Time, p.BufferRequest = p.shift.host(h.since), h.request
	deadline := p.Deadline()
	p.last = lastDeadline(deadline)
	stop := p.keep(deadline, p.last)
	config, f := p.handler.Hello(p.Peer)
	p.deadline = stop()
	p.listener, p.callers, p.armed, p.stoppable = f, config.Callers, config.Late, config.Door
	config = config.withDefaults()
	config.within, config.steps = p.server.within, p.server.steps
	if p.callers {
		p.decoder.callers.find, p.decoder.callers.tell = f.FindCaller, p.tellDepth
	}
	if config.Python {
		p.decoder.python.log = p.server.python
		p.decoder.python.use(config.Interpreter)
	}
	if config.Torch {
		p.decoder.operators.log = &p.server.operators
	}
	p.answer(p.PID, func() GoConfig { return p.server.newcomers.config(config) })
	return true, nil
}

// absence returns why a process that was sent GO runs unrecorded, "" if it is recorded.
func (p *peer) absence() string {
	switch {
	case p.cupti.Status != "", p.bye != nil, p.broken:
		return ""
	case p.late:
		return "the machine was so busy that the recorder did not answer them in time"
	case p.goesOn() && procfs.Describe(int(p.PID)).Executable != "":
		return "the injected library could not start in them: it found no memory, no descriptor or no thread, " +
			"or they were about to end"
	}
	return "" // it ended before it could do any GPU work
}

// goesOn reports whether the PID still is the process's, not that of a later one.
func (p *peer) goesOn() bool {
	started, ok := procfs.Started(int(p.PID))
	return ok && started == p.started
}

// locate answers a process that uses NVTX before CUDA and needs the place of libcupti.
func (p *peer) locate() {
	mapped, err := procfs.Files(int(p.PID))
	if err != nil {
		mapped = nil // the process has just ended or belongs to another user: look in the usual places only
	}
	p.send(appendGo(nil, GoConfig{
		Candidates: LocateCUPTI(int(p.PID), mapped), within: p.server.within, steps: p.server.steps,
	}))
}

// tellIf sends a message without payload if the process has that PID and was sent GO. Before GO
// it has not touched CUPTI.
func (p *peer) tellIf(pid uint32, t messageType) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.going && p.PID == pid {
		p.write(appendFrame(nil, t, nil))
	}
}

// receive handles messages up to BYE or the end of the connection.
func (p *peer) receive(m *messageReader) error {
	for p.bye == nil {
		t, payload, err := m.next()
		if err != nil {
			return err
		}
		if t == msgMapped {
			err = p.goOnInMemory(m)
		} else {
			err = p.message(t, payload)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// goOnInMemory reads further messages from the memory.
func (p *peer) goOnInMemory(m *messageReader) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.memory == nil || p.mapped {
		return malformed("a second memory, or one that it was not given")
	}
	p.mapped = true
	p.memory.between = p.noteOpenCalls
	p.conn.Close()
	m.r = bufio.NewReaderSize(p.memory, readSize)
	return nil
}

func (p *peer) message(t messageType, payload []byte) error {
	switch t {
	case msgBatch:
		before := p.decoder.recorded()
		err := p.decoder.batch(payload)
		if p.decoder.recorded() != before {
			p.lastWord = nil
		}
		return err
	case msgFlushed:
		return p.flushed(payload)
	case msgHandover:
		return p.handover(payload)
	case msgStatus:
		return p.status(payload)
	case msgClock:
		return p.clock(payload)
	case msgLost:
		return p.lost(payload)
	case msgNote:
		severity, text, err := parseNote(payload)
		if err == nil {
			p.listener.Note(severity, text)
		}
		return err
	case msgBye:
		y, err := parseBye(payload)
		if err == nil {
			p.bye = &y
			p.flushedUntil(y.until)
		}
		return err
	}
	return malformed("a message of unknown type %d", t)
}

func (p *peer) status(payload []byte) error {
	s, err := parseStatus(payload)
	if err != nil {
		return err
	}
	if s.taken {
		p.takenOver(s.text)
		return nil
	}
	p.cupti.Version, p.cupti.DriverVersion, p.cupti.Path = s.version, s.driverVersion, s.path
	p.cupti.Status = s.text
	if s.on {
		p.cupti.Status = "on"
	} else if s.text == "" {
		p.cupti.Status = "off"
	}
	p.report()
	if s.on {
		p.listener.WatchExit(s.exitSignal, s.exitHandler, s.exitOver)
	}
	p.tell(msgReady, nil)
	if s.on && s.text != "" {
		p.listener.Note(tracelog.NoteWarning, "CUPTI does not record everything: "+s.text)
	}
	return nil
}

// takenOver notes that no more records will come from CUPTI.
func (p *peer) takenOver(why string) {
	if p.taken {
		return
	}
	p.cupti.Status = why
	p.report()
	p.addSeenCalls() // until now: later ones are probed
	p.taken = true
	p.listener.Note(tracelog.NoteWarning, fmt.Sprintf(
		"process %d: from here to its end the log lacks its calls and GPU work that CUPTI records: %s (run it without its "+
			"own profiler)", p.PID, why))
}

func (p *peer) clock(payload []byte) error {
	uncertain, mode, err := parseClock(payload)
	if err != nil {
		return err
	}
	p.clockMoved = p.clockMoved || mode != clockCommon
	if mode == clockSilent {
		p.server.newcomers.keepOwnClock()
		p.listener.Note(tracelog.NoteWarning, fmt.Sprintf("process %d: kernels have no times, %s", p.PID,
			"because this release of CUPTI gives none on our clock; processes that start later are recorded on CUPTI's own clock"))
		return nil
	}
	known := p.cupti.ClockError
	p.cupti.ClockError = uncertain
	if uncertain != known && p.cupti.Status != "" { // else STATUS comes and reports it
		p.report()
	}
	return nil
}

func (p *peer) flushed(payload []byte) error {
	until, err := parseFlushed(payload)
	if err == nil {
		p.flushedUntil(until)
	}
	return err
}

// flushedUntil notes a time up to which every record has arrived. A process may send any time:
// only a later one than before counts.
func (p *peer) flushedUntil(until uint64) {
	if until <= p.until || p.taken {
		return
	}
	p.until = until
	p.decoder.sink.Add(&tracelog.Flushed{PID: p.PID, Until: p.shift.host(until)})
}

// handover keeps a HANDOVER, which may be the last word of a process.
func (p *peer) handover(payload []byte) error {
	y, err := parseBye(payload)
	if err == nil {
		p.lastWord = &y
		p.flushedUntil(y.until)
	}
	return err
}

func (p *peer) report() {
	c := p.cupti
	p.server.sink.Add(&c)
	p.listener.Status(c)
}

func (p *peer) lost(payload []byte) error {
	l, err := parseLost(payload)
	if err != nil {
		return err
	}
	p.decoder.sink.Add(&tracelog.Lost{
		PID: p.PID, Cause: l.cause, Count: l.count, From: p.shift.host(l.from), To: p.shift.host(l.to),
	})
	return nil
}

// complain says that a process sent a malformed message. It is silent about a
// connection that ended: processes get killed, and End says that the recording is not complete.
func (p *peer) complain(err error) {
	var nonsense protocolError
	if errors.Is(err, errPosition) {
		nonsense = protocolError(err.Error())
	} else if !errors.As(err, &nonsense) {
		return
	}
	p.broken = true
	text := fmt.Sprintf("process %d: its GPU work from here on is missing: it sent a malformed message (%s)", p.PID,
		nonsense)
	if p.listener == nil {
		p.handler.Warn(p.PID, text)
		return
	}
	p.listener.Note(tracelog.NoteWarning, text)
}

// complainOfNames says how many names of a process found no room.
func (p *peer) complainOfNames() {
	if n := p.decoder.unnamed; n > 0 {
		p.listener.Note(tracelog.NoteWarning, fmt.Sprintf(
			"process %d: %s missing: the names of all processes together need more than the %s that recording allows them",
			p.PID, figures.Count(n, "name is", "names are"), figures.Bytes(peerBytesMax)))
	}
}

// explain says why a process stopped sending before its end.
func (p *peer) explain() {
	why := ""
	switch {
	case p.broken || p.taken || !p.mapped:
		return
	case p.bye != nil && p.bye.reason == byeFailed:
		why = "the injected library could not go on"
	case p.bye != nil || !p.runsOn():
		return
	case p.senderDied():
		why = "a thread of the injected library was ended: a seccomp filter does so for system calls"
	default:
		why = "the injected library could not go on"
	}
	p.failed = true
	p.listener.Note(tracelog.NoteWarning, fmt.Sprintf("process %d: its GPU work from here on is missing: %s", p.PID, why))
}

// runsOn reports whether a process that sends nothing more goes on all the same. One that is about to end
// does so within this time.
func (p *peer) runsOn() bool {
	const patience = time.Second
	for late := time.Now().Add(patience); p.shares(p.PID); time.Sleep(patience / 100) {
		if time.Now().After(late) {
			return true
		}
	}
	return false
}

// isCut reports whether the records of the process ended before it did.
func (p *peer) isCut() bool { return p.taken || p.broken || p.failed }

// end is the ProcessEnd of the process.
func (p *peer) end() tracelog.ProcessEnd {
	e := tracelog.ProcessEnd{PID: p.PID, Status: -1, Until: p.shift.host(p.until)}
	c := &p.decoder.counts
	off := p.cupti.Status != "" && p.cupti.Status != "on" // no record was expected
	switch {
	case p.bye != nil:
		c = &p.bye.counts
		e.Time, e.Reason = p.shift.host(p.bye.now), p.bye.words()
		e.Complete = truth(off || p.bye.until != 0)
	case p.lastWord != nil:
		c = &p.lastWord.counts
		// On its way to exec it may go on for a while, and hand over once more.
		e.Time, e.Reason = max(p.shift.host(p.lastWord.now), min(e.Until, host.Monotonic())), p.lastWord.words()
		e.Complete = truth(p.lastWord.until != 0)
	default:
		e.Time = host.Monotonic()
		e.Complete = truth(off)
	}
	if p.isCut() {
		e.Complete = 0
	}
	e.Kernels, e.Copies, e.Sets, e.APIs = c.kernels, c.memcpys, c.memsets, c.apis
	return e
}

func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
