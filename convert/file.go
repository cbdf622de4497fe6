package convert

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

// SummarizeFile says what is in the log at path.
func SummarizeFile(path string) (Summary, error) {
	j := newJob(Options{}, []string{path}, openers([]string{path}))
	return j.summarizeOnly()
}

// summarizeOnly goes through the only log without a trace.
func (j *job) summarizeOnly() (Summary, error) {
	if err := j.read(); err != nil {
		return Summary{}, err
	}
	all, err := j.send(noSink{}, func(uint64) {})
	if err != nil {
		return Summary{}, err
	}
	return all[0], nil
}

func openers(paths []string) (list []opener) {
	for _, p := range paths {
		list = append(list, func() (*tracelog.Reader, error) { return tracelog.Open(p) })
	}
	return list
}

// File converts the log at path into a compressed Perfetto trace at out; see Files.
func File(path, out string) (Summary, error) {
	all, err := Files([]string{path}, out, Options{})
	if err != nil {
		return Summary{}, err
	}
	return all[0], nil
}

// Files converts logs into one Perfetto trace at out, and says of each what is in it. The
// trace is written beside its name and renamed when it is complete; what is no regular file
// (a device, a pipe) is written to as it is.
func Files(paths []string, out string, o Options) ([]Summary, error) {
	for _, p := range paths {
		if sameFile(p, out) {
			return nil, fmt.Errorf("%s is the log itself: give the trace another name", out)
		}
	}
	if o.Filter.MaxBytes > 0 {
		return fit(paths, out, o)
	}
	j := newJob(o, paths, openers(paths))
	if err := j.read(); err != nil {
		return nil, err
	}
	return j.file(out)
}

// file writes the trace of a job of which the first reading is done.
func (j *job) file(out string) (all []Summary, err error) {
	var readErr error
	err = writeFile(out, func(w io.Writer) error {
		var err error
		var failed *writeError
		if all, err = j.run(w); err != nil && !errors.As(err, &failed) {
			readErr = err
		}
		return err
	})
	if readErr != nil {
		return nil, readErr
	}
	return all, err
}

// FilesTo converts logs into one Perfetto trace on w. Options.Filter.MaxBytes is not for
// it: nobody can take back what was written.
func FilesTo(paths []string, w io.Writer, o Options) ([]Summary, error) {
	j := newJob(o, paths, openers(paths))
	if err := j.read(); err != nil {
		return nil, err
	}
	all, err := j.run(w)
	var failed *writeError
	if errors.As(err, &failed) {
		return all, fmt.Errorf("the trace could not be written: %s", reason(err))
	}
	return all, err
}

func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// isDamage tells a log that is damaged, which the summary reports, from one that
// can't be read.
func isDamage(err error) bool {
	var corrupt *tracelog.CorruptError
	var cut *tracelog.TruncatedError
	return errors.As(err, &corrupt) || errors.As(err, &cut)
}

// noSink takes nothing.
type noSink struct{}

func (noSink) GPUs([]GPU)           {}
func (noSink) Process(*Process)     {}
func (noSink) Thread(*Thread)       {}
func (noSink) Begin(*Slice)         {}
func (noSink) End(uint64)           {}
func (noSink) Track(*Track)         {}
func (noSink) BeginSpan(*Span)      {}
func (noSink) Instant(*Span)        {}
func (noSink) Counter(*Counter)     {}
func (noSink) Value(uint64, uint64) {}
func (noSink) Queue(*Queue)         {}
func (noSink) Work(*Work)           {}
func (noSink) Mark(*Mark)           {}

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
