package top

import (
	"os"

	"golang.org/x/sys/unix"
)

// hasNoWriter reports whether certainly no process has a file open for writing: the kernel gives a lease
// for reading only then. It gives none, either, of another user's file and where the file system has no leases.
func hasNoWriter(f *os.File) bool {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return false
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil
}
