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
	Format   Format
	Compress output.Compression

	// StepRange is a glob: NVTX ranges with such names are the steps of a Chrome trace. "" is none.
	StepRange string
	// Several is called when a trace has become several files in a folder.
	Several func(folder string, files int)

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

// Files converts logs into one trace at out and returns a summary of each log. The trace grows
// beside its final name and is renamed when it is complete; a device or a pipe is written to
// directly. A Chrome trace of several processes is a folder; see ChromeFolder.
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
	return c.file(out, o)
}

// FilesTo converts logs into one trace on w, a Chrome trace only of a single process. It does not support
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
	return c.trace(w, o)
}

// file writes the trace of a conversion whose first reading is done.
func (c *conversion) file(out string, o TraceOptions) (all []Summary, err error) {
	if o.Format == Chrome {
		return c.chromeFiles(out, o)
	}
	var readErr error
	err = output.File(out, func(w io.Writer) error {
		var err error
		if all, err = c.trace(w, o); err != nil && !isSinkError(err) {
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
func (c *conversion) trace(w io.Writer, o TraceOptions) ([]Summary, error) {
	if o.Format == Chrome {
		return c.chromeTo(w, o)
	}
	out := o.Compress.NewWriter(w)
	all, err := c.run(pfsink.New(out, o.Compress.PieceBytes()))
	if closing := out.Close(); closing != nil && (err == nil || isSinkError(err)) {
		err = &SinkError{errors.Join(err, closing)}
	}
	return all, err
}
