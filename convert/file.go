package convert

import (
	"bufio"
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

// SummarizeFile says what is in the log at path.
func SummarizeFile(path string) (Summary, error) {
	t, err := buildFile(path)
	if err != nil {
		return Summary{}, err
	}
	return t.Summary, nil
}

// File converts the log at path into a Perfetto trace at out. The trace is
// written beside its name and renamed when it is complete; what is no regular file
// (a device, a pipe) is written to as it is.
func File(path, out string) (Summary, error) {
	if sameFile(path, out) {
		return Summary{}, fmt.Errorf("%s is the log itself: give the trace another name", out)
	}
	t, err := buildFile(path)
	if err != nil {
		return Summary{}, err
	}
	return t.Summary, writeFile(out, func(w io.Writer) error { return Perfetto(t, w) })
}

func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// FileTo converts the log at path into a Perfetto trace on w.
func FileTo(path string, w io.Writer) (Summary, error) {
	t, err := buildFile(path)
	if err != nil {
		return Summary{}, err
	}
	if err := Perfetto(t, w); err != nil {
		return t.Summary, fmt.Errorf("the trace could not be written: %s", reason(err))
	}
	return t.Summary, nil
}

func buildFile(path string) (*Timeline, error) {
	r, err := tracelog.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return Build(r)
}

// writeFile writes through a temporary file in the same folder. A symbolic link
// stays: what it leads to is replaced.
func writeFile(path string, write func(io.Writer) error) error {
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
		return fmt.Errorf("cannot write %s: %s", path, reason(err))
	}
	return nil
}

// writeThrough writes to a device or a pipe.
func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(write(b), b.Flush(), f.Close())
}

func replace(path string, write func(io.Writer) error) error {
	temp := fmt.Sprintf("%s.partial-%d-%x", path, os.Getpid(), time.Now().UnixNano())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	err = errors.Join(write(b), b.Flush(), f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp) // the first failure is the one to report
	}
	return err
}

// reason is the plain cause of a failed file operation.
func reason(err error) string {
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
