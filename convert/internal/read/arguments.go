package read

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

const (
	// recentArguments is the number of lists that the table keeps.
	recentArguments = 1 << 13

	// argumentRoom and listRoom are the numbers of arguments and lists that are allocated
	// together. One list in use keeps all of them alive.
	argumentRoom = 1 << 11
	listRoom     = 1 << 7
)

var noArguments = &timeline.Arguments{}

// An argumentTable returns one value for equal argument lists, nearly always.
type argumentTable struct {
	lists  uint64 // so far
	recent [recentArguments]*timeline.Arguments
	values []uint64
	room   []timeline.Arguments
}

// argumentColumns are the columns of the arguments in a block of calls.
type argumentColumns struct {
	columns [tracelog.MaxArgs]tracelog.Column
	nargs   tracelog.Column
	varying []uint8
}

var argFields = [tracelog.MaxArgs]string{
	"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9", "arg10", "arg11",
}

// open starts a block.
func (c *argumentColumns) open(b *tracelog.Block) {
	c.nargs, c.varying = b.Column("nargs"), c.varying[:0]
	for i := range c.columns {
		c.columns[i] = b.Column(argFields[i])
		if _, same := c.columns[i].Const(); !same {
			c.varying = append(c.varying, uint8(i))
		}
	}
}

// row returns the arguments of a row.
func (t *argumentTable) row(c *argumentColumns, row int) *timeline.Arguments {
	n := int(min(c.nargs.At(row), tracelog.MaxArgs))
	if n == 0 {
		return noArguments
	}
	h := uint64(n)
	for _, i := range c.varying {
		h = (h ^ c.columns[i].At(row)) * 0x9E3779B97F4A7C15
	}
	// A list may be at its own place or at the place beside it.
	at := h >> 32 % recentArguments
	for _, i := range [2]uint64{at, at ^ 1} {
		if list := t.recent[i]; list != nil && c.same(list.Args, row, n) {
			return list
		}
	}
	if t.recent[at] != nil { // a frequent list stays in one of the two places
		t.recent[at^1] = t.recent[at]
	}
	t.recent[at] = t.make(c, row, n)
	return t.recent[at]
}

// same reports whether a list equals that of a row.
func (c *argumentColumns) same(list []uint64, row, n int) bool {
	if len(list) != n {
		return false
	}
	for i, v := range list {
		if v != c.columns[i].At(row) {
			return false
		}
	}
	return true
}

func (t *argumentTable) make(c *argumentColumns, row, n int) *timeline.Arguments {
	if len(t.values) < n {
		t.values = make([]uint64, argumentRoom)
	}
	if len(t.room) == 0 {
		t.room = make([]timeline.Arguments, listRoom)
	}
	t.lists++
	list := &t.room[0]
	list.Args, list.ID = t.values[:n:n], t.lists
	t.values, t.room = t.values[n:], t.room[1:]
	for i := range list.Args {
		list.Args[i] = c.columns[i].At(row)
	}
	return list
}
