package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// An unreadable is a process that can't be read: a sentence for people, and the cause for
// errors.Is.
type unreadable struct {
	sentence string
	cause    error
}

func (e *unreadable) Error() string { return e.sentence }
func (e *unreadable) Unwrap() error { return e.cause }

// explain says why a process can't be read.
func explain(pid int, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return &unreadable{fmt.Sprintf("process %d has ended", pid), fs.ErrNotExist}
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() == 0:
		return &unreadable{fmt.Sprintf("process %d may not be looked into, even by root: the kernel or a container protects it", pid), err}
	case errors.Is(err, fs.ErrPermission):
		return &unreadable{fmt.Sprintf("process %d belongs to someone else (run with sudo)", pid), err}
	}
	return fmt.Errorf("reading what process %d has mapped: %w", pid, err)
}
