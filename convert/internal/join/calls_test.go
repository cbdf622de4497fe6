package join

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// definitionsOfTests begin the logs of tests.
const definitionsOfTests = `
function id=1 name=cudaLaunchKernel library=runtime args="func:ptr"
function id=2 name=cuLaunchKernel library=driver args="f:handle stream:handle"
function id=3 name=cuMemAlloc_v2 library=driver args="bytes:size"
function id=4 name=cuStreamSynchronize library=driver args="stream:handle"
function id=5 name=cudaStreamSynchronize library=runtime args="stream:handle"
function id=6 name=cudaMalloc library=runtime args=""
function id=7 name=cuGraphLaunch library=driver args="graphExec:handle stream:handle"
function id=8 name=cuEventQuery library=driver args=""
function id=9 name=cudaMemGetInfo library=runtime args=""
process pid=1 start=1
`

// Calls nest by their times, and an API record is one call with the pair of its function.
func TestCallStacks(t *testing.T) {
	t.Parallel()
	runJoinTests(t, []joinTest{
		{"a pair", `
call pid=1 tid=1 func=cuMemAlloc_v2 enter=100 dur=50 args: bytes=8`, `
			thread 1:
			cuMemAlloc_v2 100-150 [8]`, "Pairs=1 Calls=1", Options{}},
		{"an API record", `
api pid=1 tid=1 domain=1 name=cuMemAlloc start=100 dur=50 correlation=3`, `
			thread 1:
			cuMemAlloc 100-150 c3`, "APIs=1 Unprobed=1 Calls=1", Options{}},
		{"an API record of a call that failed", `
api pid=1 tid=1 domain=1 name=cuMemAlloc start=100 dur=50 correlation=3 ret=2`, `
			thread 1:
			cuMemAlloc 100-150 c3 ret=2`, "APIs=1 Calls=1 Failed=1", Options{}},
		{"a driver record within its pair", `
call pid=1 tid=1 func=cuMemAlloc_v2 enter=100 dur=50 args: bytes=8
api pid=1 tid=1 domain=1 name=cuMemAlloc start=110 dur=30 correlation=3`, `
			thread 1:
			cuMemAlloc_v2 100-150 [8] c3`, "Pairs=1 APIs=1 Joined=1 Calls=1", Options{}},
		{"a pair within its driver record", `
api pid=1 tid=1 domain=1 name=cuMemAlloc start=100 dur=50 correlation=3
call pid=1 tid=1 func=cuMemAlloc_v2 enter=110 dur=30 ret=2 args: bytes=8`, `
			thread 1:
			cuMemAlloc_v2 100-150 [8] c3 ret=2`, "Pairs=1 APIs=1 Joined=1 Calls=1 Failed=1", Options{}},
		{"a driver call within its runtime record", `
call pid=1 tid=1 func=cuMemAlloc_v2 enter=110 dur=30 args: bytes=8
api pid=1 tid=1 domain=2 name=cudaMalloc start=100 dur=50 correlation=3`, `
			thread 1:
			cudaMalloc 100-150 c3
			  cuMemAlloc_v2 110-140 [8]`, "Pairs=1 APIs=1 Joined=1 Calls=1", Options{}},
		{"an entry gives its arguments to the record of the call, before it or within it", `
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=100 args: graphExec=8 stream=7
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=110 dur=30 correlation=3
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=200 dur=30 correlation=4 ret=2
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=210 args: graphExec=9 stream=7`, `
			thread 1:
			cuGraphLaunch 110-140 [8 7] c3
			cuGraphLaunch 200-230 [9 7] c4 ret=2`, "Pairs=2 APIs=2 Joined=2 Calls=2 Failed=1", Options{}},
		{"entries without a record", `
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=100 args: graphExec=6 stream=7
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=200 args: graphExec=8 stream=7
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=210 dur=30 correlation=3
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=300 args: graphExec=9 stream=7
call pid=1 tid=1 func=cuMemAlloc_v2 enter=400 dur=50 args: bytes=8
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=500 args: graphExec=10 stream=7`, `
			thread 1:
			cuGraphLaunch 100-100 [6 7]
			cuGraphLaunch 210-240 [8 7] c3
			cuGraphLaunch 300-300 [9 7]
			cuMemAlloc_v2 400-450 [8]
			cuGraphLaunch 500-500 [10 7]`, "Pairs=5 APIs=1 Joined=1 Calls=5", Options{}},
		{"an entry without a record within another call", `
call pid=1 tid=1 func=cudaLaunchKernel enter=100 dur=50 args: func=5
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=120 args: graphExec=8 stream=7
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=200 dur=30 correlation=3`, `
			thread 1:
			cudaLaunchKernel 100-150 [5]
			  cuGraphLaunch 120-120 [8 7]
			cuGraphLaunch 200-230 c3`, "Pairs=2 APIs=1 Unprobed=1 Calls=2 Launches=1 Unnamed=1", Options{}},
		{"an entry without a record before a pair", `
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=100 args: graphExec=8 stream=7
call pid=1 tid=1 func=cuGraphLaunch enter=120 dur=50 args: graphExec=9 stream=7
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=130 dur=30 correlation=3`, `
			thread 1:
			cuGraphLaunch 100-100 [8 7]
			cuGraphLaunch 120-170 [9 7] c3`, "Pairs=2 APIs=1 Joined=1 Calls=2", Options{}},
		{"an entry and a record that comes much later", `
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=100 args: graphExec=8 stream=7
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=100000101 dur=30 correlation=3`, `
			thread 1:
			cuGraphLaunch 100-100 [8 7]
			cuGraphLaunch 100000101-100000131 c3`, "Pairs=1 APIs=1 Unprobed=1 Calls=2", Options{}},
		{"an entry of a call that has not returned", `
call pid=1 tid=1 func=cuGraphLaunch flags=4 enter=100 args: graphExec=8 stream=7
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=110 flags=1
call pid=1 tid=2 func=cuMemAlloc_v2 enter=400 dur=50 args: bytes=8`, `
			thread 1:
			cuGraphLaunch 110-450 [8 7] flags=1
			thread 2:
			cuMemAlloc_v2 400-450 [8]`, "Pairs=2 APIs=1 Joined=1 Calls=2 Unfinished=1", Options{}},
		{"equal intervals", `
api pid=1 tid=1 domain=1 name=cuMemAlloc start=100 dur=50 correlation=3
call pid=1 tid=1 func=cuMemAlloc_v2 enter=100 dur=50 args: bytes=8
api pid=1 tid=1 domain=2 name=cudaMalloc start=100 dur=50 correlation=4`, `
			thread 1:
			cudaMalloc 100-150 c4
			  cuMemAlloc_v2 100-150 [8] c3`, "Pairs=1 APIs=2 Joined=2 Calls=1", Options{}},
		{"a runtime record with two driver calls counts once", `
api pid=1 tid=1 domain=2 name=cudaMalloc start=100 dur=50 correlation=3
call pid=1 tid=1 func=cuMemAlloc_v2 enter=110 dur=10 args: bytes=8
call pid=1 tid=1 func=cuMemAlloc_v2 enter=130 dur=10 args: bytes=9`, `
			thread 1:
			cudaMalloc 100-150 c3
			  cuMemAlloc_v2 110-120 [8]
			  cuMemAlloc_v2 130-140 [9]`, "Pairs=2 APIs=1 Joined=1 Calls=1", Options{}},
		{"pairs of both libraries with the runtime's record", `
call pid=1 tid=1 func=cudaMalloc enter=100 dur=50
api pid=1 tid=1 domain=2 name=cudaMalloc start=105 dur=40 correlation=3
call pid=1 tid=1 func=cuMemAlloc_v2 enter=110 dur=10 args: bytes=8`, `
			thread 1:
			cudaMalloc 100-150 [8] c3`, "Pairs=2 APIs=1 Joined=1 Calls=1", Options{}},
		{"pairs of both libraries", `
call pid=1 tid=1 func=cudaMalloc enter=100 dur=50 ret=2
call pid=1 tid=1 func=cuMemAlloc_v2 enter=110 dur=10 ret=2 args: bytes=8`, `
			thread 1:
			cudaMalloc 100-150 [8] ret=2`, "Pairs=2 Calls=1 Failed=1", Options{}},
		{"a second driver call in a runtime call", `
call pid=1 tid=1 func=cudaMalloc enter=100 dur=50
call pid=1 tid=1 func=cuMemAlloc_v2 enter=110 dur=10 args: bytes=8
call pid=1 tid=1 func=cuMemAlloc_v2 enter=130 dur=10 args: bytes=9`, `
			thread 1:
			cudaMalloc 100-150 [8]
			  cuMemAlloc_v2 130-140 [9]`, "Pairs=3 Calls=1", Options{}},
		{"a driver call that carries out nothing of the runtime call around it", `
call pid=1 tid=1 func=cudaLaunchKernel enter=100 dur=50 args: func=1
call pid=1 tid=1 func=cuMemAlloc_v2 enter=110 dur=10 args: bytes=8
call pid=1 tid=1 func=cudaStreamSynchronize enter=200 dur=50 args: stream=1
call pid=1 tid=1 func=cuStreamSynchronize enter=210 dur=10 args: stream=1`, `
			thread 1:
			cudaLaunchKernel 100-150 [1]
			  cuMemAlloc_v2 110-120 [8]
			cudaStreamSynchronize 200-250 [1]
			  cuStreamSynchronize 210-220 [1]`, "Pairs=4 Calls=2 Launches=1 Unnamed=1", Options{}},
		{"one record for one pair", `
call pid=1 tid=1 func=cuMemAlloc_v2 enter=100 dur=50 args: bytes=8
api pid=1 tid=1 domain=1 name=cuMemAlloc start=110 dur=10 correlation=3
api pid=1 tid=1 domain=1 name=cuMemAlloc start=130 dur=10 correlation=4`, `
			thread 1:
			cuMemAlloc_v2 100-150 [8] c3
			  cuMemAlloc 130-140 c4`, "Pairs=1 APIs=2 Joined=1 Unprobed=1 Calls=1", Options{}},
		{"another function's record", `
call pid=1 tid=1 func=cuMemAlloc_v2 enter=100 dur=50 args: bytes=8
api pid=1 tid=1 domain=1 name=cuMemFree start=110 dur=10 correlation=3`, `
			thread 1:
			cuMemAlloc_v2 100-150 [8]
			  cuMemFree 110-120 c3`, "Pairs=1 APIs=1 Unprobed=1 Calls=1", Options{}},
		{"a record that ends after its pair", `
call pid=1 tid=1 func=cuMemAlloc_v2 enter=100 dur=50 args: bytes=8
api pid=1 tid=1 domain=1 name=cuMemAlloc start=110 dur=50 correlation=3`, `
			thread 1:
			cuMemAlloc_v2 100-150 [8]
			  cuMemAlloc 110-150 c3`, "Pairs=1 APIs=1 Unprobed=1 Calls=1 Clipped=1", Options{}},
		{"a runtime call within another's record", `
api pid=1 tid=1 domain=2 name=cudaMalloc start=100 dur=50 correlation=3
call pid=1 tid=1 func=cudaMemGetInfo enter=110 dur=10`, `
			thread 1:
			cudaMalloc 100-150 c3
			  cudaMemGetInfo 110-120`, "Pairs=1 APIs=1 Unprobed=1 Calls=1", Options{}},
		{"a call that ends when the next begins", `
call pid=1 tid=1 func=cudaMalloc enter=100 dur=50
call pid=1 tid=1 func=cudaMalloc enter=150 dur=50`, `
			thread 1:
			cudaMalloc 100-150
			cudaMalloc 150-200`, "Pairs=2 Calls=2", Options{}},
		{"threads do not nest in each other", `
call pid=1 tid=2 func=cudaMalloc enter=110 dur=10
call pid=1 tid=1 func=cudaMalloc enter=100 dur=50`, `
			thread 1:
			cudaMalloc 100-150
			thread 2:
			cudaMalloc 110-120`, "Pairs=2 Calls=2", Options{}},
		{"no return", `
call pid=1 tid=1 func=cudaMalloc enter=100 dur=50 flags=1
call pid=1 tid=2 func=cudaMalloc enter=100 dur=50 flags=2 ret=3
end time=900 complete=1`, `
			thread 1:
			cudaMalloc 100-900 flags=1
			thread 2:
			cudaMalloc 100-150 ret=3 flags=2`, "Pairs=2 Calls=2 Unfinished=1", Options{}},
	})
}

