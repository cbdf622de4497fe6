package live_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/live"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// While a GPU is idle, the main thread of the process that launches its work is blocked, runs Python, has no processor
// and is in a call: each counts with its time, also where the GPU has no work at all.
func TestIdle(t *testing.T) {
	t.Parallel()
	var samples strings.Builder
	for at := 1610; at <= 1800; at += 10 {
		fmt.Fprintf(&samples, "thread_sample pid=1 tid=1 time=%d python=2\n", at*ms)
	}
	parts := []string{
		definitions + "meta key=sample_hz value=100\nthread pid=1 tid=1 name=python3\nthread pid=1 tid=2 name=loader\n" +
			"python_frame id=1 file=/home/a/data.py function=next line=40\npython_stack id=1 frame=1\n" +
			"python_frame id=2 file=/home/a/data.py function=decode line=44\npython_stack id=2 frame=2\n" + flushed(1000*ms),
		"thread_state pid=1 tid=1 state=1 start=1000000000 dur=3000000\n" +
			launch(1, 1001*ms, 1002*ms, 1003*ms, 1103*ms, "_Z3addv") +
			"thread_state pid=1 tid=1 state=3 start=1003000000 dur=597000000 call=read on=pipe python=1\n" +
			"thread_state pid=1 tid=1 state=1 start=1600000000 dur=200000000\n" + samples.String() +
			"thread_state pid=1 tid=1 state=2 start=1800000000 dur=100000000\n" +
			"thread_state pid=1 tid=1 state=1 start=1900000000 dur=200000000\n" +
			"call pid=1 tid=1 func=#3 enter=1900000000 dur=200000000\n" +
			"call pid=1 tid=2 func=#3 enter=1100000000 dur=900000000\n" + flushed(2100*ms),
		"thread_state pid=1 tid=1 state=3 start=2100000000 dur=900000000 call=read on=pipe python=1\n" + flushed(3000*ms),
		flushed(4200 * ms),
	}
	g := logtest.NewGrowing(t)
	var reports []*live.Report
	take := func(r *live.Report) { reports = append(reports, r) }
	open := func() (*tracelog.Reader, error) { return tracelog.NewReader(g, g.Size(), "growing") }
	f := must.Get(convert.Follow(open, live.New(live.Options{Report: take})))(t)
	for _, part := range parts {
		g.Append(part)
		must.Do(t, f.Read(nil))
	}
	g.Finish(tracelog.End{Complete: 1})
	must.Do(t, f.Close())
	const pipe = "data.py:40 next, blocked in read on a pipe"
	if len(reports) < 2 {
		t.Fatalf("%d reports", len(reports))
	}
	for i, want := range [][]live.Idle{
		{{What: pipe, Share: 497. / 900}, {What: "data.py:44 decode", Share: 200. / 900}, {Share: 100. / 900}},
		{{What: pipe, Share: .9}, {What: "cudaMalloc", Share: .1}},
	} {
		gpu := reports[i].GPUs[0]
		if gpu.Thread == nil || !gpu.Thread.Main || len(gpu.Idle) != len(want) {
			t.Fatalf("second %d: thread %+v, idle %v, want %v", i, gpu.Thread, gpu.Idle, want)
		}
		for k := range want {
			if got := gpu.Idle[k]; got.What != want[k].What && k < 2 || math.Abs(got.Share-want[k].Share) > 0.03 {
				t.Errorf("second %d, part %d: %v, want %v", i, k, got, want[k])
			}
		}
	}
}
