package convert

import (
	"errors"
	"fmt"
	"io"

	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/pfsink"
	"github.com/cudatrace/cudatrace/record/outfile"
)

// TraceOptions are the options of a trace. The zero TraceOptions convert everything and
// compress with gzip.
type TraceOptions struct {
	Options
	Compress output.Compression

	// MaxBytes bounds the size of the trace: the newest events that fit are kept, or with
	// Longest the longest slices. 0 is no bound.
	MaxBytes int64
	Longest  bool
}

// SummarizeFile summarizes the log at path.
func SummarizeFile(path string) (Summary, error) {
	all, err := Timeline([]Log{Path(path)}, Options{}, nil)
	if err != nil {
		return Summary{}, err
	}
	return all[0], nil
}

// FilesAt converts logs into one Perfetto trace at a target and returns a summary of each log. The
// trace gets its name when it is complete; a device or a pipe is written to directly.
func FilesAt(paths []string, out *outfile.Target, o TraceOptions) ([]Summary, outfile.Done, error) {
	for _, p := range paths {
		if out.IsFile(p) {
			return nil, outfile.Done{}, fmt.Errorf("%s is the log itself: give the trace another name", p)
		}
	}
	if o.MaxBytes > 0 {
		return fit(paths, out, o)
	}
	c := newConversion(Paths(paths), o.Options)
	if err := c.read(); err != nil {
		return nil, outfile.Done{}, err
	}
	return c.file(out, o.Compress)
}

// FilesTo converts logs into one Perfetto trace on w. It does not support
// TraceOptions.MaxBytes, because written bytes cannot be taken back.
func FilesTo(paths []string, w io.Writer, o TraceOptions) ([]Summary, error) {
	all, err := toTrace(Paths(paths), w, o)
	if isSinkError(err) {
		return all, fmt.Errorf("the trace could not be written: %s", output.Reason(err))
	}
	return all, err
}

func toTrace(logs []Log, w io.Writer, o TraceOptions) ([]Summary, error) {
	c := newConversion(logs, o.Options)
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.trace(w, o.Compress)
}

// file writes the trace of a conversion whose first reading is done.
func (c *conversion) file(out *outfile.Target, how output.Compression) (all []Summary, done outfile.Done, err error) {
	var readErr error
	done, err = output.File(out, func(w io.Writer) error {
		var err error
		if all, err = c.trace(w, how); err != nil && !isSinkError(err) {
			readErr = err
		}
		return err
	})
	if readErr != nil {
		return nil, done, readErr
	}
	return all, done, err
}

// trace writes a trace to w.
func (c *conversion) trace(w io.Writer, how output.Compression) ([]Summary, error) {
	out := how.NewWriter(w)
	all, err := c.run(pfsink.New(out, how.PieceBytes()))
	if closing := out.Close(); closing != nil && (err == nil || isSinkError(err)) {
		err = &SinkError{errors.Join(err, closing)}
	}
	return all, err
}