// Outermost calls count, and so do their errors.
func TestCallCounts(t *testing.T) {
	t.Parallel()
	j := newJoining(t, logtest.Assemble(t, definitionsOfTests+`
call pid=1 tid=1 func=cudaMalloc enter=100 dur=50 ret=2
call pid=1 tid=1 func=cuMemAlloc_v2 enter=110 dur=10 ret=2 args: bytes=8
call pid=1 tid=1 func=cudaMalloc enter=200 dur=50 ret=2
call pid=1 tid=1 func=cuMemAlloc_v2 enter=300 dur=50 ret=1 args: bytes=8
call pid=1 tid=1 func=cuEventQuery enter=400 dur=50 ret=600
call pid=1 tid=1 func=cuEventQuery enter=500 dur=50 ret=4
call pid=1 tid=1 func=cudaMalloc enter=600 dur=50 flags=2 ret=1
call pid=1 tid=1 func=cudaLaunchKernel enter=700 dur=50 args: func=1
call pid=1 tid=1 func=cuLaunchKernel enter=710 dur=10 args: f=1 stream=0
call pid=1 tid=1 func=cuLaunchKernel enter=800 dur=10 ret=1 args: f=1 stream=0
call pid=1 tid=1 func=cuLaunchKernel enter=900 dur=10 args: f=1 stream=0
`), Options{}).run()
	j.timeline()
	want := callStats{Calls: 9, Failed: 4, Launches: 2, Unnamed: 2, Errors: map[Failure]uint64{
		{"cudaMalloc", "runtime", 2}: 2, {"cuMemAlloc_v2", "driver", 1}: 1, {"cuLaunchKernel", "driver", 1}: 1}}
	want.Pairs = 11
	want.Functions = []FunctionCalls{
		{&timeline.Function{Name: "cudaLaunchKernel"}, 1}, {&timeline.Function{Name: "cuLaunchKernel"}, 2},
		{&timeline.Function{Name: "cudaMalloc"}, 3}, {&timeline.Function{Name: "cuMemAlloc_v2"}, 1},
		{&timeline.Function{Name: "cuEventQuery"}, 2},
	}
	if diff := cmp.Diff(want, j.Found.Calls, cmp.Transformer("byName", callsByName)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func callsByName(functions []FunctionCalls) map[string]uint64 {
	calls := make(map[string]uint64)
	for _, f := range functions {
		if f.Calls > 0 {
			calls[f.Function.Name] += f.Calls
		}
	}
	return calls
}

// A call that creates GPU work and has no API record is missing one, if CUPTI recorded its
// process, the call succeeded and it returned before CUPTI's last word. The last launches of a thread whose kernels had not
// run then are missing theirs at the end.
func TestUncorrelated(t *testing.T) {
	t.Parallel()
	const cupti = "cupti pid=1 version=130001 driver_version=13000 path=/x status=on\n"
	const launch = "call pid=1 tid=1 func=cuLaunchKernel enter=100 dur=50 "
	const kernel = "kernel pid=1 context=1 stream=7 start=120 dur=5 correlation=3\n"
	const end = "process_end pid=1 time=800 status=0 complete=1 until=700\nend time=900 complete=1\n"
	const next = "process pid=1 start=1000 exe=/bin/next\n"
	const ran = "api pid=1 tid=1 domain=1 name=cuLaunchKernel start=110 dur=10 correlation=3\n"
	const waiting = "api pid=1 tid=1 domain=1 name=cuLaunchKernel start=600 dur=10 correlation=4\napi pid=1 tid=1 domain=1 name=cuLaunchKernel start=620 dur=10 correlation=5\n"
	for name, c := range map[string]struct {
		log                 string
		want, atEnd, atExec uint64
	}{
		"a launch":           {cupti + kernel + launch + "\n" + end, 1, 0, 0},
		"without CUPTI":      {launch + "\n" + end, 0, 0, 0},
		"with a record":      {cupti + kernel + launch + "\napi pid=1 tid=1 domain=1 name=cuLaunchKernel start=110 dur=10 correlation=3\n" + end, 0, 0, 0},
		"in a runtime call":  {cupti + kernel + launch + "\napi pid=1 tid=1 domain=2 name=cudaLaunchKernel start=90 dur=90 correlation=3\n" + end, 0, 0, 0},
		"that failed":        {cupti + kernel + launch + "ret=1\n" + end, 0, 0, 0},
		"that did not end":   {cupti + kernel + launch + "flags=2\n" + end, 0, 0, 0},
		"of no GPU work":     {cupti + kernel + "call pid=1 tid=1 func=cuMemAlloc_v2 enter=100 dur=50\n" + end, 0, 0, 0},
		"after CUPTI's word": {cupti + kernel + "call pid=1 tid=1 func=cuLaunchKernel enter=710 dur=50\n" + end, 0, 1, 0},
		"that did not run":   {cupti + kernel + ran + waiting + end, 0, 2, 0},
		"that was lost":      {cupti + kernel + ran + waiting + "lost cause=cupti_queue count=2\n" + end, 0, 0, 0},
		"that was captured":  {cupti + kernel + ran + waiting + "api pid=1 tid=1 domain=1 name=cuStreamEndCapture start=640 dur=5 correlation=6\n" + end, 0, 0, 0},
		"during exec":        {cupti + "process pid=1 start=50 exe=/bin/first\n" + next + kernel + "call pid=1 tid=1 func=cuLaunchKernel enter=710 dur=50\n" + end + "process_end pid=1 time=1100 complete=1 until=1050\n", 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJoining(t, logtest.Assemble(t, definitionsOfTests+c.log), Options{}).run()
			j.timeline()
			if got := j.Found.Calls; got.Uncorrelated != c.want || got.AtEnd != c.atEnd || got.AtExec != c.atExec {
				t.Errorf("%d calls are uncorrelated, %d were made at the end and %d at exec, want %d, %d and %d", got.Uncorrelated, got.AtEnd, got.AtExec, c.want, c.atEnd, c.atExec)
			}
		})
	}
}

// The outermost launch names its kernel, unless its work does.
func TestKernelsOfLaunches(t *testing.T) {
	t.Parallel()
	const symbols = `
symbol pid=1 time=10 handle=0x10 name=k
symbol pid=1 time=10 handle=0x20 name=l
`
	runJoinTests(t, []joinTest{
		{"by its handle", symbols + `
call pid=1 tid=1 func=cuLaunchKernel enter=100 dur=50 args: f=0x10 stream=0
call pid=1 tid=1 func=cuLaunchKernel enter=200 dur=50 args: f=0x20 stream=0
call pid=1 tid=1 func=cuLaunchKernel enter=300 dur=50 args: f=0x30 stream=0`, `
			thread 1:
			cuLaunchKernel 100-150 [16 0] kernel=k
			cuLaunchKernel 200-250 [32 0] kernel=l
			cuLaunchKernel 300-350 [48 0]`, "Pairs=3 Calls=3 Launches=3 Unnamed=1", Options{}},
		{"by its work", symbols + `
call pid=1 tid=1 func=cuLaunchKernel enter=100 dur=50 args: f=0x10 stream=0
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=110 dur=10 correlation=3
kernel pid=1 context=1 stream=7 start=120 dur=5 correlation=3 name=k`, `
			thread 1:
			cuLaunchKernel 100-150 [16 0] c3 -> k on 7
			stream 1/7:
			k 120-125 by cuLaunchKernel@100`, "Pairs=1 APIs=1 Joined=1 Calls=1 Launches=1 Kernels=1 Matched=1", Options{}},
		{"by the work of the call around it", symbols + `
api pid=1 tid=1 domain=2 name=cudaLaunchKernel start=90 dur=100 correlation=3
call pid=1 tid=1 func=cuLaunchKernel enter=100 dur=50 args: f=0x10 stream=0
kernel pid=1 context=1 stream=7 start=120 dur=5 correlation=3 name=k
call pid=1 tid=1 func=cuLaunchKernel enter=200 dur=50 args: f=0x20 stream=0`, `
			thread 1:
			cudaLaunchKernel 90-190 c3 -> k on 7
			  cuLaunchKernel 100-150 [16 0]
			cuLaunchKernel 200-250 [32 0] kernel=l
			stream 1/7:
			k 120-125 by cudaLaunchKernel@90`, "Pairs=2 APIs=1 Joined=1 Calls=2 Launches=2 Kernels=1 Matched=1", Options{}},
	})
}

// nested returns a log of a call around many, with its record before theirs or behind them.
func nested(t testing.TB, calls, perBlock int, outerFirst bool) logtest.Opener {
	t.Helper()
	g := logtest.NewGrowing(t)
	g.Append("function id=1 name=cudaMalloc library=runtime\nfunction id=2 name=cudaLaunchKernel library=runtime\nprocess pid=1 start=1")
	outer := fmt.Sprintf("call pid=1 tid=1 func=#2 enter=100 dur=%d", 10*calls+10)
	if outerFirst {
		g.Append(outer)
	}
	for from := 0; from < calls; from += perBlock {
		block := ""
		for i := from; i < min(from+perBlock, calls); i++ {
			block += fmt.Sprintf("call pid=1 tid=1 func=#1 enter=%d dur=5\n", 110+10*i)
		}
		g.Append(block)
	}
	if !outerFirst {
		g.Append(outer)
	}
	g.Finish(tracelog.End{Time: uint64(1000 + 10*calls), Complete: 1})
	return logtest.InMemory(g.Bytes())
}

// A call that is open for long does not hold back all calls within it.
func TestLongCall(t *testing.T) {
	t.Parallel()
	const calls, bound = 30_000, 8000
	budget := DefaultBudget()
	budget.Calls.Most = bound
	j := newJoining(t, nested(t, calls, 1000, true), Options{Budget: budget})
	most := 0
	j.eachBlock(func() { j.threads.each(func(s *stack) { most = max(most, s.pending.len()) }) })
	if most > bound || most < bound/2 {
		t.Errorf("%d calls were held back, of at most %d", most, bound)
	}
	slices := j.timeline().Processes[0].Threads[0].Slices
	if len(slices) != calls+1 || slices[0].Depth != 0 || slices[0].End != 110+10*calls {
		t.Fatalf("%d slices, the first of which is %s", len(slices), sliceText(&slices[0], nil))
	}
	for i := range slices[1:] {
		if sl := &slices[1+i]; sl.Depth != 1 || sl.Start != uint64(110+10*i) || sl.End != sl.Start+5 {
			t.Fatalf("slice %d is %s", i, sliceText(sl, nil))
		}
	}
}

// Calls that wait for too long for the record of a call around them are shown without it.
func TestRecordsBudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget int
		late   uint64
	}{"enough": {1 << 20, 0}, "too small": {100, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget := DefaultBudget()
			budget.Records.Most = c.budget
			j := newJoining(t, nested(t, 1000, 10, false), Options{Budget: budget})
			j.eachBlock(func() {
				if held := j.threads.held(); held > c.budget {
					t.Errorf("%d records are held back, of at most %d", held, c.budget)
				}
			})
			if j.Found.Late != c.late || budget.Records.held != 0 || budget.Calls.held != 0 {
				t.Errorf("%d calls are late, want %d; %+v is held in the end", j.Found.Late, c.late, budget)
			}
			if slices := j.timeline().Processes[0].Threads[0].Slices; len(slices) != 1001 {
				t.Errorf("%d slices", len(slices))
			}
		})
	}
}

