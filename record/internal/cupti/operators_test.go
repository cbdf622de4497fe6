package cupti

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// operatorRecord is a record of a stack of operators.
func operatorRecord(id, parent, forward uint32, scope uint16, name string) []byte {
	b := make([]byte, operatorSize, operatorSize+len(name))
	le.PutUint32(b[operatorIdAt:], id)
	le.PutUint32(b[operatorParentAt:], parent)
	le.PutUint32(b[operatorForwardAt:], forward)
	le.PutUint16(b[operatorScopeAt:], scope)
	le.PutUint16(b[operatorLengthAt:], uint16(len(name)))
	return append(b, name...)
}

// stackList is a sink that keeps stacks of operators.
type stackList []tracelog.OperatorStack

func (l *stackList) Add(r tracelog.Record) { *l = append(*l, *r.(*tracelog.OperatorStack)) }

// TestOperatorTable gives stacks their IDs in the log. A stack that names one that was never sent, itself for instance, has
// none, and neither has one without room, nor any below.
func TestOperatorTable(t *testing.T) {
	t.Parallel()
	var log OperatorLog
	var got stackList
	one, other := operatorTable{log: &log}, operatorTable{log: &log}
	memory := peerMemory{most: 7 * stackCost}
	for _, s := range []struct {
		table *operatorTable
		b     []byte
		want  uint32
	}{
		{&one, operatorRecord(9, 0, 0, 0, "aten::linear"), 1},
		{&one, operatorRecord(8, 9, 77, 0, "aten::mm"), 2}, // the forward one was never sent
		{&one, operatorRecord(7, 8, 9, 1, ""), 3},
		{&other, operatorRecord(5, 0, 0, 0, "aten::linear"), 1},
		{&other, operatorRecord(4, 4, 0, 0, "itself"), 0},
		{&other, operatorRecord(3, 4, 0, 0, "below"), 0},
		{&other, operatorRecord(2, 0, 4, 0, "of none"), 4},
		{&other, operatorRecord(1, 0, 0, 0, "without room"), 0},
	} {
		id := le.Uint32(s.b[operatorIdAt:])
		must.Do(t, s.table.add(&memory, &got, s.b))
		if is, err := s.table.stack(id); err != nil || is != s.want {
			t.Errorf("stack %d is %d of the log (%v), want %d", id, is, err, s.want)
		}
	}
	want := stackList{{ID: 1, Name: "aten::linear"}, {ID: 2, Parent: 1, Name: "aten::mm"},
		{ID: 3, Parent: 2, Scope: 1, Forward: 1}, {ID: 4, Name: "of none"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	memory.give(stackCost)
	must.Do(t, other.add(&memory, &got, operatorRecord(6, 1, 0, 0, "below what had no room")))
	if id, err := other.stack(6); id != 0 || err != nil || len(got) != len(want) {
		t.Errorf("a stack whose caller found no room is %d (%v)", id, err)
	}
}

// TestOperatorTableMalformed refuses what no library sends.
func TestOperatorTableMalformed(t *testing.T) {
	t.Parallel()
	good := operatorRecord(1, 0, 0, 0, "aten::mm")
	for name, bad := range map[string][]byte{
		"short": good[:operatorSize-1], "cut name": good[:len(good)-1], "again": good,
		"zero": operatorRecord(0, 0, 0, 0, ""), "beyond": operatorRecord(operatorStacksMax, 0, 0, 0, ""),
		"long": operatorRecord(2, 0, 0, 0, strings.Repeat("x", operatorNameMax+1)),
	} {
		var got stackList
		table := operatorTable{log: new(OperatorLog)}
		must.Do(t, table.add(new(peerMemory), &got, good))
		if err := table.add(new(peerMemory), &got, slices.Clone(bad)); err == nil || len(got) != 1 {
			t.Errorf("%s: %v; %+v", name, err, got)
		}
	}
	if err := new(operatorTable).add(new(peerMemory), new(stackList), good); err == nil {
		t.Error("operators were not asked for, and taken")
	}
	if _, err := new(operatorTable).stack(1); err == nil {
		t.Error("a call has operators that nobody asked for")
	}
}
