package convert

import (
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A sizedWindow is a window with the size of its part.
type sizedWindow struct {
	partWindow
	bytes int64 // -1 when not known
}

// divideBySize finds windows whose parts have at most a number of bytes: it guesses them, makes the
// parts without writing them, and halves those that are too large.
func divideBySize(logs []Log, o TraceOptions, start, last uint64) ([]partWindow, error) {
	o.Progress = nil
	whole := []sizedWindow{{always, -1}}
	d := newDensity(start, last)
	if err := measureParts(logs, o, whole, d); err != nil {
		return nil, err
	}
	if whole[0].bytes <= o.Split.Bytes {
		return []partWindow{always}, nil
	}
	windows := unknown(d.divide(always, uint64(math.Ceil(float64(whole[0].bytes)/(fitMargin*float64(o.Split.Bytes))))))
	for {
		if len(windows) > mostParts {
			return nil, partsError{uint64(len(windows))}
		}
		if err := measureParts(logs, o, windows, nil); err != nil {
			return nil, err
		}
		smaller, err := d.halve(windows, o.Split.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", logs[0].Name, err)
		}
		if len(smaller) == len(windows) {
			return windowsOf(windows), nil
		}
		windows = smaller
	}
}

func unknown(list []partWindow) (sized []sizedWindow) {
	for _, w := range list {
		sized = append(sized, sizedWindow{w, -1})
	}
	return sized
}

func windowsOf(sized []sizedWindow) (list []partWindow) {
	for _, w := range sized {
		list = append(list, w.partWindow)
	}
	return list
}

// measureParts makes the parts whose sizes are not known, without writing them. All events go to a
// density, too, if there is one.
func measureParts(logs []Log, o TraceOptions, windows []sizedWindow, d *density) error {
	for {
		var batch []*sizedWindow
		for i := range windows {
			if windows[i].bytes < 0 && len(batch) < partsAtOnce {
				batch = append(batch, &windows[i])
			}
		}
		if len(batch) == 0 {
			return nil
		}
		p := &partWriter{options: o, density: d}
		limits := make([]output.Limit, len(batch))
		for i, w := range batch {
			p.windows, limits[i].Most = append(p.windows, w.partWindow), math.MaxInt64
		}
		p.create = func(part int) (io.Writer, error) { return &limits[part], nil }
		if _, _, err := p.write(logs); err != nil {
			return err
		}
		for i, w := range batch {
			w.bytes = limits[i].Written
		}
	}
}

// halve halves the windows whose parts are too large.
func (d *density) halve(windows []sizedWindow, most int64) (all []sizedWindow, err error) {
	for _, w := range windows {
		if w.bytes <= most {
			all = append(all, w)
			continue
		}
		halves := d.divide(w.partWindow, 2)
		if len(halves) == 1 {
			return nil, fmt.Errorf("no part of it fits into %d bytes", most)
		}
		all = append(all, unknown(halves)...)
	}
	return all, nil
}

// A density counts the slices of a timeline by their beginning.
type density struct {
	start, last uint64
	width       uint64 // of a bucket
	buckets     [1 << 14]uint64
}

func newDensity(start, last uint64) *density {
	d := &density{start: start, last: max(start, last)}
	d.width = (d.last-d.start)/uint64(len(d.buckets)) + 1
	return d
}

func (d *density) countEvents(events []timeline.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Slices:
			for i := range e.List {
				d.count(e.List[i].Start)
			}
		case *timeline.WorkList:
			for i := range e.List {
				d.count(e.List[i].Start)
			}
		case *timeline.SpanBegin:
			d.count(e.Start)
		case *timeline.Instant:
			d.count(e.Start)
		}
	}
}

func (d *density) count(at uint64) {
	at = min(max(at, d.start), d.last)
	d.buckets[(at-d.start)/d.width]++
}

// before is about the number of slices that begin before a time.
func (d *density) before(at uint64) (n float64) {
	at = max(at, d.start) - d.start
	for i, in := range d.buckets {
		from := uint64(i) * d.width
		if at <= from {
			break
		}
		n += float64(in) * float64(min(at-from, d.width)) / float64(d.width)
	}
	return n
}

// divide divides a window into about n windows with about as many slices each; into one if there is
// no time in between.
func (d *density) divide(w partWindow, n uint64) []partWindow {
	from, to := max(w.From, d.start), min(w.To, timeline.End(d.last, 1))
	low, high := d.before(from), d.before(to)
	var borders []uint64
	for last := from; n > 1 && uint64(len(borders)) < min(n-1, mostParts); {
		want := low + (high-low)*float64(len(borders)+1)/float64(n)
		at := last + uint64(sort.Search(int(min(to-last, math.MaxInt64)), func(i int) bool { return d.before(last+uint64(i)) >= want }))
		if at <= last || at >= to {
			break
		}
		borders, last = append(borders, at), at
	}
	if middle := from + (to-from)/2; n > 1 && len(borders) == 0 && middle > from {
		borders = []uint64{middle}
	}
	return windowsBetween(w, borders)
}
