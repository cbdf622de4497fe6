package convert

import (
	"fmt"
	"io"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/outfile"
)

// UISlices is about the largest number of slices that Perfetto's UI loads. Its 32-bit engine takes 2.7 GB
// for 3.7 million, and 5.5 million end it.
const UISlices = 4_000_000

// fitAttempts bounds the trial conversions for a number of slices. The first one mostly fits: what is added at its
// border are ranges that go on and what shows that ranks wait.
const fitAttempts = 8

// fit converts logs into a trace of at most TraceOptions.MaxSlices: everything if it fits, else the newest or the
// longest part. The longest part has no states of threads: these have no gaps, so that short ones cannot go.
func fit(logs []Log, out *outfile.Target, o TraceOptions) ([]Summary, outfile.Done, error) {
	s, err := survey(logs, o)
	if err != nil {
		return nil, outfile.Done{}, err
	}
	if s.shown <= o.MaxSlices {
		return writeFitting(logs, out, o, "")
	}
	var best uint64
	low, high := uint64(0), s.count+1 // numbers that fit, and that do not
	want := min(s.count, o.MaxSlices)
	for range fitAttempts {
		limited, kept := s.keep(o, want)
		slices, seen, err := discard(logs, io.Discard, limited, kept)
		if err != nil {
			return nil, outfile.Done{}, err
		}
		if slices > o.MaxSlices {
			high = want
		} else if low = want; seen {
			best = want
		}
		if best == want && (slices == o.MaxSlices || !o.Longest && slices >= o.MaxSlices/10*9) {
			break
		}
		if want += o.MaxSlices; want-min(slices, want) <= low || want-slices >= high {
			want = low + (high-low)/2
		} else {
			want -= slices
		}
		if want == low {
			break
		}
	}
	if best == 0 {
		return nil, outfile.Done{}, fmt.Errorf("%s: no part of it fits into %s", logs[0].Name,
			figures.Count(o.MaxSlices, "slice", "slices"))
	}
	limited, kept := s.keep(o, best)
	return writeFitting(logs, out, limited, kept)
}

// discard writes a trace, all files of it, to w, which keeps nothing. It returns the number of its slices and whether
// it has anything to see.
func discard(logs []Log, w io.Writer, o TraceOptions, kept string) (slices uint64, seen bool, err error) {
	o.Progress = nil
	c := newConversion(logs, o.Options)
	c.kept = kept
	if err := c.read(); err != nil {
		return 0, false, err
	}
	all, err := c.write(o, func(string) (io.Writer, error) { return w, nil })
	if err != nil {
		return 0, false, err
	}
	return all[0].Slices, !c.empty(), nil
}

func writeFitting(logs []Log, out *outfile.Target, o TraceOptions, kept string) ([]Summary, outfile.Done, error) {
	c := newConversion(logs, o.Options)
	c.kept = kept
	if err := c.read(); err != nil {
		return nil, outfile.Done{}, err
	}
	return c.file(out, o)
}

// A surveyed is what is known of the slices of a whole trace.
type surveyed struct {
	shown   uint64            // slices
	count   uint64            // those of which a number can be chosen
	lengths selection.Lengths // for the longest part
	threads string            // says that what threads do goes, if there is anything of it
	ends    *endings          // for the newest part; nil for the longest
}

// survey makes the whole trace, which it does not write.
func survey(logs []Log, o TraceOptions) (*surveyed, error) {
	s := &surveyed{}
	if !o.Longest {
		return s, s.findEnds(logs, o, o.MaxSlices)
	}
	var states stateCount
	o.lengths, o.Beside = &s.lengths, &states
	var err error
	if s.shown, _, err = discard(logs, io.Discard, o, ""); err != nil {
		return nil, err
	}
	if s.count = s.lengths.Count; states > 0 {
		s.threads = ", without what threads do outside of calls"
	}
	return s, nil
}

