package convert

import (
	"errors"
	"fmt"
	"io"

	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/outfile"
)

// FilesAt converts logs into one trace at a target and returns a summary of each log. The trace gets
// its name when it is complete; a device or a pipe is written to directly. The target is one of [TraceOptions.Target].
func FilesAt(logs []Log, out *outfile.Target, o TraceOptions) ([]Summary, outfile.Done, error) {
	for _, l := range logs {
		if out.IsFile(l.Name) {
			return nil, outfile.Done{}, fmt.Errorf("%s is the log itself: give the output another name", l.Name)
		}
	}
	c := newConversion(logs, o.Options)
	if err := c.read(); err != nil {
		return nil, outfile.Done{}, err
	}
	return c.file(out, o)
}

// FilesTo converts logs into one trace of one file, on w.
func FilesTo(logs []Log, w io.Writer, o TraceOptions) ([]Summary, error) {
	held := &output.Held{W: w} // so that an empty trace is none
	all, c, err := toTrace(logs, held, o)
	if err == nil && c.empty() {
		return nil, ErrNothing
	}
	if isNoRange(err) {
		return nil, err
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
	all, err := c.write(o, output.Only(w))
	return all, c, err
}

// file writes the trace of a conversion whose first reading is done.
func (c *conversion) file(out *outfile.Target, o TraceOptions) (all []Summary, done outfile.Done, err error) {
	write := func(create output.Creator) (err error) {
		all, err = c.write(o, create)
		return c.verdict(err)
	}
	if f := o.format(); f.group != nil || f.manifest != "" {
		done, err = output.Files(out, write)
	} else {
		done, err = output.File(out, func(w io.Writer) error { return write(output.Only(w)) })
	}
	if c.failed != nil {
		return nil, done, c.failed
	}
	return all, done, err
}

// verdict returns the trace's final error. An error that is no failure to write is kept.
func (c *conversion) verdict(err error) error {
	if err == nil && c.empty() {
		err = ErrNothing
	}
	if err != nil && !isSinkError(err) {
		c.failed = err
	}
	return err
}

// both is a sink with another one beside it, which gets the same events.
type both struct {
	counting
	beside timeline.Sink
}

func (b *both) Take(events []timeline.Event) error {
	return errors.Join(b.counting.Take(events), b.beside.Take(events))
}

func (b *both) End(err error) error { return errors.Join(b.counting.End(err), b.beside.End(err)) }

// bound returns a function that makes bounded writers. They share the largest number of bytes of a trace before its
// compression, which grows by each byte of the logs. A launch takes 8 bytes in a log, 230 in a Perfetto trace and 1000
// in Chrome JSON, which has the names of kernels again with each launch. A log that was made for it could fill any
// disk.
func (c *conversion) bound(each int64) func(io.Writer) io.Writer {
	left := int64(64 << 20)
	for _, l := range c.logs {
		left += each * l.size
	}
	return func(w io.Writer) io.Writer { return &bounded{w: w, left: &left} }
}

// A bounded writer fails when too many bytes are written to it and those of the same bound.
type bounded struct {
	w    io.Writer
	left *int64
}

var errHuge = errors.New("it would be larger than the trace of a log of this size can be (no recorder writes " +
	"such a log)")

func (b *bounded) Write(p []byte) (int, error) {
	if *b.left -= int64(len(p)); *b.left < 0 {
		return 0, errHuge
	}
	return b.w.Write(p)
}

// outcome says how the recording of a log went. All of the log has been read.
func (c *conversion) outcome(name string) (o joined.Outcome) {
	for _, l := range c.logs {
		if l.Name == name {
			s := c.summary(l)
			o = joined.Outcome{
				First: l.clock.At(l.catalog.First()), ExitStatus: s.ExitStatus, Complete: s.Complete, Lacks: s.Damaged ||
					s.LostTotal() > 0, Reasons: s.Reasons,
			}
			o.Last = o.First + s.DurationNS
			for _, n := range s.Lost {
				o.Lost += n
			}
		}
	}
	return o
}
