package probe

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
)

// An Exit is the way in which a process ended, or is about to end.
type Exit struct {
	// Reason is for a person. If the process is gone: "status 3", "signal 9 (SIGKILL)", "signal
	// 11 (SIGSEGV), core dumped". If not, the last sign of its end: "_exit", "exec", "signal 15
	// (SIGTERM)".
	Reason string
	Time   uint64 // ns, CLOCK_MONOTONIC
	Status int32  // as in a shell: the exit status, or 128 plus the signal's number; -1 for exec
	Final  bool   // the process is gone
	Traced bool   // a tracer kept the process from being told of its end
	Exec   uint64 // ns, CLOCK_MONOTONIC: when it began to run another program the last time; 0: it did not
}

// finalExit reads the exit code of a process that is gone. The code has the form of wait(2).
func finalExit(end *bpf.ProbesProcessEnd) Exit {
	e := ExitOf(unix.WaitStatus(end.ExitCode))
	e.Time, e.Traced, e.Exec = end.EndTime, end.Traced != 0, end.ExecTime
	return e
}

// ExitOf returns the exit of a process whose status wait(2) has returned, without its time.
func ExitOf(status unix.WaitStatus) Exit {
	e := Exit{Final: true}
	if !status.Signaled() {
		e.Status = int32(status.ExitStatus())
		e.Reason = fmt.Sprintf("status %d", e.Status)
		return e
	}
	e.Status = 128 + int32(status.Signal())
	e.Reason = signalText(int32(status.Signal()))
	if status.CoreDump() {
		e.Reason += ", core dumped"
	}
	return e
}

// Words are the Exit for a person: "exit code 3", "signal 11 (SIGSEGV), core dumped".
func (e *Exit) Words() string {
	if e.Signaled() {
		return e.Reason
	}
	return fmt.Sprintf("exit code %d", e.Status)
}

// Signaled reports whether a signal ended the process.
func (e *Exit) Signaled() bool { return strings.HasPrefix(e.Reason, "signal ") }

// expectedExit reads the last sign of an end; ok is false if there was none.
func expectedExit(end *bpf.ProbesProcessEnd) (e Exit, ok bool) {
	argument := end.SignArgument
	e = Exit{Time: end.SignTime, Traced: end.Traced != 0, Exec: end.ExecTime}
	switch end.Sign {
	case bpf.EndExit:
		e.Reason, e.Status = "_exit", argument&0xff
	case bpf.EndExec:
		e.Reason, e.Status = "exec", -1
	case bpf.EndSignal:
		e.Reason, e.Status = signalText(argument), 128+argument
	}
	return e, e.Reason != ""
}

func signalText(number int32) string {
	if name := unix.SignalName(unix.Signal(number)); name != "" {
		return fmt.Sprintf("signal %d (%s)", number, name)
	}
	return fmt.Sprintf("signal %d", number)
}

// WatchExit makes the kernel send a process a signal before it ends. handler is the address of
// the signal's handler, over that of a word that forbids it; see exitWatcher.watch.
func (p *Prober) WatchExit(pid, signal int, handler, over uint64) error {
	p.mu.Lock()
	err := p.releaseEnded()
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return p.exits.watch(pid, signal, handler, over)
}

// ExitReason says how a process ended that was attached or watched, even if it has been
// detached since. ok is false while the process shows no sign of its end.
func (p *Prober) ExitReason(pid int) (e Exit, ok bool) { return p.exits.exit(pid) }
