package output

import (
	"cmp"
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

// A Creator creates the next file of an output.
type Creator func(name string) (io.Writer, error)

// ErrSeveral is the error of a second file for an output that can only be one.
var ErrSeveral = errors.New("it would be several files, one for each process: name a file or a folder, or " +
	"choose a process")

// Only returns a creator of a single file, whose content goes to w.
func Only(w io.Writer) Creator {
	given := false
	return func(string) (io.Writer, error) {
		if given {
			return nil, ErrSeveral
		}
		given = true
		return w, nil
	}
}

// Files makes the files of one output; write creates them and writes their content. A single file is
// at the target, several are in its folder. They get their names when all are complete. A device or a
// pipe takes one file, which is written to it directly.
func Files(t *outfile.Target, write func(Creator) error) (outfile.Done, error) {
	if t.IsSpecial() {
		return File(t, func(w io.Writer) error { return write(Only(w)) })
	}
	set := outfile.NewSet(t)
	var failed error
	err := write(func(name string) (io.Writer, error) {
		f, err := set.Create(name)
		if err != nil {
			failed = err
			return nil, err
		}
		return f, nil
	})
	if err != nil {
		_ = set.Discard() // the first failure is the one to report
		return outfile.Done{}, cmp.Or(failed, t.Failure(err))
	}
	done, err := set.Commit()
	if err == nil {
		err = set.Close()
	}
	if err != nil {
		_ = set.Discard()
	}
	return done, err
}

// SameFile reports whether two names refer to one existing file.
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
		return "no permission in that folder; choose another place"
	case errors.As(err, &errno):
		return errno.Error()
	default:
		return err.Error()
	}
}
