package tracelog

import (
	"fmt"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Column is a field of all records of a block, without a copy: what a consumer
// of millions of records uses in place of the records. It is valid as long as its block.
type Column struct {
	column
	n int
}

// Column returns a field of the block's records by the name that it has in Tables. A
// field that the kind does not have is a mistake of the caller and panics; one that the
// log does not have is 0. Numbers of TypeInt are zigzag (see Int), texts are numbers
// (see Block.Text).
func (b *Block) Column(field string) Column {
	if l := schema.LayoutOf(b.Kind); l != nil {
		if f := l.Field(field); f >= 0 {
			return Column{b.cols[f], b.N}
		}
	}
	panic(fmt.Sprintf("tracelog: %v records have no field %q", b.Kind, field))
}

// Len is the number of records.
func (c *Column) Len() int { return c.n }

// At is the number in record i.
func (c *Column) At(i int) uint64 { return c.vals[i&c.mask] }

// Int is the signed number in record i of a field of TypeInt.
func (c *Column) Int(i int) int64 { return unzigzag(c.vals[i&c.mask]) }

// Const returns the number that all records have, and whether they are known to
// have one.
func (c *Column) Const() (uint64, bool) { return c.vals[0], c.mask == 0 }

// Picks returns a byte for each record: records with the same byte have the same number.
// It is nil where the log does not have such bytes. Several columns may have the same
// ones, in one place.
func (c *Column) Picks() []byte { return c.picks }

// Values returns the numbers of all records: a view of the block where they differ, and
// else room filled with the one they have, which is made longer as needed.
func (c *Column) Values(room []uint64) []uint64 {
	if c.mask != 0 {
		return c.vals[:c.n]
	}
	if cap(room) < c.n {
		room = make([]uint64, c.n)
	}
	room = room[:c.n]
	for i := range room {
		room[i] = c.vals[0]
	}
	return room
}

// Text is the text that a number in a field of TypeString stands for. A number
// stands for the same text in the whole log.
func (b *Block) Text(id uint64) string { return b.table.text(id) }

// common is the value of a field where all records have the same.
func (b *Block) common(field int) (uint64, bool) {
	if !b.Known() || field < 0 || b.cols[field].mask != 0 {
		return 0, false
	}
	return b.at(field, 0), true
}

// TID returns the thread of all records of the block. It is 0, false where they
// differ or have none.
func (b *Block) TID() (uint32, bool) {
	if l := schema.LayoutOf(b.Kind); l != nil {
		if tid, ok := b.common(l.TID); ok && tid != 0 {
			return uint32(tid), true
		}
	}
	return 0, false
}
