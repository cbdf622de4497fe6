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
	recentArguments = 1 << 13

	// argumentRoom and listRoom are how many arguments and lists are allocated together.
	// A list that is remembered keeps all of them.
	argumentRoom = 1 << 11
	listRoom     = 1 << 7
)

// An argumentTable finds the arguments of the rows of blocks by the few of them that
// differ.
type argumentTable struct {
	lists  uint64 // so far
	recent [recentArguments]*Arguments
	values []uint64
	room   []Arguments
}

// argumentRows are the arguments of a block of calls.
type argumentRows struct {
	columns [tracelog.MaxArgs]tracelog.Column
	nargs   tracelog.Column
	varying []uint8
	known   pickTable[Arguments]
}

var argFields = [tracelog.MaxArgs]string{"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9", "arg10", "arg11"}

// of makes the rows those of a block of calls.
func (t *argumentTable) of(r *argumentRows, b *tracelog.Block) {
	r.nargs, r.varying = b.Column("nargs"), r.varying[:0]
	r.known.begin()
	r.known.add(&r.nargs)
	for i := range r.columns {
		r.columns[i] = b.Column(argFields[i])
		if _, same := r.columns[i].Const(); !same {
			r.varying = append(r.varying, uint8(i))
			r.known.add(&r.columns[i])
		}
	}
}

// row returns the arguments of a row.
func (t *argumentTable) row(r *argumentRows, row int) *Arguments {
	if !r.known.usable {
		return t.search(r, row)
	}
	e := r.known.entry(row)
	if e.of == nil {
		e.of = t.search(r, row)
	}
	return e.of
}

// search finds the arguments of a row by what they are.
func (t *argumentTable) search(r *argumentRows, row int) *Arguments {
	n := int(min(r.nargs.At(row), tracelog.MaxArgs))
	if n == 0 {
		return noArguments
	}
	h := uint64(n)
	for _, i := range r.varying {
		h = (h ^ r.columns[i].At(row)) * 0x9E3779B97F4A7C15
	}
	// A list has a place and the one beside it.
	at := h >> 32 % recentArguments
	for _, i := range [2]uint64{at, at ^ 1} {
		if list := t.recent[i]; list != nil && r.same(list.Args, row, n) {
			return list
		}
	}
	if t.recent[at] != nil { // what comes again and again stays in one of the two
		t.recent[at^1] = t.recent[at]
	}
	t.recent[at] = t.make(r, row, n)
	return t.recent[at]
}

// same says whether a list is that of a row.
func (r *argumentRows) same(list []uint64, row, n int) bool {
	if len(list) != n {
		return false
	}
	for i, v := range list {
		if v != r.columns[i].At(row) {
			return false
		}
	}
	return true
}

func (t *argumentTable) make(r *argumentRows, row, n int) *Arguments {
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
		list.Args[i] = r.columns[i].At(row)
	}
	return list
}
