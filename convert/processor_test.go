package convert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// shownLogs are the logs of which a golden shows the trace as people see it. They have every category of slice, every
// kind of fact and every sort of track.
var shownLogs = []string{
	"autograd", "callers", "captured", "functions", "hang", "memory", "memorycalls", "metrics", "namespace", "nccl",
	"nvtx", "odd", "operators", "operatorspans", "ranges", "ranks", "waits",
}

// comparedLogs are further logs, with forms of slices and tracks that those have not, and chromeLogs those of which the
// Chrome trace has every form.
var (
	comparedLogs = []string{"exec", "graph", "overlap", "pieces", "python", "symbol", "threads", "unreturned", "waitcalls"}
	chromeLogs   = []string{
		"callers", "captured", "graph", "hang", "memory", "metrics", "nccl", "odd", "operators", "operatorspans", "pieces",
		"waitcalls",
	}
)

// TestProcessor shows that the trace of a log has what the timeline has: every slice with its own times, every arrow,
// every value of a counter. The Chrome trace has the same slices and arrows.
func TestProcessor(t *testing.T) {
	for _, log := range slices.Concat(logtest.Texts(t, "testdata"), logtest.Texts(t, "testdata/python")) {
		if !slices.Contains(shownLogs, log.Name) && !slices.Contains(comparedLogs, log.Name) {
			continue
		}
		t.Run(log.Name, func(t *testing.T) {
			t.Parallel()
			open := logtest.Assemble(t, log.Text)
			tl, sum := timelineOf(t, open)
			tr, made := openTrace(t, open)
			compare(t, tl, &sum, tr)
			if slices.Contains(shownLogs, log.Name) {
				compareText(t, tr, log.Golden(".trace"))
			}
			if slices.Contains(chromeLogs, log.Name) {
				compareChrome(t, open, tr)
			}
			if check := shownIn[log.Name]; check != nil {
				check(t, tr)
			}
			states := int64(0) // of threads, which the summary counts too
			for _, p := range tl.Processes {
				for _, th := range p.Threads {
					states += int64(len(th.States))
				}
			}
			if got := tr.Int(`select count(*) from slice`); got+states != int64(made.Slices) || got == 0 {
				t.Errorf("%d slices and %d states of threads, the summary has %d", got, states, made.Slices)
			}
		})
	}
}

// trackName is the name of a track, nil for one that is the thread's own.
func trackName(t *timelinetest.Track) any {
	if t.Title() == "" {
		return nil
	}
	return t.Title()
}

// Records with times that no trace can hold are left out of it, and counted.
func TestProcessorImpossibleTimes(t *testing.T) {
	t.Parallel()
	const valid = `
function id=1 name=cuLaunchKernel library=driver
process pid=1 start=1000
call pid=1 tid=1 func=cuLaunchKernel enter=2000 dur=100
kernel pid=1 context=1 stream=7 start=2050 dur=500 name=k
`
	want, _ := openTrace(t, logtest.Assemble(t, valid))
	tr, sum := openTrace(t, logtest.Assemble(t, valid+`
call pid=1 tid=1 func=cuLaunchKernel enter=2200 dur=9223372036854775808
call pid=1 tid=1 func=cuLaunchKernel enter=18446744073709551600 dur=5
kernel pid=1 context=1 stream=7 start=9223372036854775807 dur=1 name=k
marker pid=1 tid=1 flags=1 id=1 time=18446744073709551615 name=late
note time=9223372036854775808 text=late
process_end pid=1 time=18446744073709551615
`))
	if sum.Lost[tracelog.LostTime] != 6 || sum.Complete || sum.Kernels != 1 || sum.Calls != 1 {
		t.Errorf("%d records refused, complete %t, %d kernels, %d calls", sum.Lost[tracelog.LostTime], sum.Complete, sum.Kernels, sum.Calls)
	}
	const spans = "select ts, dur, name from slice where dur > 0 order by ts"
	if diff := cmp.Diff(want.Query(spans), tr.Query(spans)); diff != "" {
		t.Errorf("(-without +with them):\n%s", diff)
	}
	if n := tr.Int("select count(*) from slice where name glob '*impossible_time*' or extract_arg(arg_set_id, 'debug.cause') = 'impossible_time'"); n != 1 {
		t.Errorf("%d slices name the loss", n)
	}
}

