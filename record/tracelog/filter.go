package tracelog

import (
	"math"
	"slices"
	"sort"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Filter says which records are wanted; the zero Filter wants all. A record is
// wanted when each limit that is set lets it pass:
//
//   - Kinds: its kind is one of them.
//   - PIDs, TIDs: its process or thread is one of them. Kinds without a process or
//     thread pass, and so does 0, "not known".
//   - Devices, Streams: its device or stream is one of them. Only events of the program
//     are limited. Events without a device or stream pass, such as calls.
//   - From and To, ns of CLOCK_MONOTONIC: one of its times lies between them, or the first
//     with its duration overlaps them. To 0 is no limit. Only events of the program are
//     limited: definitions (a process, a function, a stream) and statements about the
//     recording (a loss, a note) pass at any time, and so do the kinds in Anytime. An event
//     without a known time does not pass.
//   - Times: the same, for at least one of them. They lie within From and To, which are set, in order, and do not
//     overlap.
type Filter struct {
	From, To uint64
	Times    []Time
	Anytime  []Kind // From and To do not limit these kinds
	Kinds    []Kind
	PIDs     []uint32
	TIDs     []uint32
	Devices  []uint32
	Streams  []uint32
}

// A Time is from one time to another, both of which belong to it.
type Time struct{ From, To uint64 }

// limitsTime reports whether the filter limits the time of a kind of record.
func (f *Filter) limitsTime(k Kind) bool {
	return (f.From > 0 || f.To > 0) && !slices.Contains(f.Anytime, k)
}

// until is the end of the wanted time.
func (f *Filter) until() uint64 {
	if f.To == 0 {
		return math.MaxUint64
	}
	return f.To
}

// touches reports whether a time is wanted. 0 stands for no time and is not.
func (f *Filter) touches(from, to uint64) bool {
	switch to = max(from, to); {
	case from == 0 || from > f.until() || to < f.From:
		return false
	case len(f.Times) == 0:
		return true
	}
	i := sort.Search(len(f.Times), func(i int) bool { return f.Times[i].To >= from })
	return i < len(f.Times) && f.Times[i].From <= to
}

// entry reports whether a block can have wanted records, by its entry in the index.
func (f *Filter) entry(e *IndexEntry) bool {
	l := schema.LayoutOf(e.Kind)
	switch {
	case len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind):
		return false
	case l == nil: // of a newer version: nothing is known of its fields
		return true
	case f.limitsTime(e.Kind) && l.Role == schema.Event && !f.touches(e.From, e.To):
		return false
	}
	return passes(f.PIDs, int64(e.PID)-1, 1) && passes(f.TIDs, int64(e.TID)-1, 1) &&
		(l.Role != schema.Event || passes(f.Devices, e.Device, 0) && passes(f.Streams, e.Stream, 0))
}

// passes reports whether the number v+less is wanted. A negative v is a number that is not
// known.
func passes(wanted []uint32, v, less int64) bool {
	if len(wanted) == 0 || v < 0 {
		return true
	}
	return v+less <= math.MaxUint32 && slices.Contains(wanted, uint32(v+less))
}

// block reports whether a block can have wanted records.
func (f *Filter) block(b *Block) bool {
	e := b.entry()
	if f.limitsTime(b.Kind) {
		e.From, e.To = b.Time()
	}
	return f.entry(&e)
}

// Match reports whether row i of a block is a wanted record.
func (f *Filter) Match(b *Block, i int) bool {
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, b.Kind) {
		return false
	}
	l := schema.LayoutOf(b.Kind)
	if l == nil {
		return true
	}
	number := func(field int, less int64) int64 {
		if field < 0 {
			return -1
		}
		return int64(b.at(field, i)) - less
	}
	if !passes(f.PIDs, number(l.PID, 1), 1) || !passes(f.TIDs, number(l.TID, 1), 1) {
		return false
	}
	return l.Role != schema.Event || passes(f.Devices, number(l.Device, 0), 0) &&
		passes(f.Streams, number(l.Stream, 0), 0) &&
		(!f.limitsTime(b.Kind) || f.time(b, l, i))
}

// InTime reports whether row i of a block is between From and To, whatever Anytime says.
func (f *Filter) InTime(b *Block, i int) bool {
	l := schema.LayoutOf(b.Kind)
	return l == nil || l.Role != schema.Event || f.From == 0 && f.To == 0 || f.time(b, l, i)
}

// time reports whether one of the times of an event is wanted.
func (f *Filter) time(b *Block, l *schema.Layout, i int) bool {
	for nth, field := range l.Times {
		from := b.at(field, i)
		to := from
		if nth == 0 && l.Dur >= 0 {
			to = from + b.at(l.Dur, i)
		}
		if f.touches(from, to) {
			return true
		}
	}
	return false
}
