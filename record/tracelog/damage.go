package tracelog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
)

// Errors of Open and NewReader. They are wrapped in errors whose messages name the file.
var (
	ErrEmpty  = errors.New("is empty")
	ErrNotLog = errors.New("is not a cudatrace log")
	ErrNewer  = errors.New("was written by a newer cudatrace")
	ErrOlder  = errors.New("was written by an older cudatrace")
)

// A fileError is an error with the name of the file in front and more words behind.
type fileError struct {
	name string
	is   error
	more string
}

func (e *fileError) Error() string { return e.name + " " + e.is.Error() + e.more }
func (e *fileError) Unwrap() error { return e.is }

// A CorruptError says that bytes in the log differ from those that were written.
type CorruptError struct {
	Offset  int64 // of the first byte that could not be used
	Skipped int64 // bytes up to the next intact block; 0 when no bytes were left out
	Reason  string
}

func (e *CorruptError) Error() string {
	if e.Skipped == 0 {
		return fmt.Sprintf("the log is damaged at byte %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("the log is damaged at byte %d: %s; %s left out", e.Offset, e.Reason,
		count(e.Skipped, "byte was", "bytes were"))
}

// count writes a number of things.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// A TruncatedError says that the log ends early. Everything before Offset was read.
type TruncatedError struct {
	Offset int64 // where the log ends, or where its last, unfinished block begins
	Reason string
}

func (e *TruncatedError) Error() string { return e.Reason }

// IsDamage reports whether an error describes damage in a log whose rest can be read, in contrast
// to an error of reading the file.
func IsDamage(err error) bool {
	var corrupt *CorruptError
	var cut *TruncatedError
	return errors.As(err, &corrupt) || errors.As(err, &cut)
}

// Damage lists the damaged places of a log, in the order of the file.
type Damage struct {
	Errors []error // each a *CorruptError or a *TruncatedError; the first 16
	Count  int     // of all
}

func (d *Damage) addError(err error) {
	if len(d.Errors) < blockfile.MaxFaults {
		d.Errors = append(d.Errors, err)
	}
	d.Count++
}

// addFault adds a fault of the file. ended says whether the End record has been read.
func (d *Damage) addFault(f *blockfile.Fault, ended bool) {
	reason := f.Reason
	if ended && f.Finished != "" {
		reason = f.Finished
	}
	switch {
	case ended && f.Harmless:
	case f.Cut:
		d.addError(&TruncatedError{f.Offset, reason})
	default:
		d.addError(&CorruptError{f.Offset, f.Skipped, reason})
	}
}

// String is the damage in words, on one line.
func (d *Damage) String() string {
	if d.Count == 0 {
		return "the log is intact"
	}
	var b strings.Builder
	for i, err := range d.Errors {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	if more := d.Count - len(d.Errors); more > 0 {
		b.WriteString("; and " + count(int64(more), "more fault", "more faults"))
	}
	return b.String()
}
