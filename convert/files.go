package convert

import (
	"errors"
	"fmt"
	"io"

	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/pfsink"
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

// File converts the log at path into a compressed Perfetto trace at out; see Files.
func File(path, out string) (Summary, error) {
	all, err := Files([]string{path}, out, TraceOptions{})
	if err != nil {
		return Summary{}, err
	}
	return all[0], nil
}

// Files converts logs into one Perfetto trace at out and returns a summary of each log. The
// trace grows beside its final name and is renamed when it is complete; a device or a pipe is
// written to directly.
func Files(paths []string, out string, o TraceOptions) ([]Summary, error) {
	for _, p := range paths {
		if output.SameFile(p, out) {
			return nil, fmt.Errorf("%s is the log itself: give the trace another name", out)
		}
	}
	if o.MaxBytes > 0 {
		return fit(paths, out, o)
	}
	c := newConversion(Paths(paths), o.Options)
	if err := c.read(); err != nil {
		return nil, err
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
func (c *conversion) file(out string, how output.Compression) (all []Summary, err error) {
	var readErr error
	err = output.File(out, func(w io.Writer) error {
		var err error
		if all, err = c.trace(w, how); err != nil && !isSinkError(err) {
			readErr = err
		}
		return err
	})
	if readErr != nil {
		return nil, readErr
	}
	return all, err
}

// trace writes a trace to w.
func (c *conversion) trace(w io.Writer, how output.Compression) ([]Summary, error) {
	out := how.NewWriter(w)
	all, err := c.run(pfsink.New(&bounded{w: out, left: c.mostTrace()}, how.PieceBytes()))
	if closing := out.Close(); closing != nil && (err == nil || isSinkError(err)) {
		err = &SinkError{errors.Join(err, closing)}
	}
	return all, err
}

// mostTrace is the largest number of bytes of the trace before its compression. A launch takes 8
// bytes in a log and 230 in a trace; a log that was made for it could fill any disk.
func (c *conversion) mostTrace() int64 {
	most := int64(64 << 20)
	for _, l := range c.logs {
		most += 2048 * l.size
	}
	return most
}

// A bounded writer fails when too many bytes are written to it.
type bounded struct {
	w    io.Writer
	left int64
}

var errHuge = errors.New("it would be larger than the trace of a log of this size can be (no recorder writes such a log)")

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errHuge
	}
	return b.w.Write(p)
}
