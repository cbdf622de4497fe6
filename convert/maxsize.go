package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/read"
	"github.com/cudatrace/cudatrace/convert/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/outfile"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// UISlices is about the largest number of slices that Perfetto's UI loads. Its 32-bit engine takes 2.7 GB
// for 3.7 million, and 5.5 million end it.
const UISlices = 4_000_000

// maxAttempts bounds the number of trial conversions of a large log for a size limit.
const maxAttempts = 8

// attempts is the number of trial conversions for a size limit: the fewer records there are, the more. A short
// program's records can all lie in a thousandth of its recording, where a share says little.
func (s *surveyed) attempts() int {
	const records, most = 1_000_000, 40
	return int(min(max(records/s.records, maxAttempts), most))
}

// fitMargin is the share of the limit at which a trial conversion aims.
const fitMargin = 0.92

// fit converts logs into a trace of at most TraceOptions.MaxBytes and TraceOptions.MaxSlices:
// everything if it fits, else the newest or the longest part. The longest part has no states of threads: these have no gaps,
// so that short ones cannot go.
func fit(logs []Log, out *outfile.Target, o TraceOptions) ([]Summary, outfile.Done, error) {
	s, err := survey(logs, o)
	if err != nil {
		return nil, outfile.Done{}, err
	}
	switch {
	case s.longest && o.MaxBytes == 0 && s.shown <= o.MaxSlices:
		return writeFitting(logs, out, o, "")
	case s.longest && o.MaxBytes == 0:
		return s.fitLongest(logs, out, o)
	}
	attempts := s.attempts()
	least, most := 0.0, 1.0 // shares of the records: the largest that fitted, the smallest that did not
	share := min(1, fitMargin/o.fill(s.records*bytesPerRecord(o), s.records))
	if share > 0.75 || attempts > maxAttempts {
		share = 1 // everything may fit
	}
	fits := 0.0 // the largest share that fitted and has something to see
	for range attempts {
		limited, kept := s.limit(o, share)
		fill, seen, err := measure(logs, limited, kept)
		switch {
		case err != nil && !errors.Is(err, output.ErrTooLarge):
			return nil, outfile.Done{}, err
		case err != nil:
			most = share
			share = least + (most-least)/2
		case share == 1:
			return writeFitting(logs, out, limited, kept)
		case !seen:
			least = share
			share += (most - least) / 2
		case fill > 0.75 || attempts == maxAttempts && most-least < 0.02:
			return writeFitting(logs, out, limited, kept)
		default:
			least, fits = share, share
			share = min(share*fitMargin/fill, least+0.9*(most-least))
		}
		if most == 1 && s.whole(share) {
			share = 1
		}
	}
	if fits == 0 {
		return nil, outfile.Done{}, fmt.Errorf("%s: no part of it fits into %s", logs[0].Name, o.limit())
	}
	limited, kept := s.limit(o, fits)
	return writeFitting(logs, out, limited, kept)
}

// fitLongest converts logs into a trace of exactly TraceOptions.MaxSlices, the longest ones, or of all slices if there are fewer. Some slices have no length of their
// own: notes, and what shows that ranks wait for each other. Their number depends on what is shown.
func (s *surveyed) fitLongest(logs []Log, out *outfile.Target, o TraceOptions) ([]Summary, outfile.Done, error) {
	const attempts = 8
	var best uint64
	fits := false
	want := min(s.lengths.Count, o.MaxSlices)
	for range attempts {
		limited, kept := s.keep(o, want)
		limited.MaxSlices = 0
		slices, seen, err := discard(logs, io.Discard, limited, kept)
		if err != nil {
			return nil, outfile.Done{}, err
		}
		if slices <= o.MaxSlices && seen && (!fits || want > best) {
			best, fits = want, true
		}
		if slices == o.MaxSlices || slices < o.MaxSlices && want == s.lengths.Count {
			break
		}
		next := want + o.MaxSlices - min(slices, want+o.MaxSlices)
		if next = min(next, s.lengths.Count); next == want {
			break
		}
		want = next
	}
	if !fits {
		return nil, outfile.Done{}, fmt.Errorf("%s: no part of it fits into %s", logs[0].Name, o.limit())
	}
	limited, kept := s.keep(o, best)
	return writeFitting(logs, out, limited, kept)
}

// limited reports whether the trace has a largest size.
func (o *TraceOptions) limited() bool { return o.MaxBytes > 0 || o.MaxSlices > 0 }

// fill is the share of the limit that a trace takes.
func (o *TraceOptions) fill(bytes, slices float64) (share float64) {
	if o.MaxBytes > 0 {
		share = bytes / float64(o.MaxBytes)
	}
	if o.MaxSlices > 0 {
		share = max(share, slices/float64(o.MaxSlices))
	}
	return share
}

// limit is the limit in words.
func (o *TraceOptions) limit() string {
	var words []string
	if o.MaxBytes > 0 {
		words = append(words, fmt.Sprintf("%d bytes", o.MaxBytes))
	}
	if o.MaxSlices > 0 {
		words = append(words, figures.Count(o.MaxSlices, "slice", "slices"))
	}
	return strings.Join(words, " and ")
}

// bytesPerRecord is the approximate size of a record in a trace.
func bytesPerRecord(o TraceOptions) float64 {
	if o.Compress == output.None {
		return o.format().plain
	}
	return o.format().compressed
}

