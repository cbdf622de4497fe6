package join

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// GPU work finds its call by the correlation ID, in whatever order the log has the two.
func TestWork(t *testing.T) {
	t.Parallel()
	const launch = "\napi pid=1 tid=1 domain=1 name=cuLaunchKernel start=100 dur=50 correlation=3\n"
	const kernel = "\nkernel pid=1 context=1 stream=7 start=200 dur=5 correlation=3 name=k\n"
	const matched = `
			thread 1:
			cuLaunchKernel 100-150 c3 -> k on 7
			stream 1/7:
			k 200-205 by cuLaunchKernel@100`
	const counts = "APIs=1 Unprobed=1 Calls=1 Launches=1 Kernels=1 Matched=1"
	runJoinTests(t, []joinTest{
		{"behind its call", launch + kernel, matched, counts, Options{}},
		{"before its call", kernel + launch, matched, counts, Options{}},
		{"that starts before its call", launch + `
kernel pid=1 context=1 stream=7 start=90 dur=5 correlation=3 name=k`, `
			thread 1:
			cuLaunchKernel 100-150 c3 -> k on 7
			stream 1/7:
			k 90-95 by cuLaunchKernel@100`, counts + " Early=1", Options{}},
		{"without a correlation ID", launch + `
kernel pid=1 context=1 stream=7 start=200 dur=5 name=k`, `
			thread 1:
			cuLaunchKernel 100-150 c3
			stream 1/7:
			k 200-205`, "APIs=1 Unprobed=1 Calls=1 Launches=1 Kernels=1", Options{}},
		{"of another process's call", launch + `
process pid=2 start=1
kernel pid=2 context=1 stream=7 start=200 dur=5 correlation=3 name=k`, `
			thread 1:
			cuLaunchKernel 100-150 c3
			stream 1/7:
			k 200-205`, "APIs=1 Unprobed=1 Calls=1 Launches=1 Unnamed=1 Kernels=1", Options{}},
		{"of all kinds", `
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=100 dur=50 correlation=3
memcpy pid=1 context=1 stream=7 start=200 dur=5 correlation=3
memset pid=1 context=1 stream=7 start=210 dur=5 correlation=3
kernel pid=1 context=1 stream=7 start=220 dur=5 correlation=3 name=k`, `
			thread 1:
			cuGraphLaunch 100-150 c3 -> copy, memset, k on 7
			stream 1/7:
			copy 200-205 by cuGraphLaunch@100
			memset 210-215 by cuGraphLaunch@100
			k 220-225 by cuGraphLaunch@100`,
			"APIs=1 Unprobed=1 Calls=1 Kernels=1 Copies=1 Memsets=1 Matched=3", Options{}},
		{"of two records of one call: the inner one's", `
api pid=1 tid=1 domain=2 name=cudaLaunchKernel start=90 dur=100 correlation=3` + launch + kernel, `
			thread 1:
			cudaLaunchKernel 90-190 c3
			  cuLaunchKernel 100-150 c3 -> k on 7
			stream 1/7:
			k 200-205 by cuLaunchKernel@100`, "APIs=2 Unprobed=2 Calls=1 Launches=1 Kernels=1 Matched=1", Options{}},
		{"without times: at its call's return", launch + `
kernel pid=1 context=1 stream=7 start=0 dur=0 correlation=3 name=k`, `
			thread 1:
			cuLaunchKernel 100-150 c3 -> k on 7
			stream 1/7:
			k 150-150 untimed by cuLaunchKernel@100`, counts, Options{}},
		{"without times and without a call: nowhere", launch + `
kernel pid=1 context=1 stream=7 start=0 dur=0 correlation=4 name=k`, `
			thread 1:
			cuLaunchKernel 100-150 c3
			stream 1/7:`, "APIs=1 Unprobed=1 Calls=1 Launches=1 Kernels=1", Options{}},
		{"of the calls that are read", launch + kernel + `
kernel pid=1 context=1 stream=7 start=300 dur=5 correlation=4 name=l`, `
			thread 1:
			cuLaunchKernel 100-150 c3 -> k on 7
			stream 1/7:
			k 200-205 by cuLaunchKernel@100`, counts + " LeftOut=1", Options{OfCalls: true}},
		{"that is selected", launch + kernel + `
kernel pid=1 context=1 stream=7 start=300 dur=5 correlation=4 name=l`, `
			thread 1:
			stream 1/7:
			l 300-305`, "APIs=1 Unprobed=1 Calls=1 Launches=1 Kernels=2 Matched=1 LeftOut=2", Options{Selection: selection.New(selection.Options{Name: "l"})}},
		{"that a call waited for, the outermost of two", launch + kernel + `
api pid=1 tid=1 domain=2 name=cudaStreamSynchronize start=160 dur=100 correlation=4
call pid=1 tid=1 func=cuStreamSynchronize enter=170 dur=80 args: stream=0
`, `
			thread 1:
			cuLaunchKernel 100-150 c3 -> k on 7
			cudaStreamSynchronize 160-260 c4 <- k
			  cuStreamSynchronize 170-250 [0]
			stream 1/7:
			k 200-205 by cuLaunchKernel@100`,
			"Pairs=1 APIs=2 Joined=1 Unprobed=1 Calls=2 Launches=1 Kernels=1 Matched=1 Arrows=1", Options{}},
	})
}

