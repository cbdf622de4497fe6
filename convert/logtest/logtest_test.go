package logtest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

const twoThreads = `function id=1 name=cuLaunchKernel library=driver args=function:handle
process pid=10 ppid=0 start=5 exe=/bin/app args=app
call pid=10 tid=11 func=cuLaunchKernel enter=100 dur=10 ret=-1 args: function=0x7f
call pid=10 tid=12 func=cuLaunchKernel enter=90 dur=10 ret=0 args: function=0x7f
api pid=10 tid=11 domain=1 cbid=307 name=cuLaunchKernel start=101 dur=8 correlation=1 ret=0
call pid=10 tid=11 func=cuLaunchKernel enter=200 dur=10 ret=0 args: function=0x80
`

// A mixed log is a sound log with the records that its text has, in the text's order.
func TestMixed(t *testing.T) {
	t.Parallel()
	r, err := Mixed(t, twoThreads)()
	if err != nil {
		t.Fatal(err)
	}
	var rows []int
	for r.Next() {
		rows = append(rows, r.Block().N)
	}
	if diff := cmp.Diff([]int{1, 1, 2, 1, 1}, rows); diff != "" {
		t.Errorf("records of the blocks (-want +got):\n%s", diff)
	}
	r, err = Mixed(t, twoThreads)()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := logtext.Dump(&text, r, logtext.Options{}); err != nil {
		t.Fatal(err)
	}
	records, _, _ := strings.Cut(text.String(), "# the log ends")
	if diff := cmp.Diff(twoThreads, records); diff != "" {
		t.Errorf("the log's text (-want +got):\n%s", diff)
	}
}

// The blocks of a log of parts stand in the order of the parts, and a reader that follows
// the log has each part once it is there.
func TestParts(t *testing.T) {
	t.Parallel()
	g := NewGrowing(t)
	r := g.Follow()
	for _, text := range []string{"clock monotonic=1", "note time=2", "clock monotonic=3"} {
		if r.Next() {
			t.Fatalf("a block is there before it is written: %v", r.Block().Kind)
		}
		g.Append(text)
		if !r.Next() {
			t.Fatalf("%s is not there: %v", text, r.Err())
		}
	}
	g.Finish(tracelog.End{Time: 9})
	if end, ended := r.End(); ended || !r.Next() || r.Block().Kind != tracelog.KindEnd {
		t.Errorf("the end is %+v", end)
	}
}
