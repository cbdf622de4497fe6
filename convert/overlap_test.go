package convert

import (
	"bytes"
	"testing"

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
	p := timelineOf(t, inMemory(out.Bytes())).Processes[0]
	calls, work := p.Threads[0].Slices, p.Queues[0].Work
	if len(calls) != 2*n || len(work) != 2*n {
		t.Fatalf("%d calls and %d kernels of %d", len(calls), len(work), 2*n)
	}
	for i := 1; i < 2*n; i++ {
		if calls[i].Start <= calls[i-1].Start || work[i].Start <= work[i-1].Start {
			t.Fatalf("number %d comes before the one before it", i)
		}
	}
	j := newJob(Options{}, []string{"log"}, []opener{inMemory(out.Bytes())})
	if err := j.read(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.send(noSink{}, func(uint64) {}); err != nil {
		t.Fatal(err)
	}
	c := j.logs[0].converter
	if a, b := len(c.sources.free), len(c.workSources.free); a == 0 || b == 0 || a > maxActive+3 || b > maxActive+3 {
		t.Errorf("%d blocks of calls and %d of kernels were gone through side by side", a, b)
	}
}