// findEnds learns when slices end: most exactly around the time after which the wanted number ends.
func (s *surveyed) findEnds(logs []Log, o TraceOptions, want uint64) error {
	var end uint64
	for _, l := range logs {
		begin, last, err := (&log{Log: l}).extent(true)
		if err != nil {
			return err
		}
		end = max(end, last-min(last, begin))
	}
	for from, to := uint64(0), end+1; ; {
		s.ends = &endings{end: end, from: from, width: (to-from)/buckets + 1}
		o.Beside = s.ends
		var err error
		if s.shown, _, err = discard(logs, io.Discard, o, ""); err != nil {
			return err
		}
		s.count = s.ends.count
		at := s.ends.border(want)
		if s.shown <= want || s.ends.width == 1 || at < 0 || s.ends.in[at] <= max(want/64, 1) {
			return nil
		}
		from = s.ends.from + uint64(at)*s.ends.width
		to = from + s.ends.width
	}
}

// keep makes a filter that selects a number of slices, and describes what it keeps.
func (s *surveyed) keep(o TraceOptions, n uint64) (TraceOptions, string) {
	if s.ends != nil {
		from := duration(s.ends.since(n))
		o.Filter.From = max(o.Filter.From, from)
		return o, fmt.Sprintf("kept the newest %s",
			(duration(s.ends.end) - min(from, duration(s.ends.end))).Round(time.Microsecond))
	}
	b := s.lengths.Longest(n)
	o.border, o.withoutThreads = b, true
	if b.To == 0 {
		return o, "kept all calls and GPU work" + s.threads
	}
	shortest := b.To
	if b.Some > 0 {
		shortest = b.From
	}
	o.Filter.MinDuration = max(o.Filter.MinDuration, time.Duration(shortest))
	kept := fmt.Sprintf("kept what lasts %s and longer", o.Filter.MinDuration)
	if b.Some > 0 {
		kept += fmt.Sprintf(" (of the %s shortest the first %s)", figures.Group(b.Of), figures.Group(b.Some))
	}
	return o, kept + s.threads
}

// buckets is the number of parts of a time in which endings are counted.
const buckets = 1 << 14

// endings count what ends in a trace by its end, in ns from the start of the recording.
type endings struct {
	end         uint64 // of the recording
	start       uint64 // of the recording, on the trace's clock
	from, width uint64 // of the first bucket
	in          [buckets]uint64
	behind      uint64 // ends behind the last bucket
	count       uint64
}

func (e *endings) add(at uint64) {
	at -= min(at, e.start)
	e.count++
	switch {
	case at >= e.from+buckets*e.width:
		e.behind++
	case at >= e.from:
		e.in[(at-e.from)/e.width]++
	}
}

// border returns the last bucket at whose beginning more than a number of slices are still to end; -1 for none.
func (e *endings) border(n uint64) int {
	after := e.behind
	for i := buckets - 1; i >= 0; i-- {
		if after += e.in[i]; after > n {
			return i
		}
	}
	return -1
}

// since is the earliest known time after which at most a number of slices ends.
func (e *endings) since(n uint64) uint64 { return e.from + uint64(e.border(n)+1)*e.width }

// Take counts what has an end. A range whose end is not known yet counts where it ends.
func (e *endings) Take(events []timeline.Event) error {
	for _, event := range events {
		switch event := event.(type) {
		case *timeline.Recording:
			e.start = event.Start
		case *timeline.Slices:
			for i := range event.List {
				e.add(event.List[i].End)
			}
		case *timeline.WorkList:
			for i := range event.List {
				e.add(timeline.End(event.List[i].Start, event.List[i].Dur))
			}
		case *timeline.States:
			for i := range event.List {
				e.add(event.List[i].End)
			}
		case *timeline.SpanEnd:
			e.add(event.End)
		case *timeline.Instant:
			e.add(event.Start)
		}
	}
	return nil
}

func (*endings) End(err error) error { return err }

// A stateCount counts the states and samples of threads.
type stateCount uint64

func (n *stateCount) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.States:
			*n += stateCount(len(e.List))
		case *timeline.StackSamples:
			*n += stateCount(len(e.List))
		}
	}
	return nil
}

func (*stateCount) End(err error) error { return err }
