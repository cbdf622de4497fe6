package read

import (
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An Opener opens a log. A conversion opens a log several times.
type Opener func() (*tracelog.Reader, error)

// Readers read different kinds of event side by side, so that records of one time are read
// together, however far apart they are in the file.
type Readers struct{ list []*reader }

// A reader reads the events of some kinds.
type reader struct {
	*tracelog.Reader
	at uint64 // latest start of a block so far
}

// OpenReaders opens readers for the events that a filter selects among the contents of a log; a nil
// filter selects all.
func OpenReaders(open Opener, contents *tracelog.Contents, filter *tracelog.Filter) (*Readers, error) {
	rs := &Readers{}
	for _, kinds := range readTogether() {
		if !contents.Have(kinds...) {
			continue
		}
		if err := rs.openLog(open, contents, kinds, filter); err != nil {
			rs.Close()
			return nil, err
		}
	}
	return rs, nil
}

func (rs *Readers) openLog(open Opener, contents *tracelog.Contents, kinds []tracelog.Kind,
	filter *tracelog.Filter) error {
	r, err := open()
	if err != nil {
		return err
	}
	rs.list = append(rs.list, &reader{Reader: r})
	var f tracelog.Filter
	if filter != nil {
		f = *filter
	}
	f.Kinds = kinds
	if err := r.Reread(contents, f); err != nil {
		return err
	}
	r.Parallel(1)
	return nil
}

// Close closes the readers.
func (rs *Readers) Close() {
	for _, r := range rs.list {
		r.Close()
	}
}

// Next has the reader that is furthest behind read a block of events, and returns that reader;
// nil at the end of the log.
func (rs *Readers) Next() *tracelog.Reader {
	for {
		var behind *reader
		for _, r := range rs.list {
			if r.at != timeline.Never && (behind == nil || r.at < behind.at) {
				behind = r
			}
		}
		if behind == nil {
			return nil
		}
		if !behind.Next() {
			behind.at = timeline.Never
			continue
		}
		b := behind.Block()
		if p := PlacementOf(b.Kind); p != nil {
			starts := b.Column(p.Start)
			behind.at = min(max(behind.at, starts.At(0)), timeline.Never-1)
			return behind.Reader
		}
	}
}

// Err returns the first error of reading the file.
func (rs *Readers) Err() error {
	for _, r := range rs.list {
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Share is the part of the time from first to last that all readers have passed. (The number of
// bytes says little, since each reader reads only its own kinds.)
func (rs *Readers) Share(first, last uint64) float64 {
	behind := timeline.Never
	for _, r := range rs.list {
		behind = min(behind, r.at)
	}
	done, all := min(behind, last)-min(behind, last, first), last-min(last, first)
	return float64(done) / math.Max(1, float64(all))
}
