// Package errno explains failed system calls to people. An error goes in; its plain reason comes
// out.
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
	if errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}

// Writing says why a file that a person named cannot be written, and what to do about it.
func Writing(path string, err error) error {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot write %s: the folder %s does not exist", path, dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot write %s: no permission in folder %s; choose another place with -o", path, dir)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("cannot write %s: the file system of %s is read-only; choose another place with -o", path, dir)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("cannot write %s: no space left in %s", path, dir)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("cannot write %s: %s is not a folder", path, dir)
	}
	return fmt.Errorf("cannot write %s: %s", path, Words(err))
}