// Logs share a budget.
func TestBudgetOfSeveral(t *testing.T) {
	t.Parallel()
	b := Bound{Most: 100}
	var first, second int
	for i, step := range []struct {
		of   *int
		n    int
		over bool
	}{{&first, 60, false}, {&second, 40, false}, {&second, 41, true}, {&first, 59, false}} {
		if b.set(step.of, step.n); b.over() != step.over {
			t.Errorf("step %d: %d rows are too many: %t", i, b.held, b.over())
		}
	}
}

// Records of every kind wait for earlier ones in later blocks. With a small budget they do not, and none is lost: those
// that come too late then are counted.
func TestRecordsOfAllKindsBudget(t *testing.T) {
	t.Parallel()
	const records = 40
	kinds := map[string]string{ // a record at a time
		"marker":   "marker pid=1 tid=1 flags=0x1 id=0 time=%d name=m",
		"state":    "thread_state pid=1 tid=1 start=%d dur=5 state=1",
		"sample":   "thread_sample pid=1 tid=1 time=%d",
		"function": "function_event pid=1 tid=1 func=1 time=%d flags=0x5",
		"overhead": "overhead pid=1 tid=1 overhead_kind=1 start=%d dur=5",
		"pool":     "memory_pool pid=1 time=%d operation=1 pool_kind=1 address=0x1 size=8 used=4",
	}
	for kind, record := range kinds {
		late := uint64(1)
		if kind == "pool" { // the bytes of the pool, and the slice of what was done
			late = 2
		}
		for name, c := range map[string]struct {
			most int
			late uint64
		}{"enough": {1 << 20, 0}, "too few": {10, late}} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				g := logtest.NewGrowing(t)
				g.Append("function id=1 name=f library=mine\nprocess pid=1 start=1")
				for i := range records {
					g.Append(fmt.Sprintf(record, 1000+10*i))
				}
				g.Append(fmt.Sprintf(record, 905))
				g.Finish(tracelog.End{Time: 5000, Complete: 1})
				budget := DefaultBudget()
				budget.Records.Most = c.most
				j := newJoining(t, logtest.InMemory(g.Bytes()), Options{Budget: budget}).runInSteps()
				if j.Found.Late != c.late || budget.Records.held+budget.Calls.held+budget.Spans.held != 0 {
					t.Errorf("%d records are late, want %d; %+v is held in the end", j.Found.Late, c.late, *budget)
				}
				p, shown := j.timeline().Processes[0], 0
				for _, th := range p.Threads {
					shown += len(th.States) + len(th.Stacks)
					for _, track := range th.Tracks {
						shown += len(track.Spans)
					}
				}
				for _, track := range p.Tracks {
					shown += len(track.Spans)
				}
				want := records + 1
				if kind == "state" && c.late > 0 { // a thread has one state at a time
					want--
				}
				if shown != want {
					t.Errorf("%d records are shown, want %d", shown, want)
				}
			})
		}
	}
}