// Work that came before its call has the order in which it came.
func TestWorkBeforeCall(t *testing.T) {
	t.Parallel()
	open := numbered(t, []string{"process pid=1 start=1\n"}, []string{`kernel pid=1 context=1 stream=7 start=200 dur=5 correlation=3 name=a
kernel pid=1 context=1 stream=7 start=210 dur=5 correlation=3 name=b
kernel pid=1 context=1 stream=7 start=220 dur=5 correlation=3 name=c
`, "api pid=1 tid=1 domain=1 name=cuGraphLaunch start=100 dur=50 correlation=3\n"})
	j := newJoining(t, open, Options{}).runInSteps()
	const want = `thread 1:
cuGraphLaunch 100-150 c3 -> a, b, c on 7
stream 1/7:
a 200-205 by cuGraphLaunch@100
b 210-215 by cuGraphLaunch@100
c 220-225 by cuGraphLaunch@100`
	goldentest.Same(t, want, shortText(j.timeline()), "the timeline")
}

// A driver call gives the stream that it names to the runtime call around it, and to no
// other call: work on that stream teaches which stream the handle is.
func TestStreamOfCalls(t *testing.T) {
	t.Parallel()
	const wait = `
kernel pid=1 context=1 stream=7 start=200 dur=5 correlation=3 name=k
call pid=1 tid=1 func=cuStreamSynchronize enter=300 dur=80 args: stream=0x99`
	for name, c := range map[string]struct {
		around string
		arrows uint64
	}{
		"a runtime call": {"domain=2 name=cudaLaunchKernel", 1},
		"a driver call":  {"domain=1 name=cuLaunchKernelEx", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJoining(t, logtest.Assemble(t, definitionsOfTests+`
api pid=1 tid=1 `+c.around+` start=90 dur=100 correlation=3
call pid=1 tid=1 func=cuLaunchKernel enter=100 dur=50 args: f=1 stream=0x99`+wait), Options{}).run()
			if j.timeline(); j.Found.Waits.Arrows != c.arrows {
				t.Errorf("%d arrows, want %d", j.Found.Waits.Arrows, c.arrows)
			}
		})
	}
}

// Streams without work are announced too, on a GPU that has some.
func TestIdleStreams(t *testing.T) {
	t.Parallel()
	_, counts := joined(t, "", Options{})
	text, _ := joined(t, definitionsOfTests+`
device pid=1 id=0 name=used uuid=00
device pid=1 id=1 name=idle uuid=01
context pid=1 id=1 device=0 null_stream=7
context pid=1 id=2 device=1 null_stream=7
stream pid=1 context=1 id=13
stream pid=1 context=2 id=14
stream pid=1 context=3 id=15
kernel pid=1 context=1 stream=7 start=200 dur=5 name=k`, Options{})
	if want := "stream 1/7:\nk 200-205\nstream 1/13:"; text != want || counts != "" {
		t.Errorf("the timeline is\n%s\nwant\n%s", text, want)
	}
}

