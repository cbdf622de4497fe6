// Package errno explains failed system calls to people. Input: an error. Output: its reason in
// plain words.
package errno

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Words is the kernel's reason for a failed system call: "no space left on device". It leaves out
// the call and the file, because the message around it names them.
func Words(err error) string {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return err.Error()
	}
	switch number {
	case syscall.EMFILE:
		return fmt.Sprintf("the limit of %sopen files is too low: raise it (ulimit -n 4096)", fileLimit())
	case syscall.ENFILE:
		return "too many files are open on this machine: raise its limit (sysctl fs.file-max)"
	}
	return number.Error()
}

// fileLimit is the largest number of open files, with a space behind it; "" if it is not known.
func fileLimit() string {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return ""
	}
	return fmt.Sprint(limit.Cur, " ")
}

// Plain is an error whose text is its reason in plain words.
func Plain(err error) error { return plain{err} }

type plain struct{ error }

func (p plain) Error() string { return Words(p.error) }
func (p plain) Unwrap() error { return p.error }

// OtherPlace is the remedy where a file cannot be written.
const OtherPlace = "choose another place with -o"

// Writing says why a file that a person named cannot be written, and what to do about it.
func Writing(path string, err error) error {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot write %s: the folder %s does not exist", path, dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot write %s: no permission in folder %s; %s", path, dir, OtherPlace)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("cannot write %s: the file system of %s is read-only; %s", path, dir, OtherPlace)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("cannot write %s: no space left in %s; free some there, or %s", path, dir, OtherPlace)
	case errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("cannot write %s: it is larger than the limit of the size of files; raise it (ulimit -f unlimited)", path)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("cannot write %s: %s is not a folder", path, dir)
	}
	return fmt.Errorf("cannot write %s: %s", path, Words(err))
}
