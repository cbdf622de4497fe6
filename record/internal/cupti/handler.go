package cupti

import (
	"time"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Sink takes the records of all processes. A tracelog.Writer is one.
//
// Add is called from several goroutines at a time, one per process. The caller reuses the
// record after the call. Times are nanoseconds of CLOCK_MONOTONIC.
type Sink interface {
	Add(tracelog.Record)
}

// A Handler is told of processes that connect. Its methods are called from several goroutines at a time.
type Handler interface {
	// Wants is called first, with the PID and the user alone. A process that is not wanted goes on at
	// once, unrecorded; nothing else is called for it.
	Wants(p Peer) bool
	// Hello is called when a process has initialised CUDA and waits for the answer. It should
	// take no more than 10 s: 10 s after its hello the process runs on unrecorded.
	Hello(p Peer) (GoConfig, Listener)
	// Warn is called with a line for a person, about a process without a Listener or, with PID 0, about all.
	Warn(pid uint32, text string)
}

// NoteRemark is the severity of a note that is said at once, and leaves the log complete.
const NoteRemark = 2

// NoteStep is the severity of a note without text: see Options.Steps.
const NoteStep = 3

// MostSteps bounds Options.Steps.
const MostSteps = stepsMax

// A Listener is told of one process, from one goroutine at a time.
type Listener interface {
	// Status is called when the sink has got a CUPTI record of the process, which waits for the first
	// to be handled.
	Status(c tracelog.CUPTI)
	// WatchExit is called when recording has begun in the process. It notices threads that enter _exit, exec or the
	// program's own handler of a signal, which the process itself cannot notice. A thread that gets the signal, unless
	// signal is 0, waits in its handler until everything is handed over. The signal may be sent only while its handler in
	// the process is the function at address handler and the word (32 bits) at address over is 0, only to threads that do
	// not block it, and not to a process that shares the memory but has another PID.
	WatchExit(signal uint32, handler, over uint64)
	// FindCaller is called with each new chain of a process with GoConfig.Callers. It returns the ID of the caller
	// record that calls with that chain get, 0 for none. It should not wait: the process's records wait
	// meanwhile. need is to be called, by any goroutine and at any time, when it is known how many
	// addresses of chains with this innermost address are of use: the process leaves the rest out.
	// A chain that is too short needs more addresses than it has.
	FindCaller(c Chain, need func(depth int)) (caller uint32)
	// FindFunction returns the name of the driver's function that was called, "" if it is not certain.
	// It is called at the end of a process with GoConfig.Callers, and while a call does not return.
	FindFunction(c OpenCall) string
	// Note is called with a line for a person; severity is one of tracelog's, NoteRemark or NoteStep.
	Note(severity uint32, text string)
	// End is called when the last record of the process has reached the sink.
	End(e End)
}

// An End is the end of a process, or of its recording.
//
//   - Complete is 1 if no record is missing: the process said goodbye, or it handed over
//     and sent nothing more, and no other CUPTI client had taken its records. It is also 1
//     if CUPTI recorded nothing in it. If it is 1 the counts are CUPTI's own, otherwise
//     those of the records that arrived.
//   - Until is the time up to which all GPU work has arrived.
//   - Reason is "exit", "quick_exit" or "signal N (NAME)". It is "" if the process cannot
//     know it, as for _exit and exec, or was not asked.
//   - Status is -1.
type End struct {
	tracelog.ProcessEnd
	Absent string // why the process ran unrecorded although it said hello; continues a sentence about several processes
	Cut    bool   // its records ended before it did; a note has said why
}

// A Chain is the return addresses above a call of the driver, innermost first. It is as the
// process says: any number may be in it.
type Chain struct {
	Epoch     uint64 // grows when the process may have unloaded a library
	Inner     uint64 // innermost return address in the function that was called; 0 where a record names that
	Addresses []uint64
}

// A Peer is a process that reports to the server.
type Peer struct {
	ID       uint64 // unique in the server; a process that runs another program gets another one
	PID      uint32 // in the recorder's PID namespace, from the kernel
	UID, GID uint32
	Time     uint64 // when it began to wait for the recorder, ns, CLOCK_MONOTONIC
	// BufferRequest is the first argument that the library passes to
	// cuptiActivityRegisterCallbacks. A call with another argument comes from another CUPTI
	// client.
	BufferRequest uint64

	last uint64 // when it no longer waits for the answer to its hello, whatever it hears
}

// A process waits for the answer to its hello for helloPatience from each sign of the recorder, and an armed one for
// helloMost at first. After helloMost there are no signs any more.
const (
	helloPatience = goWaitMs * time.Millisecond
	helloMost     = goMostMs * time.Millisecond
)

// Deadline is the time at which the process no longer waits for the answer, in ns of CLOCK_MONOTONIC, unless it
// hears from the recorder before.
func (p Peer) Deadline() uint64 {
	said, now := p.Time, host.Monotonic()
	if said > now || now-said > uint64(time.Minute) {
		said = now // its clock is another one, in a time namespace
	}
	return said + uint64(helloPatience)
}

// Patience is how long the process still waits for the answer to its hello: the server gives it signs of the
// recorder meanwhile. It is 0 or less when the process waits no more.
func (p Peer) Patience() time.Duration { return time.Duration(int64(p.last - host.Monotonic())) }

// lastDeadline is the time at which a process no longer waits, whatever it hears, if it waits up to a deadline for the
// first sign.
func lastDeadline(first uint64) uint64 {
	if host.Monotonic() >= first {
		return first
	}
	return first + uint64(helloMost-helloPatience)
}
