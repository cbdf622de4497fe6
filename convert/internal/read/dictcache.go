package read

import "github.com/cudatrace/cudatrace/record/tracelog"

// dictEntries is the number of rows of a block that a dictCache keeps.
const dictEntries = 512

// A dictCache keeps the results for rows by the dictionary bytes of their columns: rows with
// equal bytes have equal numbers. Mostly one byte is enough, which all columns share.
type dictCache[T any] struct {
	picks   [][]byte
	entries [dictEntries]dictEntry[T]
	usable  bool // all columns have dictionary bytes
}

type dictEntry[T any] struct {
	key uint64
	of  *T
}

// reset empties the cache for a new block.
func (c *dictCache[T]) reset() {
	clear(c.picks)
	clear(c.entries[:])
	c.picks, c.usable = c.picks[:0], true
}

// column adds a column in which rows may differ.
func (c *dictCache[T]) column(col *tracelog.Column) {
	if _, same := col.Const(); same || !c.usable {
		return
	}
	p := col.Picks()
	if len(p) < col.Len() || len(c.picks) == 8 {
		c.usable = false
		return
	}
	for _, known := range c.picks {
		if &known[0] == &p[0] {
			return
		}
	}
	c.picks = append(c.picks, p)
}

// entry returns the entry of a row; in the entry of a new row, of is nil.
func (c *dictCache[T]) entry(row int) *dictEntry[T] {
	key := uint64(0)
	for _, p := range c.picks {
		key = key<<8 | uint64(p[row])
	}
	e := &c.entries[key*0x9E3779B97F4A7C15>>55]
	if e.key != key {
		e.key, e.of = key, nil
	}
	return e
}
