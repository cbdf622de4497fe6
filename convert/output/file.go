package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// File makes the file at path; write writes its content. The file grows beside its final name
// and is renamed when it is complete. A symbolic link stays: its target is replaced. A device
// or a pipe is written to directly.
func File(path string, write func(io.Writer) error) error {
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real
	}
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("cannot write %s: a folder of that name is in the way", path)
	case err == nil && !info.Mode().IsRegular():
		err = writeThrough(target, write)
	default:
		err = replace(target, write)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %s", path, Reason(err))
	}
	return nil
}

// writeThrough writes to a device or a pipe.
func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func replace(path string, write func(io.Writer) error) error {
	temp := tracelog.PartialName(path, fmt.Sprintf("%d-%x", os.Getpid(), time.Now().UnixNano()))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp) // the first failure is the one to report
	}
	return err
}

// SameFile says whether two names refer to one existing file.
func SameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// Reason is the cause of a failed file operation in plain words.
func Reason(err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the folder does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "no permission in that folder; choose another place with -o"
	case errors.As(err, &errno):
		return errno.Error()
	default:
		return err.Error()
	}
}
