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
	Parquet  Format = "parquet"  // tables for engines that query many runs, a folder
)

// ChromeSuffix is the suffix by which tools recognise a trace as one of PyTorch's profiler.
func ChromeSuffix(c output.Compression) string {
	if c == output.None {
		return ".pt.trace.json"
	}
	return ".pt.trace.json.gz"
}

// ChromeFolder is the name of the folder of several processes' files, from the name of a single file.
func ChromeFolder(name string) string {
	if folder, ok := strings.CutSuffix(strings.TrimSuffix(name, ".gz"), ".json"); ok && folder != "" {
		return folder
	}
	return name
}

// chromeName is the name of a process's file beside those of other processes, in Kineto's form:
// HOST_PID, with the rank in front where there is one. It has no character that means something to a shell, a folder or a URL.
func chromeName(p *timeline.Process, c output.Compression) string {
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, p.Host)
	host = host[:min(len(host), 64)]
	rank := ""
	if p.Rank.Known {
		rank = fmt.Sprintf("rank%d_", p.Rank.Number)
	}
	return fmt.Sprintf("%s%s_%d%s", rank, cmp.Or(host, "process"), p.PID&(1<<pidBits-1), ChromeSuffix(c))
}

// chromeTo writes the Chrome trace of one process to w.
func (c *conversion) chromeTo(w io.Writer, o TraceOptions) ([]Summary, error) {
	only := output.Only(w)
	return c.chrome(o, func(p *timeline.Process) (io.Writer, error) { return only(chromeName(p, o.Compress)) })
}

// mostFiles bounds the files of a trace, all of which are open at once: each takes a few MiB of memory.
const mostFiles = 256

var errFiles = fmt.Errorf("it would be more than %d files, one for each process: choose processes with --process", mostFiles)

// chrome writes a Chrome trace for each process.
func (c *conversion) chrome(o TraceOptions, create func(*timeline.Process) (io.Writer, error)) ([]Summary, error) {
	var files []io.WriteCloser
	bound := c.bound(Chrome)
	sink := chromesink.New(chromesink.Options{Step: o.step(), Shown: o.shown(), Open: func(p *timeline.Process) (io.Writer, error) {
		if len(files) == mostFiles {
			return nil, errFiles
		}
		w, err := create(p)
		if err != nil {
			return nil, err
		}
		f := o.Compress.NewWriter(w)
		files = append(files, f)
		return bound(f), nil
	}})
	all, err := c.watch(sink, o.MaxSlices)
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
	s := selection.New(selection.Options{Name: o.Filter.Name, Shortest: uint64(o.Filter.MinDuration)})
	if s == nil {
		return nil
	}
	return func(c *timeline.Call) bool {
		return s.Slice(&timeline.Slice{Function: c.Function, Start: c.Start, End: c.End})
	}
}
