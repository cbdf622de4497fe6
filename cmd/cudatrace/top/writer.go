package top

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// hasNoWriter reports whether certainly no process has a file open for writing. The kernel gives a lease
// for reading only then. Where it gives none for another reason (the file is another user's, or the file
// system has no leases), the open files of all processes tell, if all can be seen.
func hasNoWriter(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		return err == nil
	case errors.Is(err, unix.EAGAIN):
		return false
	}
	return noneWrites(f)
}

// noneWrites looks at the open files of all processes.
func noneWrites(f *os.File) bool {
	of, err := procfs.FileOf(procfs.OpenFile(f))
	if err != nil {
		return false
	}
	folders, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return false
	}
	for _, folder := range folders {
		list, err := os.ReadDir(folder)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return false
		}
		for _, fd := range list {
			s, err := procfs.FileOf(filepath.Join(folder, fd.Name()))
			if err == nil && procfs.SameFile(&s, &of) && isWritten(folder, fd.Name()) {
				return false
			}
		}
	}
	return true
}

// isWritten reports whether a descriptor is open for writing, or may be.
func isWritten(folder, fd string) bool {
	text, err := procfs.Read(fmt.Sprintf("%sinfo/%s", folder, fd), procfs.MaxFacts)
	if err != nil && !errors.Is(err, procfs.ErrCut) { // the flags come first
		return !errors.Is(err, fs.ErrNotExist)
	}
	_, flags, _ := strings.Cut(string(text), "flags:")
	n, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(flags, "\n", 2)[0]), 8, 64)
	return err != nil || n&unix.O_ACCMODE != unix.O_RDONLY
}
