package read

import (
	"fmt"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// mergedCalls returns the calls of all threads of a log, a line each, by thread.
func mergedCalls(t testing.TB, open logtest.Opener) (map[ThreadKey][]string, Counts) {
	t.Helper()
	c := numbered(t, open)
	var counts Counts
	calls := NewCalls(c, &Wanted{}, &counts)
	threads := make(map[ThreadKey]*Merger[Call])
	for r := openLog(t, open); r.Next(); {
		if p := PlacementOf(r.Block().Kind); p == nil {
			continue
		}
		calls.Add(r, func(pid, tid uint32) *Merger[Call] {
			key := ThreadKey{PID: pid, TID: tid}
			if threads[key] == nil {
				threads[key] = calls.Thread(c.Processes.Get(pid))
			}
			return threads[key]
		})
	}
	lines := make(map[ThreadKey][]string)
	for key, m := range threads {
		m.Until(never, true)
		for c := m.Next(); c != nil; c = m.Next() {
			lines[key] = append(lines[key], callText(c))
		}
	}
	return lines, counts
}

func callText(c *Call) string {
	s := fmt.Sprintf("%d-%d %s %s%d", c.Start, c.End, c.Function.Library, c.Function.Name, c.Arguments.Args)
	add := func(name string, v int64) {
		if v != 0 {
			s += fmt.Sprintf(" %s=%d", name, v)
		}
	}
	add("ret", int64(c.Ret))
	add("flags", int64(c.Flags))
	add("correlation", int64(c.Correlation))
	add("program", int64(c.Program))
	if c.Caller != nil {
		s += " in " + c.Caller.Function
	}
	return s
}

// A call has what its record says; where it had not returned it ends when its program did.
func TestCalls(t *testing.T) {
	t.Parallel()
	const functions = `function id=1 name=cuLaunchKernel library=driver args="function:handle gridX:u32"
function id=2 name=cudaMalloc library=runtime args="devPtr:ptr size:size"
`
	for _, test := range []struct {
		name, log string
		want      []string
	}{
		{"a uprobe pair", functions + "call pid=1 tid=1 func=#2 enter=100 dur=50 ret=2 args: devPtr=9 size=8",
			[]string{"100-150 runtime cudaMalloc[9 8] ret=2"}},
		{"callers", functions + `caller id=1 function=cudaLaunchKernel module=a build_id="" address=1 symbol=""
call pid=1 tid=1 func=#1 enter=100 dur=1 caller=1
call pid=1 tid=1 func=#1 enter=200 dur=1
call pid=1 tid=1 func=#1 enter=300 dur=1 caller=2
api pid=1 tid=1 domain=1 name=f start=400 dur=1 caller=1`,
			[]string{"100-101 driver cuLaunchKernel[] in cudaLaunchKernel", "200-201 driver cuLaunchKernel[]",
				"300-301 driver cuLaunchKernel[]", "400-401 driver f[] in cudaLaunchKernel"}},
		{"a negative result", functions + "call pid=1 tid=1 func=#2 enter=100 dur=50 ret=-1",
			[]string{"100-150 runtime cudaMalloc[] ret=-1"}},
		{"API records of both domains", "api pid=1 tid=1 domain=2 cbid=211 name=cudaLaunchKernel start=100 dur=50 correlation=7\napi pid=1 tid=1 domain=1 cbid=307 name=cuLaunchKernel start=110 dur=30 correlation=7 ret=700",
			[]string{"100-150 runtime cudaLaunchKernel[] correlation=7", "110-140 driver cuLaunchKernel[] ret=700 correlation=7"}},
		{"a name of both domains", "api pid=1 tid=1 domain=2 cbid=1 name=f start=100 dur=50\napi pid=1 tid=1 domain=1 cbid=1 name=f start=110 dur=30\napi pid=1 tid=1 domain=2 cbid=1 name=f start=120 dur=5",
			[]string{"100-150 runtime f[]", "110-140 driver f[]", "120-125 runtime f[]"}},
		{"a function that the log does not describe", "call pid=1 tid=1 func=#77 enter=100 dur=50",
			[]string{"100-150  function 77[]"}},
		{"calls of several functions in turn", functions + "call pid=1 tid=1 func=#1 enter=100 dur=1\ncall pid=1 tid=1 func=#2 enter=200 dur=1\ncall pid=1 tid=1 func=#1 enter=300 dur=1",
			[]string{"100-101 driver cuLaunchKernel[]", "200-201 runtime cudaMalloc[]", "300-301 driver cuLaunchKernel[]"}},
		{"a call that had not returned when its process ended", functions + "call pid=1 tid=1 func=#1 enter=100 flags=1\nprocess_end pid=1 time=900\nnote time=1000",
			[]string{"100-900 driver cuLaunchKernel[] flags=1"}},
		{"a call that had not returned at the end of the log", functions + "call pid=1 tid=1 func=#1 enter=100 flags=1\nnote time=1000",
			[]string{"100-1000 driver cuLaunchKernel[] flags=1"}},
		{"a call that was entered behind the end of its process", functions + "call pid=1 tid=1 func=#1 enter=950 flags=1\nprocess_end pid=1 time=900",
			[]string{"950-950 driver cuLaunchKernel[] flags=1"}},
		{"a call that was left without a return", functions + "call pid=1 tid=1 func=#1 enter=100 flags=2\nnote time=1000",
			[]string{"100-100 driver cuLaunchKernel[] flags=2"}},
		{"the longest durations", functions + "call pid=1 tid=1 func=#1 enter=100 dur=9223372036854775707\napi pid=1 tid=1 domain=1 name=f start=100 dur=9223372036854775707",
			[]string{"100-9223372036854775807 driver cuLaunchKernel[]", "100-9223372036854775807 driver f[]"}},
		{"calls of the programs of a process", functions + `process pid=1 start=50
process pid=1 start=500
call pid=1 tid=1 func=#1 enter=100 dur=50
call pid=1 tid=1 func=#1 enter=200 flags=1
call pid=1 tid=1 func=#1 enter=490 dur=20
api pid=1 tid=1 domain=1 name=f start=300 dur=100
api pid=1 tid=1 domain=1 name=f start=450 dur=100
process_end pid=1 time=900`,
			[]string{"100-150 driver cuLaunchKernel[]", "200-490 driver cuLaunchKernel[] flags=1", "300-400 driver f[]", "450-550 driver f[] program=1", "490-510 driver cuLaunchKernel[] program=1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lines, _ := mergedCalls(t, logtest.Assemble(t, test.log))
			goldentest.Same(t, test.want, lines[ThreadKey{PID: 1, TID: 1}], "calls")
		})
	}
}

// Calls go to their threads. CUPTI numbers these in the process's namespace.
func TestCallsOfThreads(t *testing.T) {
	t.Parallel()
	const log = `thread pid=1 tid=100 local_tid=7
thread pid=1 tid=7 local_tid=8
call pid=1 tid=100 func=#1 enter=10 dur=1
call pid=1 tid=7 func=#1 enter=20 dur=1
call pid=2 tid=7 func=#1 enter=30 dur=1
api pid=1 tid=7 domain=1 name=f start=11 dur=1
api pid=1 tid=8 domain=1 name=f start=21 dur=1
api pid=2 tid=7 domain=1 name=f start=31 dur=1
`
	want := map[ThreadKey][]string{
		{PID: 1, TID: 100}: {"10-11  function 1[]", "11-12 driver f[]"},
		{PID: 1, TID: 7}:   {"20-21  function 1[]", "21-22 driver f[]"},
		{PID: 2, TID: 7}:   {"30-31  function 1[]", "31-32 driver f[]"},
	}
	got, counts := mergedCalls(t, logtest.Assemble(t, log))
	goldentest.Same(t, want, got, "calls")
	if counts != (Counts{Pairs: 3, APIs: 3}) {
		t.Errorf("counted are %+v", counts)
	}
}
