package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cudatrace/cudatrace/convert/chromesink"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Format is the form of a trace.
type Format string

// The formats.
const (
	Perfetto Format = "perfetto" // also ""
	Chrome   Format = "chrome"   // JSON as Kineto writes it, a file for each process
)

// ChromeSuffix is the suffix by which tools recognise a trace as one of PyTorch's profiler.
func ChromeSuffix(c output.Compression) string {
	if c == output.None {
		return ".pt.trace.json"
	}
	return ".pt.trace.json.gz"
}

// ChromeFolder is the folder of the files of several processes, for a trace at out.
func ChromeFolder(out string) string {
	out = strings.TrimRight(out, "/")
	if folder, ok := strings.CutSuffix(strings.TrimSuffix(out, ".gz"), ".json"); ok && folder != "" && !strings.HasSuffix(folder, "/") {
		return folder
	}
	return out
}

// chromeFiles writes the Chrome traces of a conversion whose first reading is done.
func (c *conversion) chromeFiles(out string, o TraceOptions) (all []Summary, err error) {
	folder := ChromeFolder(out)
	var readErr error
	n, err := output.Files(out, folder, func(set *output.Set) (err error) {
		all, err = c.chrome(o, func(p *timeline.Process) (io.Writer, error) { return set.Create(chromeName(p, o.Compress)) })
		if err != nil && !isSinkError(err) {
			readErr = err
		}
		return err
	})
	if readErr != nil {
		return nil, readErr
	}
	if n > 1 && o.Several != nil {
		o.Several(folder, n)
	}
	return all, err
}

// chromeName is the name of a process's file beside those of other processes, in Kineto's form:
// HOST_PID. It has no character that means something to a shell, a folder or a URL.
func chromeName(p *timeline.Process, c output.Compression) string {
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, p.Host)
	host = host[:min(len(host), 64)]
	return fmt.Sprintf("%s_%d%s", cmp.Or(host, "process"), p.PID&(1<<pidBits-1), ChromeSuffix(c))
}

// chromeTo writes the Chrome trace of one process to w.
func (c *conversion) chromeTo(w io.Writer, o TraceOptions) ([]Summary, error) {
	given := false
	return c.chrome(o, func(*timeline.Process) (io.Writer, error) {
		if given {
			return nil, output.ErrSeveral
		}
		given = true
		return w, nil
	})
}

// chrome writes a Chrome trace for each process.
func (c *conversion) chrome(o TraceOptions, create func(*timeline.Process) (io.Writer, error)) ([]Summary, error) {
	var files []io.WriteCloser
	sink := chromesink.New(chromesink.Options{Step: o.step(), Shown: o.shown(), Open: func(p *timeline.Process) (io.Writer, error) {
		w, err := create(p)
		if err != nil {
			return nil, err
		}
		f := o.Compress.NewWriter(w)
		files = append(files, f)
		return f, nil
	}})
	all, err := c.run(sink)
	for _, f := range files {
		if closing := f.Close(); closing != nil && (err == nil || isSinkError(err)) {
			err = &SinkError{errors.Join(err, closing)}
		}
	}
	return all, err
}

// step returns the choice of the ranges that are steps, nil for none.
func (o *TraceOptions) step() func(name string) bool {
	if o.StepRange == "" {
		return nil
	}
	return func(name string) bool { return selection.Match(o.StepRange, name) }
}

// shown returns the choice of the calls that are shown, nil for all.
func (o *TraceOptions) shown() func(*timeline.Call) bool {
	s := selection.New(o.Filter.Name, "", uint64(o.Filter.MinDuration))
	if s == nil {
		return nil
	}
	return func(c *timeline.Call) bool {
		return s.Slice(&timeline.Slice{Function: c.Function, Start: c.Start, End: c.End})
	}
}
