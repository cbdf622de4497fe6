package convert

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
// written beside its name and renamed when it is complete.
func File(path, out string) (Summary, error) {
	t, err := buildFile(path)
	if err != nil {
		return Summary{}, err
	}
	return t.Summary, writeFile(out, func(w io.Writer) error { return Perfetto(t, w) })
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

// writeFile writes through a temporary file in the same folder.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if info, serr := os.Lstat(path); serr == nil && info.IsDir() {
		return fmt.Errorf("cannot write %s: a folder of that name is in the way", path)
	}
	temp := fmt.Sprintf("%s.partial-%d-%x", path, os.Getpid(), time.Now().UnixNano())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("cannot write %s: %s", path, reason(err))
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot write %s: %s", path, reason(err))
			os.Remove(temp) // the first failure is the one to report
		}
	}()
	b := bufio.NewWriterSize(f, 1<<20)
	err = errors.Join(write(b), b.Flush(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp, path)
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
