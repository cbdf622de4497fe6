package convert

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/cudatrace/cudatrace/convert/catalog"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxAttempts bounds the conversions that are tried to fit a size.
const maxAttempts = 8

// fitMargin is the part of the size that an attempt aims at.
const fitMargin = 0.92

// fit converts logs into a trace of at most TraceOptions.MaxBytes: with everything if
// that fits, else with the newest or the longest.
func fit(paths []string, out string, o TraceOptions) ([]Summary, error) {
	s, err := survey(paths, o)
	if err != nil {
		return nil, err
	}
	least, most := 0.0, 1.0 // shares of the records: the larger of those that fit, the smaller of those that don't
	share := min(1, fitMargin*float64(o.MaxBytes)/(s.records*bytesPerRecord(o.Compress)))
	for range maxAttempts {
		limited, kept := s.limit(o, share)
		size, err := measure(paths, limited)
		switch {
		case err != nil && !errors.Is(err, output.ErrTooLarge):
			return nil, err
		case err == nil && (share == 1 || float64(size) > 0.75*float64(o.MaxBytes) || most-least < 0.02):
			return writeFitting(paths, out, limited, kept)
		case err == nil:
			least = share
			share = min(share*fitMargin*float64(o.MaxBytes)/float64(size), least+0.9*(most-least))
			if most == 1 && s.whole(share) {
				share = 1
			}
		default:
			most = share
			share = least + (most-least)/2
		}
	}
	if least == 0 {
		return nil, fmt.Errorf("%s: no part of it fits into %d bytes", paths[0], o.MaxBytes)
	}
	limited, kept := s.limit(o, least)
	return writeFitting(paths, out, limited, kept)
}

// bytesPerRecord is about what a record takes in a trace.
func bytesPerRecord(c output.Compression) float64 {
	if c == output.None {
		return 75
	}
	return 8
}

// measure is the size of a trace that is not written.
func measure(paths []string, o TraceOptions) (int64, error) {
	o.Progress = nil
	limit := &output.Limit{Most: o.MaxBytes}
	_, err := toTrace(Paths(paths), limit, o)
	if limit.Written > limit.Most {
		err = output.ErrTooLarge
	}
	return limit.Written, err
}

func writeFitting(paths []string, out string, o TraceOptions, kept string) ([]Summary, error) {
	c := newConversion(Paths(paths), o.Options)
	c.kept = kept
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.file(out, o.Compress)
}

// A surveyed says how the records of logs lie in time, or how long they last.
type surveyed struct {
	records   float64
	longest   bool
	end       uint64
	blocks    []tracelog.IndexEntry
	durations [durationBuckets]uint64
}

// durationBuckets are four for each power of two.
const durationBuckets = 64 * 4

func bucket(d uint64) int {
	if d < 4 {
		return int(d)
	}
	n := bits.Len64(d)
	return 4*(n-2) + int(d>>(n-3)&3)
}

// bucketStart is the shortest duration of a bucket.
func bucketStart(i int) uint64 {
	if i < 4 {
		return uint64(i)
	}
	return uint64(4+i%4) << (i/4 - 1)
}

// survey reads the index of the first log, which says when its records are; or for the
// longest, all calls and work of all logs.
func survey(paths []string, o TraceOptions) (*surveyed, error) {
	s := &surveyed{longest: o.Longest}
	if !s.longest {
		return s, s.times(paths, &o.Filter)
	}
	for _, path := range paths {
		r, err := tracelog.Open(path)
		if err != nil {
			return nil, err
		}
		for r.Next() {
			s.lasting(r.Block())
		}
		err = r.Err()
		r.Close()
		if err != nil && !tracelog.IsDamage(err) {
			return nil, err
		}
	}
	s.records = max(s.records, 1)
	return s, nil
}

func (s *surveyed) lasting(b *tracelog.Block) {
	p := catalog.PlacementOf(b.Kind)
	if p == nil || p.Dur == "" {
		return
	}
	durs := b.Column(p.Dur)
	for i := range b.N {
		s.durations[bucket(durs.At(i))]++
	}
	s.records += float64(b.N)
}

// times takes what there is when from the logs; each log's times are its own.
func (s *surveyed) times(paths []string, f *Filter) error {
	for _, path := range paths {
		l := &log{Log: Path(path)}
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

// clip makes the times of a block those into the recording, and of a block of which only
// a part lies in a span of that time this part. It reports whether there is any.
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

// blocksOf are the blocks of events of a log, by its index or else by reading it.
func blocksOf(r *tracelog.Reader) (list []tracelog.IndexEntry, err error) {
	if x, err := r.Index(); err == nil {
		for _, b := range x.Blocks {
			if catalog.PlacementOf(b.Kind) != nil && b.From > 0 {
				list = append(list, b)
			}
		}
		return list, nil
	}
	for r.Next() {
		b := r.Block()
		if catalog.PlacementOf(b.Kind) != nil {
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

// whole says whether a share is as good as everything.
func (s *surveyed) whole(share float64) bool { return share > 0.98 }

// limit makes a filter that takes about a share of the records, and says which.
func (s *surveyed) limit(o TraceOptions, share float64) (TraceOptions, string) {
	switch {
	case share >= 1:
	case s.longest:
		shortest := s.shortest(share)
		o.Filter.MinDuration = max(o.Filter.MinDuration, time.Duration(shortest))
		return o, fmt.Sprintf("kept what lasts %s and longer", o.Filter.MinDuration)
	default:
		from := s.since(share)
		o.Filter.From = max(o.Filter.From, duration(from))
		return o, fmt.Sprintf("kept the newest %s", duration(s.end-min(s.end, from)).Round(time.Microsecond))
	}
	return o, ""
}

// shortest is the duration that a share of the records reaches.
func (s *surveyed) shortest(share float64) uint64 {
	taken := 0.0
	for i := durationBuckets - 1; i > 0; i-- {
		taken += float64(s.durations[i])
		if taken > share*s.records {
			return bucketStart(i + 1)
		}
	}
	return 0
}

// since is the time behind which a share of the records lies.
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

// after is about how many records end after a time.
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