// overdue returns a log of calls whose GPU work runs long after them and is read after them.
func overdue(t testing.TB, calls int) logtest.Opener {
	t.Helper()
	g := logtest.NewGrowing(t)
	g.Append("process pid=1 start=1")
	for i := range calls {
		g.Append(fmt.Sprintf("api pid=1 tid=1 domain=1 name=cuLaunchKernel start=%d dur=5 correlation=%d", 100+10*i, 1+i))
	}
	g.Append("memset pid=1 context=1 stream=8 start=999999999 dur=1") // no work after it is read until all calls are
	work := ""
	for i := range calls {
		work += fmt.Sprintf("kernel pid=1 context=1 stream=7 start=%d dur=5 correlation=%d name=k\n", 1_000_000_000+10*i, 1+i)
	}
	g.Append(work)
	g.Finish(tracelog.End{Time: 2e9, Complete: 1})
	return logtest.InMemory(g.Bytes())
}

// Calls that wait for too long for their work are shown without it.
func TestCallsBudget(t *testing.T) {
	t.Parallel()
	const calls = 300
	for name, most := range map[string]int{"enough": calls, "too small": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget := DefaultBudget()
			budget.Calls.Most = most
			j := newJoining(t, overdue(t, calls), Options{Budget: budget}).runInSteps()
			f := &j.Found
			if most == calls && (f.Forced != 0 || f.Work.Matched != calls) || most < calls && (f.Forced < 100 || f.Work.Matched != calls-f.Forced) {
				t.Errorf("%d calls were shown early, %d pieces of work have found their calls", f.Forced, f.Work.Matched)
			}
			if f.Work.Kernels != calls || f.Calls.Calls != calls || budget.Calls.held != 0 {
				t.Errorf("found are %s; %d calls are held in the end", nonZero(*f), budget.Calls.held)
			}
			j.timeline()
		})
	}
}

// A thread whose records come last holds nobody else's calls up: the work of other threads finds its calls meanwhile, a
// copy, which may have several calls, those of its own thread.
func TestLateThread(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		launches int
		calls    int // that may be held back
	}{
		"small budget": {3000, 800},
		"much work":    {windowWork + 20_000, DefaultBudget().Calls.Most},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget := DefaultBudget()
			budget.Calls.Most = test.calls
			j := newJoining(t, lateThread(t, test.launches), Options{Budget: budget}).runInSteps()
			if f := &j.Found; f.Forced != 0 || f.Work.Matched != uint64(test.launches)+2 {
				t.Errorf("%d calls were shown early, %d of %d pieces of work have found their calls", f.Forced, f.Work.Matched, test.launches+2)
			}
			j.timeline()
		})
	}
}

// lateThread returns a log of a thread that launches kernels, and copies at the end or, where it launches much, at the
// start. The only call of another thread is the first of all and comes last.
func lateThread(t testing.TB, launches int) logtest.Opener {
	t.Helper()
	const part = 100
	g := logtest.NewGrowing(t)
	g.Append("process pid=1 start=1")
	copies := launches + 1
	if launches > windowWork {
		copies = 1
	}
	for from := 1; from <= launches+1; from += part {
		var apis, work strings.Builder
		for i := from; i < min(from+part, launches+2); i++ {
			call, kind := "cuLaunchKernel", "kernel name=k"
			if i == copies {
				call, kind = "cuMemcpyAsync", "memcpy"
			}
			start := 1000 + 100_000*i
			fmt.Fprintf(&apis, "api pid=1 tid=1 domain=1 name=%s start=%d dur=50 correlation=%d\n", call, start, i)
			fmt.Fprintf(&work, "%s pid=1 context=1 stream=7 start=%d dur=5 correlation=%d\n", kind, start+100, i)
		}
		if from == 1 {
			work.WriteString("memcpy pid=1 context=1 stream=8 start=950 dur=5 correlation=900000\n")
		}
		g.Append(work.String())
		g.Append(apis.String())
	}
	g.Append("api pid=1 tid=2 domain=1 name=cuMemcpyAsync start=900 dur=50 correlation=900000")
	g.Finish(tracelog.End{Time: 1e12, Complete: 1})
	return logtest.InMemory(g.Bytes())
}

