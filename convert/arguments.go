package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// Arguments are those of one call or of many calls: programs make the same calls over and
// over, and equal arguments are nearly always kept once.
type Arguments struct {
	Args []uint64
	id   uint64 // of the list in its log, 0 for none; equal lists may have several
}

var noArguments = &Arguments{}

const (
	// recentArguments is how many lists are remembered.
	recentArguments = 1 << 12

	// argumentRoom and listRoom are how many arguments and lists are allocated together.
	// A list that is remembered keeps all of them.
	argumentRoom = 1 << 11
	listRoom     = 1 << 7
)

// An argumentTable finds the arguments of the rows of a block by the few of them that
// differ.
type argumentTable struct {
	columns [tracelog.MaxArgs]tracelog.Column
	nargs   tracelog.Column
	varying []uint8
	block   uint64 // blocks so far
	lists   uint64 // so far
	recent  [recentArguments]recentList
	values  []uint64
	room    []Arguments
}

// recentList is a list, and the last block of which it has what all rows share.
type recentList struct {
	*Arguments
	block uint64
}

var argFields = [tracelog.MaxArgs]string{"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9", "arg10", "arg11"}

// of makes the table ready for a block of calls.
func (t *argumentTable) of(b *tracelog.Block) {
	t.block++
	t.nargs, t.varying = b.Column("nargs"), t.varying[:0]
	for i := range t.columns {
		t.columns[i] = b.Column(argFields[i])
		if _, same := t.columns[i].Const(); !same {
			t.varying = append(t.varying, uint8(i))
		}
	}
}

// row returns the arguments of a row.
func (t *argumentTable) row(row int) *Arguments {
	n := int(min(t.nargs.At(row), tracelog.MaxArgs))
	if n == 0 {
		return noArguments
	}
	h := uint64(n)
	for _, i := range t.varying {
		h = (h ^ t.columns[i].At(row)) * 0x9E3779B97F4A7C15
	}
	recent := &t.recent[h>>32%recentArguments]
	if recent.block != t.block || !t.equal(recent.Args, row, n) {
		if recent.Arguments == nil || !t.same(recent.Args, row, n) {
			recent.Arguments = t.make(row, n)
		}
		recent.block = t.block
	}
	return recent.Arguments
}

// equal says whether a list is that of a row, where all that rows share is equal.
func (t *argumentTable) equal(list []uint64, row, n int) bool {
	if len(list) != n {
		return false
	}
	for _, i := range t.varying {
		if int(i) < n && list[i] != t.columns[i].At(row) {
			return false
		}
	}
	return true
}

// same says whether a list is that of a row.
func (t *argumentTable) same(list []uint64, row, n int) bool {
	if len(list) != n {
		return false
	}
	for i, v := range list {
		if v != t.columns[i].At(row) {
			return false
		}
	}
	return true
}

func (t *argumentTable) make(row, n int) *Arguments {
	if len(t.values) < n {
		t.values = make([]uint64, argumentRoom)
	}
	if len(t.room) == 0 {
		t.room = make([]Arguments, listRoom)
	}
	t.lists++
	list := &t.room[0]
	list.Args, list.id = t.values[:n:n], t.lists
	t.values, t.room = t.values[n:], t.room[1:]
	for i := range list.Args {
		list.Args[i] = t.columns[i].At(row)
	}
	return list
}
