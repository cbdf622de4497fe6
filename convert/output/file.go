package output

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/cudatrace/cudatrace/record/outfile"
)

// File makes the file at a target; write writes its content. The file gets its name when it is
// complete. A device or a pipe is written to directly.
func File(t *outfile.Target, write func(io.Writer) error) (outfile.Done, error) {
	if t.IsSpecial() {
		f, err := t.OpenSpecial()
		if err != nil {
			return outfile.Done{}, err
		}
		return outfile.Done{}, t.Failure(errors.Join(write(f), f.Close()))
	}
	f, err := t.Create()
	if err != nil {
		return outfile.Done{}, err
	}
	if err := write(f); err != nil {
		_ = f.Discard() // the first failure is the one to report
		return outfile.Done{}, t.Failure(err)
	}
	done, err := f.Commit()
	if err == nil {
		err = t.Failure(f.Close())
	}
	if err != nil {
		_ = f.Discard()
	}
	return done, err
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
