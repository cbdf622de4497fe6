package convert

import (
	"bytes"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Of blocks that all overlap a few are gone through side by side; the rest is taken apart,
// and comes in the order of time even so.
func TestOverlappingBlocks(t *testing.T) {
	t.Parallel()
	const n = 3000
	var out bytes.Buffer
	w, err := tracelog.NewWriter(&out, tracelog.Options{RowsPerBlock: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(n) {
		for _, at := range []uint64{1000 + 10*i, 1e12 + 10*i} {
			w.Add(&tracelog.Call{PID: 1, TID: 1, Func: 1, Enter: at, Dur: 1})
		}
		for _, at := range []uint64{1005 + 10*i, 1e12 + 5 + 10*i} {
			w.Add(&tracelog.Kernel{GPU: tracelog.GPU{PID: 1, Context: 1, Stream: 7, Start: at, Dur: 1}, Name: "k"})
		}
	}
	if err := w.Close(tracelog.End{Time: 2e12, Complete: 1}); err != nil {
		t.Fatal(err)
	}
	tl, _ := timelineOf(t, logtest.InMemory(out.Bytes()))
	calls, work := tl.Processes[0].Threads[0].Slices, tl.Processes[0].Streams[0].Work
	if len(calls) != 2*n || len(work) != 2*n {
		t.Fatalf("%d calls and %d kernels of %d", len(calls), len(work), 2*n)
	}
	for i := 1; i < 2*n; i++ {
		if calls[i].Start <= calls[i-1].Start || work[i].Start <= work[i-1].Start {
			t.Fatalf("number %d comes before the one before it", i)
		}
	}
}
