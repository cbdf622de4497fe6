package tracelog

import (
	"fmt"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Block is a run of records of one kind, in the order in which the writer got them. It is
// valid until the next call of Reader.Next, unless it is kept (Reader.Keep). Its strings stay
// valid.
type Block struct {
	Kind   Kind
	N      int   // number of records
	Offset int64 // byte of the log at which the block begins

	own     []columns.Column // by the field numbers of this version; nil for a kind that it does not know
	file    []columns.Column // by the field numbers of the log's schema
	table   *schema.Table    // of the log's schema; nil for a kind without a description
	strings *stringTable
	kept    *decoding // set in a block that is kept
	spare   *spareDecodings
}

// at is the number in a field of row i.
func (b *Block) at(field, i int) uint64 {
	c := &b.own[field]
	return c.Numbers[i&c.Mask]
}

// columns returns the columns of the block, whose records must be of a kind.
func (b *Block) columns(k Kind) []columns.Column {
	if b.Kind != k {
		panic(fmt.Sprintf("tracelog: a block of %v records was read as %v", b.Kind, k))
	}
	return b.own
}

// Known reports whether this version knows the kind of the block. If not, a newer cudatrace
// wrote it, or one that still had the kind; see Fields.
func (b *Block) Known() bool { return b.own != nil }

// Name is the name of the block's kind in the text form.
func (b *Block) Name() string {
	if b.table == nil {
		return b.Kind.String()
	}
	return b.table.Name
}

// Fields are the fields of the records as the log describes them, including fields that this
// version does not know. It is nil for a kind without a description.
func (b *Block) Fields() []schema.Field {
	if b.table == nil {
		return nil
	}
	return b.table.Fields
}

// Time returns the smallest time of the block's records and the largest end, in ns
// of CLOCK_MONOTONIC. Times of 0 do not count; both are 0 where there is no other.
func (b *Block) Time() (from, to uint64) {
	l, list := b.described()
	if l == nil {
		return 0, 0
	}
	var s span
	for nth, f := range l.Times {
		for i := range b.N {
			var dur uint64
			if nth == 0 && l.Dur >= 0 {
				dur = list[l.Dur].At(i)
			}
			s.addTime(list[f].At(i), dur)
		}
	}
	return s.from, s.to
}

// described returns the layout of the block's kind and the columns of its fields: as this version describes the kind,
// or else as the log does. Without a description, or in a kept block of an unknown kind, both are nil.
func (b *Block) described() (*schema.Layout, []columns.Column) {
	switch l := schema.LayoutOf(b.Kind); {
	case l != nil:
		return l, b.own
	case b.table != nil && b.file != nil:
		return schema.NewLayout(b.table), b.file
	}
	return nil, nil
}

// entry is the entry of the block in an index, without the time.
func (b *Block) entry() IndexEntry {
	e := IndexEntry{Offset: b.Offset, Kind: b.Kind, Rows: uint64(b.N), Device: -1, Context: -1, Stream: -1}
	if l, list := b.described(); l != nil {
		e.PID, e.TID = uint32(b.common(list, l.PID, 0)), uint32(b.common(list, l.TID, 0))
		e.Device, e.Context, e.Stream = b.common(list, l.Device, -1), b.common(list, l.Context, -1),
			b.common(list, l.Stream, -1)
	}
	return e
}

// common is the number that all records have in a field, else none.
func (b *Block) common(list []columns.Column, field int, none int64) int64 {
	if field < 0 || list[field].Texts != nil {
		return none
	}
	c := &list[field]
	for i := 1; i < b.N && c.Mask != 0; i++ {
		if c.Numbers[i] != c.Numbers[0] {
			return none
		}
	}
	return int64(c.Numbers[0])
}

// Release gives the memory of a kept block back to the reader. The block must not be
// used any more. On a block that is not kept it does nothing.
func (b *Block) Release() {
	if b.kept != nil {
		b.spare.put(b.kept)
		*b = Block{}
	}
}

// A Column has the values of one field of all records of a block, without a copy. Consumers of
// millions of records use columns in place of records. A column is valid as long as its block.
type Column struct {
	c columns.Column
	n int
}

// Column returns a field of the block's records by its name in this version's schema. The field
// is 0 in a log that does not have it. Column panics if the kind has no such field, which is a
// mistake of the caller. Numbers of type schema.Int are zigzag (see Int), texts are numbers
// (see Block.Text).
func (b *Block) Column(field string) Column {
	if l := schema.LayoutOf(b.Kind); l != nil {
		if f := l.Field(field); f >= 0 {
			return Column{b.own[f], b.N}
		}
	}
	panic(fmt.Sprintf("tracelog: %v records have no field %q", b.Kind, field))
}

// FileColumn returns a field by its number in Fields. A kind without a description has
// schema.MaxColumns fields.
func (b *Block) FileColumn(field int) Column { return Column{b.file[field], b.N} }

// Text is the text that a number in a field of type schema.String stands for. A number
// stands for the same text in the whole log.
func (b *Block) Text(id uint64) string { return b.strings.text(id) }

// Len is the number of records.
func (c *Column) Len() int { return c.n }

// At is the number in record i.
func (c *Column) At(i int) uint64 { return c.c.Numbers[i&c.c.Mask] }

// Int is the signed number in record i of a field of type schema.Int.
func (c *Column) Int(i int) int64 { return columns.Unzigzag(c.At(i)) }

// Text is the text in record i of a field of type schema.Text.
func (c *Column) Text(i int) string { return c.c.Text(i) }

// Const returns the number that all records have in common; ok is false if they may differ.
func (c *Column) Const() (v uint64, ok bool) { return c.c.Numbers[0], c.c.Mask == 0 }

// Values returns the numbers of all records. Where they differ it is a view of the block.
// Otherwise it is room, filled with the common number and made longer as needed.
func (c *Column) Values(room []uint64) []uint64 {
	if c.c.Mask != 0 {
		return c.c.Numbers[:c.n]
	}
	if cap(room) < c.n {
		room = make([]uint64, c.n)
	}
	room = room[:c.n]
	for i := range room {
		room[i] = c.c.Numbers[0]
	}
	return room
}

// A span is a stretch of time.
type span struct{ from, to uint64 }

// spanOf is the span from the first time of some rows to their last end.
func spanOf(rows *columns.Rows, l *schema.Layout) (s span) {
	durAt := func(dur, i int) uint64 {
		if dur < 0 {
			return 0
		}
		return rows.At(dur, i)
	}
	for nth, f := range l.Times {
		dur := -1
		if nth == 0 {
			dur = l.Dur
		}
		if !rows.HasColumn(f) && (dur < 0 || !rows.HasColumn(dur)) {
			s.addTime(rows.At(f, 0), durAt(dur, 0))
			continue
		}
		for i := range rows.Len() {
			s.addTime(rows.At(f, i), durAt(dur, i))
		}
	}
	return s
}

// addTime widens the span by a time with a duration, unless the time is 0.
func (s *span) addTime(t, dur uint64) {
	if t == 0 {
		return
	}
	if s.from == 0 || t < s.from {
		s.from = t
	}
	if end := t + dur; end >= t { // a duration that overflows does not count
		t = end
	}
	s.to = max(s.to, t)
}

// join widens the span by another.
func (s *span) join(o span) {
	if o.from == 0 {
		return
	}
	if s.from == 0 || o.from < s.from {
		s.from = o.from
	}
	s.to = max(s.to, o.to)
}
