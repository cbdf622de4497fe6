package convert

import (
	"fmt"
	"io"
	"time"

	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/outfile"
)

// A Split divides a trace into parts that each open by themselves. The zero Split makes one trace.
type Split struct {
	Every time.Duration // length of a part
	Bytes int64         // the largest size of a part
	Name  string        // of the parts, before their numbers
}

// Wanted reports whether there are parts to make.
func (s *Split) Wanted() bool { return s.Every > 0 || s.Bytes > 0 }

const (
	// partsAtOnce is the number of parts that one reading of the logs writes. Each takes some MiB of
	// memory.
	partsAtOnce = 8

	// mostParts bounds the parts, whose files are all open until the last one is whole.
	mostParts = 256
)

// A partsError is a division into more than mostParts.
type partsError struct{ n uint64 }

func (e partsError) Error() string {
	return fmt.Sprintf("it would be %s parts, more than %d: make them larger", figures.Group(e.n), mostParts)
}

// splitFiles writes the parts of a trace, with the names of the windows' numbers. A window without
// events has no file. A single part is the trace itself.
func splitFiles(logs []Log, out *outfile.Target, o TraceOptions) (all []Summary, done outfile.Done, err error) {
	windows, err := divide(logs, o)
	if err != nil {
		return nil, done, err
	}
	var failed error // to convert
	done, err = output.Files(out, func(create output.Creator) (err error) {
		seen, slices := false, uint64(0)
		batches := uint64(len(windows)+partsAtOnce-1) / partsAtOnce
		for i := range batches {
			first := int(i * partsAtOnce)
			p := &partWriter{windows: windows[first:min(first+partsAtOnce, len(windows))], options: o, create: func(part int) (io.Writer, error) {
				return create(fmt.Sprintf("%s.%03d%s", o.Split.Name, first+part+1, o.format().Suffix(o.Compress)))
			}}
			p.options.Progress = batchProgress(o.Progress, float64(i), float64(batches))
			var any bool
			if all, any, err = p.write(logs); err != nil {
				if !isSinkError(err) {
					failed = err
				}
				return err
			}
			seen, slices = seen || any, slices+all[0].Slices
		}
		for i := range all {
			all[i].Slices = slices
		}
		if o.Filter.limits() && !seen {
			failed = ErrNothing
		}
		return failed
	})
	if failed != nil {
		return nil, done, failed
	}
	return all, done, err
}

// batchProgress makes the progress of one of several readings that of all.
func batchProgress(of func(float64, uint64), i, n float64) func(float64, uint64) {
	if of == nil {
		return nil
	}
	return func(share float64, slices uint64) { of((i+share)/n, slices) }
}

// A partWriter writes some parts of a trace in one reading of the logs.
type partWriter struct {
	windows []partWindow
	options TraceOptions
	create  func(part int) (io.Writer, error) // called once for each part that has events

	*partsSink
	sinks   []counting
	density *density // takes the events, too; nil for none
}

// Take passes events on.
func (p *partWriter) Take(events []timeline.Event) error {
	if p.density != nil {
		p.density.countEvents(events)
	}
	return p.partsSink.Take(events)
}

// Slices is the number of slices in all parts.
func (p *partWriter) Slices() (n uint64) {
	for _, s := range p.sinks {
		n += s.Slices()
	}
	return n
}

// write reads the logs. It returns whether the parts have anything to see.
func (p *partWriter) write(logs []Log) (all []Summary, seen bool, err error) {
	c := newConversion(logs, p.options.Options)
	if err := c.read(); err != nil {
		return nil, false, err
	}
	files := c.newFiles(&p.options)
	p.partsSink = newPartsSink(p.windows, func(part int) (timeline.Sink, error) {
		s, err := p.options.format().new(c, &p.options, files.creator(func(string) (io.Writer, error) { return p.create(part) }))
		if err != nil {
			return nil, err
		}
		p.sinks = append(p.sinks, s)
		return s, nil
	})
	all, err = c.watch(p, 0)
	return all, c.seen, files.close(err)
}

// always is the window of a whole trace.
var always = partWindow{To: timeline.Never}

// divide finds the windows of the parts.
func divide(logs []Log, o TraceOptions) ([]partWindow, error) {
	c := newConversion(logs, o.Options)
	c.Progress = func(float64, uint64) {}
	if err := c.read(); err != nil {
		return nil, err
	}
	r, err := c.align()
	if err != nil {
		return nil, err
	}
	start, last := r.Start, uint64(0)
	for _, l := range c.logs {
		last = max(last, l.clock.At(l.catalog.Last()))
	}
	if o.Split.Bytes > 0 {
		return divideBySize(logs, o, start, last)
	}
	every := uint64(o.Split.Every)
	n := (last-min(last, start))/every + 1
	if n > mostParts {
		return nil, partsError{n}
	}
	var borders []uint64
	for i := range n - 1 {
		borders = append(borders, start+(i+1)*every)
	}
	return windowsBetween(always, borders), nil
}

// windowsBetween divides a window at some borders.
func windowsBetween(w partWindow, borders []uint64) []partWindow {
	list := []partWindow{w}
	for _, b := range borders {
		list[len(list)-1].To = b
		list = append(list, partWindow{From: b, To: w.To})
	}
	return list
}
