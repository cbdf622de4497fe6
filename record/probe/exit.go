package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
)

// An Exit says how a process ended, or that it is about to.
type Exit struct {
	// Reason is for people: "status 3", "signal 9 (SIGKILL)" or "signal 11 (SIGSEGV),
	// core dumped" once the process is gone; before, the last sign of its end: "_exit",
	// "exec", "signal 15 (SIGTERM)".
	Reason string
	Time   uint64 // ns, CLOCK_MONOTONIC
	Status int32  // as a shell gives it: the exit status, or 128 and the signal's number; -1 for exec
	Final  bool   // the process is gone
}

// ExitReason says how a process that was attached or watched ended. ok is false while
// it shows no sign of an end. It works for processes that are no children, and after
// they have been detached.
func (p *Prober) ExitReason(pid int) (e Exit, ok bool) {
	var end bpf.ProbesProcessEnd
	if err := p.maps.Ends.Lookup(uint32(pid), &end); err != nil {
		return Exit{}, false
	}
	if end.EndTime > 0 {
		return finalExit(&end), true
	}
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

// finalExit reads a code as wait(2) gives it.
func finalExit(end *bpf.ProbesProcessEnd) Exit {
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

func signalText(number int32) string {
	if name := unix.SignalName(unix.Signal(number)); name != "" {
		return fmt.Sprintf("signal %d (%s)", number, name)
	}
	return fmt.Sprintf("signal %d", number)
}

// noteEnd begins to note how a process ends, unless that is done.
func (p *Prober) noteEnd(pid int) error {
	var end bpf.ProbesProcessEnd
	err := p.maps.Ends.Lookup(uint32(pid), &end)
	if err == nil && end.EndTime == 0 {
		return nil
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("how process %d ends is not noted: %w", pid, err)
	}
	return p.putEnd(pid, &bpf.ProbesProcessEnd{})
}

// signalFrame is the bytes that the kernel puts on a stack for a signal, at most.
func signalFrame() uint64 {
	const (
		minSigStackSize = 51   // AT_MINSIGSTKSZ of linux/auxvec.h
		enough          = 8192 // where the kernel does not say
	)
	aux, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return enough
	}
	return auxiliary(aux, minSigStackSize, enough)
}

// auxiliary finds a value in the auxiliary vector: pairs of a type and a value, 8 bytes
// each.
func auxiliary(vector []byte, kind, otherwise uint64) uint64 {
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.NativeEndian.Uint64(vector) == kind {
			return binary.NativeEndian.Uint64(vector[8:])
		}
	}
	return otherwise
}
