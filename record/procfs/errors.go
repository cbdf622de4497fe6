package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// An unreadable error says that a process cannot be read: in a sentence for a person, and with the
// cause for errors.Is.
type unreadable struct {
	sentence string
	cause    error
}

func (e *unreadable) Error() string { return e.sentence }
func (e *unreadable) Unwrap() error { return e.cause }

// Forbidden says why a process may not be read.
func Forbidden(pid int) string {
	switch {
	case os.Geteuid() == 0 && !Capable(unix.CAP_SYS_PTRACE):
		return fmt.Sprintf("process %d has rights that this one lacks: CAP_SYS_PTRACE is missing "+
			"(start the container with --cap-add SYS_PTRACE)", pid)
	case os.Geteuid() == 0:
		return fmt.Sprintf("process %d cannot be read, even by root: the kernel or a container protects it", pid)
	}
	return fmt.Sprintf("process %d belongs to another user (run with sudo)", pid)
}

// Capable reports whether this process has a capability, of the first 32.
func Capable(capability int) bool {
	var own [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &own[0])
	return err == nil && own[0].Effective&(1<<capability) != 0
}

// explain says why a process cannot be read.
func explain(pid int, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return &unreadable{fmt.Sprintf("process %d has ended", pid), fs.ErrNotExist}
	case errors.Is(err, fs.ErrPermission):
		return &unreadable{Forbidden(pid), err}
	}
	return fmt.Errorf("reading the memory map of process %d: %w", pid, err)
}
