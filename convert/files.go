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

// ErrNothing says that a filter leaves nothing of the logs to see. No trace was made.
var ErrNothing = errors.New("nothing matches the filter")

// SummarizeFile summarizes the log at path.
func SummarizeFile(path string) (Summary, error) { return Summarize(Path(path)) }

// Summarize summarizes a log.
func Summarize(l Log) (Summary, error) {
	all, err := Timeline([]Log{l}, Options{}, nil)
	if err != nil {
		return Summary{}, err
	}
	return all[0], nil
}

// FilesAt converts logs into one Perfetto trace at a target and returns a summary of each log. The
// trace gets its name when it is complete; a device or a pipe is written to directly.
func FilesAt(logs []Log, out *outfile.Target, o TraceOptions) ([]Summary, outfile.Done, error) {
	for _, l := range logs {
		if out.IsFile(l.Name) {
			return nil, outfile.Done{}, fmt.Errorf("%s is the log itself: give the trace another name", l.Name)
		}
	}
	if o.MaxBytes > 0 {
		return fit(logs, out, o)
	}
	c := newConversion(logs, o.Options)
	if err := c.read(); err != nil {
		return nil, outfile.Done{}, err
	}
	return c.file(out, o.Compress)
}

// FilesTo converts logs into one Perfetto trace on w. It does not support
// TraceOptions.MaxBytes, because written bytes cannot be taken back.
func FilesTo(logs []Log, w io.Writer, o TraceOptions) ([]Summary, error) {
	held := &output.Held{W: w} // so that an empty trace is none
	all, c, err := toTrace(logs, held, o)
	if err == nil && c.empty() {
		return nil, ErrNothing
	}
	if failed := held.Release(); failed != nil && err == nil {
		err = &SinkError{failed}
	}
	if isSinkError(err) {
		return all, fmt.Errorf("the trace could not be written: %s", output.Reason(err))
	}
	return all, err
}

func toTrace(logs []Log, w io.Writer, o TraceOptions) ([]Summary, *conversion, error) {
	c := newConversion(logs, o.Options)
	if err := c.read(); err != nil {
		return nil, c, err
	}
	all, err := c.trace(w, o.Compress)
	return all, c, err
}

// file writes the trace of a conversion whose first reading is done.
func (c *conversion) file(out *outfile.Target, how output.Compression) (all []Summary, done outfile.Done, err error) {
	var readErr error
	done, err = output.File(out, func(w io.Writer) error {
		var err error
		if all, err = c.trace(w, how); err == nil && c.empty() {
			err = ErrNothing
		}
		if err != nil && !isSinkError(err) {
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
	sink := &watched{Sink: pfsink.New(out, how.PieceBytes())}
	all, err := c.run(sink)
	c.seen = sink.seen
	if closing := out.Close(); closing != nil && (err == nil || isSinkError(err)) {
		err = &SinkError{errors.Join(err, closing)}
	}
	return all, err
}
