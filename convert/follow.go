package convert

import (
	"cmp"
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A GrowingLog is a log that a recorder is still writing. It passes its timeline to a sink, and holds what
// a conversion holds, and no more the longer the log is.
//
// Two readers follow the log. The first gives blocks to the catalog, the second, a step behind,
// gives the same blocks to the joiner: names stand mostly in front of what they name, and at most
// a step behind it. How far the order of events is known is what the log itself says (Flushed
// records), so that what has been handed on does not depend on when somebody looked.
type GrowingLog struct {
	first, second *tracelog.Reader
	catalog       *read.Catalog
	joiner        *join.Joiner
	gpus          read.Inventory
	pipe          *pipeline.Pipeline
	sink          timeline.Sink
	begun         bool
	known         uint64 // Until of the latest Known
	at            int64  // offset of the latest block of the second reader
}

// followPatience is the time, in ns, after which a call of a log that is followed is shown without its
// work.
const followPatience = 1e9

// followRows is the number of records that the first reader is ahead at most, but for the rest of a block.
const followRows = 1 << 14

// Follow begins to follow a log. open opens it; the log may end at any byte.
func Follow(open func() (*tracelog.Reader, error), sink timeline.Sink) (*GrowingLog, error) {
	f := &GrowingLog{catalog: read.NewFollowing(), sink: sink}
	var err error
	if f.first, err = follow(open); err != nil {
		return nil, err
	}
	if f.second, err = follow(open); err != nil {
		f.first.Close()
		return nil, err
	}
	f.pipe = pipeline.New(sink)
	f.joiner = join.New(f.catalog, f.pipe, join.Options{
		IDs: new(join.WorkIDs), Budget: join.DefaultBudget(), Patience: followPatience,
	})
	return f, nil
}

func follow(open func() (*tracelog.Reader, error)) (*tracelog.Reader, error) {
	r, err := open()
	if err == nil {
		if err = r.Follow(); err != nil {
			r.Close()
		}
	}
	return r, err
}

// Read reads what has been appended to the log, and hands on what is known by then. progress, unless it
// is nil, is called now and then with the offset up to which the log has been read. The error is one of
// reading the log, or a *SinkError.
func (f *GrowingLog) Read(progress func(at int64) error) error {
	for {
		blocks, err := f.lead()
		if err != nil {
			return err
		}
		if blocks == 0 {
			return f.flush()
		}
		if err := f.joinBlocks(blocks); err != nil {
			return err
		}
		if progress != nil {
			if err := progress(f.at); err != nil {
				return err
			}
		}
	}
}

// lead gives the next blocks to the catalog and returns their number.
func (f *GrowingLog) lead() (blocks int, err error) {
	for rows := 0; rows < followRows; {
		more, err := f.catalog.Next(f.first)
		switch {
		case err != nil:
			return blocks, err
		case !more:
			return blocks, failed(f.first)
		}
		blocks++
		rows += f.first.Block().N
	}
	return blocks, nil
}

// failed is a reader's error of the file; damage is none.
func failed(r *tracelog.Reader) error {
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return err
	}
	return nil
}

// joinBlocks gives the joiner the blocks that the catalog has.
func (f *GrowingLog) joinBlocks(blocks int) error {
	f.begin()
	gpus := len(f.gpus.List)
	if f.gpus.Number(f.catalog); len(f.gpus.List) > gpus {
		f.pipe.Emit(&timeline.GPUs{List: f.gpus.List})
	}
	f.joiner.Update()
	for range blocks {
		if !f.second.Next() {
			return cmp.Or(failed(f.second), fmt.Errorf("%s was changed while it was read", f.second.Name()))
		}
		b := f.second.Block()
		f.at = b.Offset
		if read.PlacementOf(b.Kind) != nil {
			f.joiner.Take(f.second)
		}
	}
	f.joiner.Advance()
	if known := f.catalog.Outcome.Known(); known > f.known {
		f.known = known
		f.pipe.Emit(&timeline.Known{Until: known})
	}
	return f.pipeError(f.pipe.Err())
}

// begin describes the recording, before all other events.
func (f *GrowingLog) begin() {
	if f.begun {
		return
	}
	f.begun = true
	at := f.catalog.Clocks.First
	f.pipe.Emit(&timeline.Recording{
		Monotonic: at.Monotonic, Realtime: at.Realtime, Boottime: at.Boottime, Start: f.catalog.First(),
		LastStart: f.catalog.First(),
	})
}

func (f *GrowingLog) flush() error { return f.pipeError(f.pipe.Flush()) }

func (f *GrowingLog) pipeError(err error) error {
	if err != nil {
		return &SinkError{err}
	}
	return nil
}

// Ended reports whether the log has its end: nothing more will be appended.
func (f *GrowingLog) Ended() bool {
	_, ended := f.first.End()
	return ended
}

// Close ends following: nothing more will be appended to the log. It hands on the rest and ends the
// sink. The error is the first of reading the log (damage is one) and of the sink.
func (f *GrowingLog) Close() error {
	err := f.Read(nil)
	f.first.StopFollowing()
	f.second.StopFollowing()
	if err == nil {
		err = f.Read(nil) // an unfinished block
	}
	if err == nil {
		f.joiner.Finish()
		err = f.first.Err()
	}
	err = cmp.Or(err, f.Abandon(err))
	return err
}

// Abandon ends following without what is left. cause is the error that is the reason, nil for none.
func (f *GrowingLog) Abandon(cause error) error {
	err := f.pipeError(f.pipe.Close())
	err = cmp.Or(err, f.pipeError(f.sink.End(cause)))
	return cmp.Or(err, f.first.Close(), f.second.Close())
}