// The table has room for everything that the budget lets wait.
func TestCorrelationTableHoldsTheBudget(t *testing.T) {
	t.Parallel()
	var table correlationTable
	for i := range DefaultBudget().Calls.Most {
		if table.slot(uint32(3*i)) == nil {
			t.Fatalf("no slot for ID %d, the %dth of %d", 3*i, i, DefaultBudget().Calls.Most)
		}
	}
}

// A call waits for its work until so much other work has begun that none will come.
func TestWorkProgress(t *testing.T) {
	t.Parallel()
	var p workProgress
	c := &call{fn: newFunction(t, "cuLaunchKernel")}
	c.Slice.Function = &c.fn.Function
	c.End = 150
	check := func(what string, want bool) {
		t.Helper()
		if got := p.past(c); got != want {
			t.Errorf("%s: past is %t", what, got)
		}
	}
	check("nothing is known", false)
	p.mark(100)
	p.done += 2 * windowWork
	p.mark(150)
	check("what begins with its end may come", false)
	p.mark(151)
	check("nothing has begun since", false)
	p.done += windowWork - 1
	check("not quite enough has begun", false)
	p.done++
	check("enough has begun", true)
	c.End = 151
	check("another call, which ended at the latest mark", false)
	p.mark(timeline.Never)
	check("all is known", true)
	p.mark(7) // no news
	check("all is still known", true)
}

// The marks of progress are no more than the window needs.
func TestWorkProgressBound(t *testing.T) {
	t.Parallel()
	var p workProgress
	for i := range uint64(10_000) {
		p.done += windowWork / 10
		p.mark(1 + i)
		p.mark(1 + i)
	}
	if len(p.marks) > 13 {
		t.Errorf("%d marks", len(p.marks))
	}
	c := &call{fn: newFunction(t, "cuLaunchKernel")}
	if c.End = 1; !p.past(c) {
		t.Error("a call of long ago is waited for")
	}
	if c.End = 9_995; p.past(c) {
		t.Error("a new call is not waited for")
	}
}

// A function that makes work is waited for longest, a failed call shortest.
func TestWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		function string
		ret      int32
		want     uint64
	}{
		{"cuLaunchKernel", 0, windowWork},
		{"cuLaunchKernel", 1, windowOther},
		{"cuOfTomorrow", 0, windowUnknown},
		{"cuOfTomorrow", 1, windowOther},
		{"cuCtxGetDevice", 0, windowOther},
	} {
		x := &call{fn: newFunction(t, c.function)}
		if x.Ret = c.ret; window(x) != c.want {
			t.Errorf("%s that returned %d waits for %d pieces of work, want %d", c.function, c.ret, window(x), c.want)
		}
	}
}

// newFunction returns a function of the driver.
func newFunction(t testing.TB, name string) *read.Function {
	t.Helper()
	c := catalogOf(t, logtest.Assemble(t, "function id=1 name="+name+" library=driver"))
	return c.Functions.ByID(1)
}

// TestWorkIDs holds that no two pieces of work have the same number, whatever correlation
// IDs a log claims, and that ordinary work has its correlation ID.
func TestWorkIDs(t *testing.T) {
	ids, seen := new(WorkIDs), make(map[uint64]bool)
	first, second := new(program), new(program)
	give := func(s *program, correlation uint32) uint64 {
		id := ids.next(s, correlation)
		if id == 0 || seen[id] {
			t.Fatalf("correlation ID %d: work %d is there already", correlation, id)
		}
		seen[id] = true
		return id
	}
	if id := give(second, 0); id <= countedIDs {
		t.Errorf("work without a correlation ID is %d", id)
	}
	for n := uint32(2); n < 100_000; n++ {
		if id := give(first, n^1); id != uint64(n^1) { // out of order
			t.Fatalf("work of call %d is %d", n^1, id)
		}
		if id := give(second, n); id <= countedIDs {
			t.Fatalf("work of another program is %d", id)
		}
	}
	give(first, 500) // of a graph
	r := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		n := r.Uint32()
		if r.IntN(10) > 0 {
			n = n % 4 << 30 >> r.IntN(31)
		}
		give(first, n+uint32(r.IntN(5000)))
	}
	give(first, 1<<32-1)
	give(first, 1<<32-1)
	give(first, 1)
}
