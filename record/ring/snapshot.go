package ring

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Held says which part of a recording a snapshot holds.
type Held struct {
	Last        time.Duration // that was asked for
	From, Until uint64        // ns of CLOCK_MONOTONIC
	Whole       bool          // nothing came before
}

// Time is the length of the part.
func (h Held) Time() time.Duration { return time.Duration(h.Until - min(h.From, h.Until)) }

// Short reports whether there was no room for the whole window.
func (h Held) Short() bool { return !h.Whole && h.Time() < h.Last }

// A Snapshot is a window of a recording that goes on.
type Snapshot struct {
	Held     Held
	Dropped  uint64 // definitions, notes, ranges and allocations that were too many to be kept
	ring     *Ring
	segments []*segment
	state    *state
	begin    tracelog.Clock // read when the first segment began
}

// Done lets go of the segments.
func (s *Snapshot) Done() { s.release(len(s.segments)) }

// release lets go of the first n segments.
func (s *Snapshot) release(n int) {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	for _, used := range s.segments[:n] {
		used.release()
	}
	s.segments = s.segments[n:]
}

// WriteTo writes the window to a log. why says what asked for it. The caller ends the log.
func (s *Snapshot) WriteTo(w *tracelog.Writer, why string) error {
	f := &tracelog.Filter{From: s.Held.From, To: s.Held.Until}
	e := &earlier{first: map[uint32]uint64{}, under: map[uint32]map[uint64]bool{}}
	for _, of := range s.segments {
		if err := s.foldBefore(of); err != nil {
			return err
		}
		if s.Held.Whole {
			continue
		}
		if err := e.calls(of, f); err != nil {
			return err
		}
	}
	s.writeState(w)
	if !s.Held.Whole { // else the calls are all there
		if err := s.state.memory.write(&memoryWindow{w: w, from: s.Held.From, until: s.Held.Until}, s.segments); err != nil {
			return err
		}
	}
	s.Dropped = s.state.dropped + s.state.memory.room.Dropped
	for len(s.segments) > 0 {
		if err := s.copy(s.segments[0], w, f, e); err != nil {
			return err
		}
		s.release(1) // its space on the disk may be needed for the next one
	}
	s.describe(w, why, e)
	return nil
}

// foldBefore adds the openings of a segment that lie before the window to the state.
func (s *Snapshot) foldBefore(of *segment) error {
	f := tracelog.Filter{Kinds: opens, To: s.Held.From}
	return s.state.read(of, f, func(b *tracelog.Block, i int) bool {
		times := b.Column("time")
		return times.At(i) < s.Held.From
	})
}

// writeState writes what lies before the window. It happened, as far as the log tells, when the window
// began.
func (s *Snapshot) writeState(w *tracelog.Writer) {
	from := s.Held.From
	begin := s.begin
	begin.Monotonic, begin.Realtime, begin.Boottime = from, begin.Realtime+from-begin.Monotonic, begin.Boottime+
		from-begin.Monotonic
	w.Add(&begin)
	for _, x := range s.state.definitions {
		s.define(w, x)
	}
	for _, n := range s.state.notes {
		n.Time = max(n.Time, from)
		w.Add(&n)
	}
	list := make([]opening, 0, len(s.state.open))
	for _, o := range s.state.open {
		if o.record != nil {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b opening) int { return int(int64(a.at - b.at)) })
	for _, o := range list {
		x := copied(o.record)
		switch x := x.(type) {
		case *tracelog.Marker:
			x.Time = from
		case *tracelog.MemoryPool:
			x.Time = from
		}
		x.AddTo(w)
	}
}

// define writes a definition. Its time is in the window.
func (s *Snapshot) define(w *tracelog.Writer, x tracelog.Record) {
	from := s.Held.From
	switch d := x.(type) {
	case *tracelog.Clock:
		if d.Monotonic < from || d.Monotonic > s.Held.Until {
			return
		}
	case *tracelog.Process:
		p := *d
		p.Start = max(p.Start, from)
		x = &p
	case *tracelog.Symbol:
		m := *d
		m.Time = max(m.Time, from)
		x = &m
	}
	x.AddTo(w)
}

// copy writes the records of a segment that are in the window.
func (s *Snapshot) copy(of *segment, w *tracelog.Writer, f *tracelog.Filter, e *earlier) error {
	r, err := of.open()
	if err != nil {
		return err
	}
	if err := r.Select(*f); err != nil {
		return err
	}
	for r.Next() {
		b := r.Block()
		l, x := schema.LayoutOf(b.Kind), tracelog.NewRecord(b.Kind)
		if l == nil || x == nil {
			continue
		}
		for i := range b.N {
			if l.Role == schema.Event && !f.Match(b, i) {
				continue
			}
			x.Read(b, i)
			if b.Kind.IsWork() && !s.Held.Whole {
				e.work(b, i)
			}
			s.addRecord(w, x)
		}
	}
	if n := r.Refused(); n > 0 {
		w.Add(&tracelog.Lost{Cause: tracelog.LostTime, Count: n})
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return err
	}
	return nil
}

// addRecord writes a record that is in the window, or has no time of its own.
func (s *Snapshot) addRecord(w *tracelog.Writer, x tracelog.Record) {
	from, until := s.Held.From, s.Held.Until
	switch x := x.(type) {
	case *tracelog.Flushed:
		return // the snapshot has all its records
	case *tracelog.Note:
		x.Time = min(max(x.Time, from), until)
	case *tracelog.Lost:
		if x.To != 0 && x.To < from || x.From > until {
			return
		}
	case *tracelog.ProcessEnd:
		if x.Time < from || x.Time > until {
			return
		}
		x.Kernels, x.Copies, x.Sets, x.APIs = 0, 0, 0, 0 // they count what came before, too
	}
	if isDefinition(x.Kind()) {
		s.define(w, x)
		return
	}
	x.AddTo(w)
}

// describe says what the log is.
func (s *Snapshot) describe(w *tracelog.Writer, why string, e *earlier) {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, m := range []tracelog.Meta{
		{Key: tracelog.MetaLast, Value: number(uint64(s.Held.Last))},
		{Key: tracelog.MetaLastHeld, Value: number(uint64(s.Held.Time()))},
		{Key: tracelog.MetaLastWhy, Value: why},
		{Key: tracelog.MetaLastEarlier, Value: number(e.found)},
	} {
		w.Add(&m)
	}
	if s.Held.Short() {
		w.Add(&tracelog.Meta{Key: tracelog.MetaLastShort, Value: "more did not fit"})
	}
	w.Add(&tracelog.Note{Time: s.Held.Until, Text: fmt.Sprintf("this log holds the last %s of the recording; reason: %s",
		figures.Duration(uint64(s.Held.Time())), why)})
}