// measure returns the share of the limit that a trace takes, without writing it, and whether it has anything to
// see. The trace says what was kept.
func measure(logs []Log, o TraceOptions, kept string) (fill float64, seen bool, err error) {
	o.Progress = nil
	limit := &output.Limit{Most: cmp.Or(o.MaxBytes, math.MaxInt64)}
	slices, seen, err := discard(logs, limit, o, kept)
	if limit.Written > limit.Most {
		err = output.ErrTooLarge
	}
	return o.fill(float64(limit.Written), float64(slices)), seen, err
}

// discard writes a trace, all files of it, to w, and returns the number of its slices and whether the trace has
// anything to see.
func discard(logs []Log, w io.Writer, o TraceOptions, kept string) (slices uint64, seen bool, err error) {
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

// A surveyed holds the distribution of the records of logs over time, or of slices over their lengths.
type surveyed struct {
	records float64
	longest bool
	end     uint64
	blocks  []tracelog.IndexEntry
	lengths selection.Lengths
	shown   uint64 // slices of the whole trace
	threads string // says that what threads do goes, if there is anything of it
}

// survey reads the index of each log for the times of its records. For the longest part it makes the whole trace, which it does not write.
func survey(logs []Log, o TraceOptions) (*surveyed, error) {
	s := &surveyed{longest: o.Longest}
	if !s.longest {
		return s, s.times(logs, &o.Filter)
	}
	o.lengths, o.MaxBytes, o.MaxSlices = &s.lengths, 0, 0
	var states stateCount
	o.Beside, o.Progress = &states, nil
	var err error
	if s.shown, _, err = discard(logs, io.Discard, o, ""); err != nil {
		return nil, err
	}
	if states > 0 {
		s.threads = ", without what threads do outside of calls"
	}
	s.records = max(float64(s.lengths.Count), 1)
	return s, nil
}

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

// times adds the times of the logs' blocks; each log has times of its own.
func (s *surveyed) times(logs []Log, f *Filter) error {
	for _, given := range logs {
		l := &log{Log: given}
		begin, last, err := l.extent(true)
		if err != nil {
			return err
		}
		r, err := l.Open()
		if err != nil {
			return err
		}
		blocks, err := blocksOf(r)
		r.Close()
		if err != nil {
			return err
		}
		from, to := uint64(f.From), last-min(last, begin)
		if f.Last > 0 {
			from = max(from, to-min(to, uint64(f.Last)))
		}
		if f.To > 0 {
			to = min(to, uint64(f.To))
		}
		for _, b := range blocks {
			if b, ok := clip(b, begin, from, to); ok {
				s.blocks = append(s.blocks, b)
				s.records += float64(b.Rows)
			}
		}
		s.end = max(s.end, to)
	}
	s.records = max(s.records, 1)
	return nil
}

// clip shifts the times of a block to times from the start of the recording, and cuts the block
// to a span of time. It reports whether anything of the block is left.
func clip(b tracelog.IndexEntry, begin, from, to uint64) (tracelog.IndexEntry, bool) {
	b.From, b.To = b.From-min(b.From, begin), b.To-min(b.To, begin)
	first, last := max(b.From, from), min(b.To, to)
	if first > last {
		return b, false
	}
	if all := b.To - b.From; all > 0 {
		b.Rows = max(1, uint64(float64(b.Rows)*float64(last-first)/float64(all)))
	}
	b.From, b.To = first, last
	return b, true
}

// blocksOf returns the blocks of events of a log, from its index or else by reading the log.
func blocksOf(r *tracelog.Reader) (list []tracelog.IndexEntry, err error) {
	if x, err := r.Index(); err == nil {
		for _, b := range x.Blocks {
			if read.PlacementOf(b.Kind) != nil && b.From > 0 {
				list = append(list, b)
			}
		}
		return list, nil
	}
	for r.Next() {
		b := r.Block()
		if read.PlacementOf(b.Kind) != nil {
			if from, to := b.Time(); from > 0 {
				list = append(list, tracelog.IndexEntry{Kind: b.Kind, Rows: uint64(b.N), From: from, To: to})
			}
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return nil, err
	}
	return list, nil
}

// whole reports whether a share is nearly everything.
func (s *surveyed) whole(share float64) bool { return share > 0.98 }

// limit makes a filter that selects about a share of the records. It returns a description of
// that part.
func (s *surveyed) limit(o TraceOptions, share float64) (TraceOptions, string) {
	switch {
	case share >= 1:
	case s.longest:
		return s.keep(o, uint64(share*s.records))
	default:
		from := s.since(share)
		o.Filter.From = max(o.Filter.From, duration(from))
		return o, fmt.Sprintf("kept the newest %s", duration(s.end-min(s.end, from)).Round(time.Microsecond))
	}
	return o, ""
}

// keep makes a filter that selects a number of the longest slices.
func (s *surveyed) keep(o TraceOptions, n uint64) (TraceOptions, string) {
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

// since is the time after which a share of the records ends.
func (s *surveyed) since(share float64) uint64 {
	least, most := uint64(0), s.end
	for least < most {
		at := least + (most-least)/2
		if s.after(at) > share*s.records {
			least = at + 1
		} else {
			most = at
		}
	}
	return least
}

// after is the approximate number of records that end after a time.
func (s *surveyed) after(at uint64) (n float64) {
	for i := range s.blocks {
		switch b := &s.blocks[i]; {
		case b.From >= at:
			n += float64(b.Rows)
		case b.To > at:
			n += float64(b.Rows) * float64(b.To-at) / float64(b.To-b.From)
		}
	}
	return n
}
