package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// pickedEntries is how many different rows of a block are remembered by their picks.
const pickedEntries = 512

// A pickTable finds what rows of a block have in common, by the bytes that say which of a
// few numbers they have: one byte mostly, which all columns share.
type pickTable[T any] struct {
	picks   [][]byte
	entries [pickedEntries]pickEntry[T]
	usable  bool // all columns have such bytes
}

type pickEntry[T any] struct {
	key uint64
	of  *T
}

// begin makes the table ready for a block.
func (t *pickTable[T]) begin() {
	clear(t.picks)
	clear(t.entries[:])
	t.picks, t.usable = t.picks[:0], true
}

// add adds a column in which rows may differ.
func (t *pickTable[T]) add(c *tracelog.Column) {
	if _, same := c.Const(); same || !t.usable {
		return
	}
	p := c.Picks()
	if len(p) < c.Len() || len(t.picks) == 8 {
		t.usable = false
		return
	}
	for _, known := range t.picks {
		if &known[0] == &p[0] {
			return
		}
	}
	t.picks = append(t.picks, p)
}

// entry returns what is known of a row, or where to put it.
func (t *pickTable[T]) entry(row int) *pickEntry[T] {
	key := uint64(0)
	for _, p := range t.picks {
		key = key<<8 | uint64(p[row])
	}
	e := &t.entries[key*0x9E3779B97F4A7C15>>55]
	if e.key != key {
		e.key, e.of = key, nil
	}
	return e
}