// openTrace loads the trace of a log into the trace processor.
func openTrace(t *testing.T, open logtest.Opener) (*tptest.Trace, Summary) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.pftrace")
	var out bytes.Buffer
	sum := traceTo(t, open, TraceOptions{}, &out)
	must.Do(t, os.WriteFile(path, out.Bytes(), 0o644))
	tr := tptest.Open(t, path)
	tptest.NoErrors(t, tr)
	return tr, sum
}

func compare(t *testing.T, tl *timelinetest.Timeline, s *Summary, tr *tptest.Trace) {
	t.Helper()
	launched := uint64(0) // kernels without a record
	for _, h := range tl.Hangs {
		if h.LaunchStart != 0 {
			launched++
		}
	}
	if got, want := tr.Int(`select count(*) from gpu_slice`), int64(s.Kernels+s.Copies+s.Memsets+launched); got != want {
		t.Errorf("%d GPU slices, want %d", got, want)
	}
	if got, want := tr.Int(`select count(*) from flow`), int64(s.Matched+s.Waits+launched); got != want {
		t.Errorf("%d arrows, want %d", got, want)
	}
	waits := tr.Int(`select count(*) from flow where slice_out in (select id from gpu_slice) and slice_in not in (select id from gpu_slice)`)
	if waits != int64(s.Waits) {
		t.Errorf("%d arrows to waiting calls, want %d", waits, s.Waits)
	}
	want := countsOf(tl)
	for sql, want := range map[string]map[string]int{
		`select s.name, s.ts, s.dur, case when s.category = 'nvtx_gpu' then 'NVTX' when k.type != 'thread_track_event' then k.name end from slice s join track k on s.track_id = k.id
			where s.id not in (select id from gpu_slice) and (k.name is null or k.name not in ('cudatrace', 'Program', 'CUPTI overhead', 'clocks lowered'))`: want.slices,
		`select k.name, ts, cast(value as int), 0 from counter c join counter_track k on c.track_id = k.id where k.name glob '*memory*'`: want.values,
	} {
		got := make(map[string]int)
		for _, r := range tr.Values(sql) {
			got[fmt.Sprint(r...)]++
		}
		if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
			t.Errorf("%s (-want +got):\n%s", sql, diff)
		}
	}
}

// counts are a timeline's slices and values as the trace processor should give them,
// with how often each is there.
type counts struct{ slices, values map[string]int }

func countsOf(tl *timelinetest.Timeline) counts {
	c := counts{make(map[string]int), make(map[string]int)}
	spans := func(tracks []*timelinetest.Track) {
		for _, t := range tracks {
			if t.Category == timeline.CUPTI {
				continue // as far as it lies within CUDA's activity
			}
			for _, sp := range t.Spans {
				c.slices[fmt.Sprint(sp.Name, int64(sp.Start), int64(sp.End-sp.Start), trackName(t))]++
			}
		}
	}
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				sl := &th.Slices[i]
				c.slices[fmt.Sprint(sl.Name, int64(sl.Start), int64(sl.End-sl.Start), nil)]++
			}
			spans(th.Tracks)
		}
		spans(p.Tracks)
		for _, x := range p.Counters {
			for _, v := range x.Points {
				c.values[fmt.Sprint(x.Name, int64(v.Time), int64(v.Value), 0)]++
			}
		}
	}
	return c
}

// shownIn checks what a person sees of a log.
var shownIn = map[string]func(*testing.T, *tptest.Trace){
	"symbol": checkSymbol, "python": checkPython, "autograd": checkPythonSamples, "threads": checkThreads,
}

// checkCells compares all cells of a query.
func checkCells(t *testing.T, tr *tptest.Trace, sql string, want ...any) {
	t.Helper()
	var got []any
	for _, row := range tr.Values(sql) {
		got = append(got, row...)
	}
	goldentest.Same(t, want, got, "%s", sql)
}

// A kernel that no record names has the name of its symbol.
func checkSymbol(t *testing.T, tr *tptest.Trace) {
	checkCells(t, tr, `select extract_arg(arg_set_id, 'debug.kernel') from slice where name glob 'cuLaunchKernel*' and ts = 1200`, "void axpy<float>(float, float const*, float*, int)")
}

