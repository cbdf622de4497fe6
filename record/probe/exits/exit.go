package exits

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
)

// An Exit says how a process ended, or how it is about to end.
type Exit struct {
	// Reason is for a person. If the process is gone: "status 3", "signal 9 (SIGKILL)", "signal
	// 11 (SIGSEGV), core dumped". If not, the last sign of its end: "_exit", "exec", "signal 15
	// (SIGTERM)".
	Reason string
	Time   uint64 // ns, CLOCK_MONOTONIC
	Status int32  // as in a shell: the exit status, or 128 plus the signal's number; -1 for exec
	Final  bool   // the process is gone
}

// final reads the exit code of a process that is gone. The code has the form of wait(2).
func final(end *bpf.ProbesProcessEnd) Exit {
	e := Exit{Time: end.EndTime, Final: true}
	status := unix.WaitStatus(end.ExitCode)
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

// expected reads the last sign of an end; ok is false if there was none.
func expected(end *bpf.ProbesProcessEnd) (e Exit, ok bool) {
	argument := end.SignArgument
	e = Exit{Time: end.SignTime}
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