// Calls and GPU work have the Python line that made them.
func checkPython(t *testing.T, tr *tptest.Trace) {
	checkCells(t, tr, `select extract_arg(arg_set_id, 'debug.python') from slice where category = 'driver' or category = 'runtime' order by ts`,
		"/home/ann/train.py:7 step", "/home/ann/train.py:41 main", "/home/ann/train.py:41 main", "/usr/lib/python3.12/threading.py:1012 run", nil)
	checkCells(t, tr, `select extract_arg(arg_set_id, 'debug.python_stack') from slice where ts = 2000`,
		"/venv/lib/python3.12/site-packages/torch/nn/functional.py:2317 linear <- /home/ann/train.py:7 step <- /home/ann/train.py:40 main")
	checkCells(t, tr, `select extract_arg(arg_set_id, 'python') from gpu_slice order by ts`, "/home/ann/train.py:7 step", "/home/ann/train.py:41 main", "/usr/lib/python3.12/threading.py:1012 run", nil)
}

// The samples of Python stacks add up to the GPU time of the launches: the log has 20 us of it, and a sample each us.
func checkPythonSamples(t *testing.T, tr *tptest.Trace) {
	tr.Query(`include perfetto module linux.perf.counters`)
	got := make(map[string]int64)
	for _, row := range tr.Values(`with recursive stack(callsite, at, text) as (
			select id, id, '' from stack_profile_callsite where id in (select callsite_id from perf_sample)
			union all select callsite, c.parent_id, f.name || iif(text = '', '', '; ') || text
				from stack join stack_profile_callsite c on c.id = at join stack_profile_frame f on f.id = c.frame_id)
			select tid || ': ' || text, cast(sum(counter_value) as int) from linux_perf_sample_with_counters s
				join thread using (utid) join stack on stack.callsite = s.callsite_id and at is null group by 1`) {
		got[row[0].(string)] = row[1].(int64)
	}
	want := map[string]int64{
		"12: main train.py:40; Net.forward train.py:7; linear torch/nn/functional.py:2317; gemm": 2000,
		"12: main train.py:40; Net.forward train.py:7; linear torch/nn/functional.py:2317; bias": 1000,
		"12: main train.py:40; Net.forward train.py:9; linear torch/nn/functional.py:2317; gemm": 3000,
		"12: main train.py:41; Net.forward train.py:7; relu":                                     1000, // 500 ns, with the 500 ns before of line 9
		"13: (no Python frame: autograd); gemm":                                                  7000,
		"13: BackwardCFunction.apply torch/autograd/function.py:307; scale":                      1000,
		"14: (no Python frame); copy":                                                            1000,
		"12: main train.py:41; adam":                                                             4000,
	}
	goldentest.Same(t, want, got, "ns by stack")
	if n := tr.Int(`select count(*) from perf_sample p where p.ts not in (select g.ts + g.dur from gpu_slice g) and not exists (select 1 from gpu_slice g where p.ts > g.ts and p.ts < g.ts + g.dur)`); n != 0 {
		t.Errorf("%d samples are of times without GPU work", n)
	}
}

// The states of threads and the samples of what they ran are in the tables that the UI draws.
func checkThreads(t *testing.T, tr *tptest.Trace) {
	got := make(map[string]int64)
	for _, row := range tr.Values(`select tid || ' ' || state, sum(dur) from thread_state join thread using (utid) where dur > 0 group by 1`) {
		got[row[0].(string)] = row[1].(int64)
	}
	goldentest.Same(t, map[string]int64{"12 Running": 20300000, "12 S": 90000000, "12 R": 10000000}, got, "ns by state")
	var stacks []string
	for _, row := range tr.Values(`select f.name || ' < ' || coalesce(g.name, '') from perf_sample p join stack_profile_callsite c on p.callsite_id = c.id join stack_profile_frame f on c.frame_id = f.id
			left join stack_profile_callsite d on c.parent_id = d.id left join stack_profile_frame g on d.frame_id = g.id order by p.ts`) {
		stacks = append(stacks, row[0].(string))
	}
	want := []string{"at::add < main train.py:44", "(page fault or interrupt) < at::add", "at::add < python3.12", "python3.12 < "}
	goldentest.Same(t, want, stacks, "innermost frames")
}
