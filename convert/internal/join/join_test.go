package join

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

func TestMain(m *testing.M) { logtest.Main(m) }

// A joining joins a log for a test.
type joining struct {
	t    testing.TB
	open logtest.Opener
	*Joiner
	sink *timelinetest.Collector
	pipe *pipeline.Pipeline
}

// newJoining returns a joiner for a log that has given its processes to a collector.
func newJoining(t testing.TB, open logtest.Opener, o Options) *joining {
	t.Helper()
	if o.IDs == nil {
		o.IDs = new(WorkIDs)
	}
	if o.Budget == nil {
		o.Budget = DefaultBudget()
	}
	j := &joining{t: t, open: open, sink: timelinetest.NewCollector(t)}
	j.pipe = pipeline.New(j.sink)
	j.pipe.Emit(&timeline.Recording{})
	j.Joiner = New(filteredCatalog(t, open, o.Filter), j.pipe, o)
	j.Describe()
	return j
}

// run reads the log.
func (j *joining) run() *joining {
	j.t.Helper()
	must.Do(j.t, j.Run(j.open, func(float64) {}))
	return j
}

// runInSteps reads the log and, behind each block, shows what is known to be in order.
func (j *joining) runInSteps() *joining {
	j.t.Helper()
	return j.eachBlock(func() {})
}

// eachBlock is runInSteps with a look behind each block.
func (j *joining) eachBlock(look func()) *joining {
	j.t.Helper()
	rs := must.Get(read.OpenReaders(j.open, j.catalog.Contents, j.options.Filter))(j.t)
	defer rs.Close()
	for r := rs.Next(); r != nil; r = rs.Next() {
		j.Take(r)
		j.steps()
		look()
	}
	must.Do(j.t, rs.Err())
	j.Finish()
	return j
}

// timeline returns what the collector got.
func (j *joining) timeline() *timelinetest.Timeline {
	j.t.Helper()
	must.Do(j.t, j.pipe.Close())
	must.Do(j.t, j.sink.End(nil))
	return j.sink.Timeline()
}

// joined returns the calls and the work of a log as text, and what was counted.
func joined(t testing.TB, log string, o Options) (text, counts string) {
	t.Helper()
	j := newJoining(t, logtest.Assemble(t, log), o).run()
	return shortText(j.timeline()), nonZero(j.Found)
}

// shortText shows the calls of threads and the work of streams, by the names of kernels:
//
//	thread 1:
//	cudaLaunchKernel 100-200 c5 -> a on 7
//	  cuLaunchKernel 110-190
//	stream 1/7:
//	a 300-350 by cudaLaunchKernel@100
func shortText(tl *timelinetest.Timeline) string {
	names := make(map[uint64]string)
	for _, p := range tl.Processes {
		for _, s := range p.Streams {
			for i := range s.Work {
				names[s.Work[i].ID] = workName(&s.Work[i])
			}
		}
	}
	var lines []string
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			lines = append(lines, fmt.Sprintf("thread %d:", th.TID))
			for i := range th.Slices {
				lines = append(lines, sliceText(&th.Slices[i], names))
			}
		}
		for _, s := range p.Streams {
			lines = append(lines, fmt.Sprintf("stream %d/%d:", s.Context.ID, s.ID))
			for i := range s.Work {
				lines = append(lines, workText(&s.Work[i]))
			}
		}
	}
	return strings.Join(lines, "\n")
}

func workName(w *timeline.Work) string {
	if w.Kind == timeline.KernelWork {
		return w.Shape.Kernel.Name
	}
	return [...]string{timeline.MemcpyWork: "copy", timeline.MemsetWork: "memset"}[w.Kind]
}

func workText(w *timeline.Work) string {
	text := fmt.Sprintf("%s %d-%d", workName(w), w.Start, w.Start+w.Dur)
	if w.Untimed {
		text += " untimed"
	}
	if w.Call.Function != nil {
		text += fmt.Sprintf(" by %s@%d", w.Call.Name, w.Call.Start)
	}
	return text
}

func sliceText(sl *timeline.Slice, names map[uint64]string) string {
	text := fmt.Sprintf("%s%s %d-%d", strings.Repeat("  ", int(sl.Depth)), sl.Name, sl.Start, sl.End)
	if len(sl.Args) > 0 {
		text += fmt.Sprint(" ", sl.Args)
	}
	if sl.Correlation != 0 {
		text += fmt.Sprintf(" c%d", sl.Correlation)
	}
	if sl.Ret != 0 {
		text += fmt.Sprintf(" ret=%d", sl.Ret)
	}
	if sl.Flags != 0 {
		text += fmt.Sprintf(" flags=%d", sl.Flags)
	}
	for i, id := range sl.Work() {
		text += []string{" -> ", ", "}[min(i, 1)] + names[id]
	}
	if sl.Stream != nil {
		text += fmt.Sprint(" on ", sl.Stream.ID)
	}
	for i, w := range sl.Waits() {
		text += []string{" <- ", ", "}[min(i, 1)] + names[w.Work]
	}
	if sl.Kernel != nil {
		text += " kernel=" + sl.Kernel.Name
	}
	return text
}

// nonZero shows the numbers of a struct that are not 0.
func nonZero(v any) string {
	var words []string
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case f.Type() == reflect.TypeFor[Span](): // times are no counts
			case f.Kind() == reflect.Struct:
				walk(f)
			case !f.IsZero() && f.Kind() != reflect.Map && f.Kind() != reflect.Slice:
				words = append(words, fmt.Sprint(v.Type().Field(i).Name, "=", f))
			}
		}
	}
	walk(reflect.ValueOf(v))
	return strings.Join(words, " ")
}

// A joinTest is a log with its timeline and counts. Its functions are definitionsOfTests.
type joinTest struct {
	name, log    string
	text, counts string
	options      Options
}

func runJoinTests(t *testing.T, tests []joinTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text, counts := joined(t, definitionsOfTests+test.log, test.options)
			goldentest.Same(t, strings.ReplaceAll(strings.TrimSpace(test.text), "\t", ""), text, "the timeline")
			goldentest.Same(t, test.counts, counts, "what was counted")
		})
	}
}

// sampleLogs are the logs of package convert's tests, by name.
func sampleLogs(t testing.TB) map[string]string {
	t.Helper()
	logs := make(map[string]string)
	for _, log := range logtest.Texts(t, "../../testdata") {
		logs[log.Name] = log.Text
	}
	return logs
}

// definitions splits the lines of a log into definitions and others.
func definitions(log string) (defs, others []string) {
	for line := range strings.Lines(log) {
		kind, _, _ := strings.Cut(line, " ")
		switch kind {
		case "meta", "function", "process", "thread", "device", "context", "stream", "name", "caller", "clock", "cupti":
			defs = append(defs, line)
		case "#":
		default:
			others = append(others, strings.TrimSuffix(line, "\n")+"\n")
		}
	}
	return defs, others
}

// The timeline and the counts of a log depend neither on the number of steps in which it is
// joined nor on the order of its blocks.
func TestStepsDoNotMatter(t *testing.T) {
	t.Parallel()
	for name, log := range sampleLogs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJoining(t, logtest.Assemble(t, log), Options{}).run()
			want, found := sortedText(j.timeline()), sortedFunctions(j.Found)
			defs, others := definitions(log)
			reversed := slices.Clone(others)
			slices.Reverse(reversed)
			for order, lines := range map[string][]string{"in order": others, "reversed": reversed} {
				if order == "reversed" && strings.Contains(log, " start=0 ") {
					continue // work without a time follows the work before it in the log
				}
				j := newJoining(t, numbered(t, defs, lines), Options{}).runInSteps()
				if diff := cmp.Diff(want, sortedText(j.timeline())); diff != "" {
					t.Errorf("%s: the timeline in steps (-at once +in steps):\n%s", order, diff)
				}
				if diff := cmp.Diff(found, sortedFunctions(j.Found)); diff != "" {
					t.Errorf("%s: the counts in steps (-at once +in steps):\n%s", order, diff)
				}
			}
		})
	}
}

// sortedFunctions sorts the functions of what was found by name. Their numbers have the order in which the
// joiner met them.
func sortedFunctions(f Found) Found {
	var list []FunctionCalls
	for _, of := range f.Calls.Functions {
		if of.Function != nil {
			fn := *of.Function
			fn.ID = 0
			list = append(list, FunctionCalls{&fn, of.Calls})
		}
	}
	slices.SortFunc(list, func(a, b FunctionCalls) int {
		return strings.Compare(a.Function.Name+" "+a.Function.Driver, b.Function.Name+" "+b.Function.Driver)
	})
	f.Calls.Functions = list
	return f
}

// With next to no budget nothing is lost, whatever the order of a log, and nothing is held in the end.
func TestNoBudget(t *testing.T) {
	t.Parallel()
	for name, log := range sampleLogs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJoining(t, logtest.Assemble(t, log), Options{}).run()
			want := shown(j)
			defs, others := definitions(log)
			reversed := slices.Clone(others)
			slices.Reverse(reversed)
			for order, lines := range map[string][]string{"in order": others, "reversed": reversed} {
				budget := new(Budget)
				j := newJoining(t, numbered(t, defs, lines), Options{Budget: budget}).runInSteps()
				if diff := cmp.Diff(want, shown(j)); diff != "" {
					t.Errorf("%s: what is shown (-without a bound +with next to no budget):\n%s", order, diff)
				}
				if *budget != (Budget{}) {
					t.Errorf("%s: %+v is held in the end", order, *budget)
				}
			}
		})
	}
}

// shown counts what is shown of a log.
func shown(j *joining) map[string]int {
	n := map[string]int{"records of calls": int(j.Found.Calls.Pairs + j.Found.Calls.APIs), "work": int(j.Found.Work.Total())}
	for _, p := range j.timeline().Processes {
		for _, s := range p.Streams {
			for i := range s.Work {
				if !s.Work[i].Untimed { // what has no time is placed at its call
					n["work on streams"]++
				}
			}
		}
		for _, th := range p.Threads {
			n["samples of threads"] += len(th.Stacks)
		}
	}
	return n
}

// sortedText shows a timeline. The work of a call on several streams has the order in
// which the log names the streams; here it is sorted.
func sortedText(tl *timelinetest.Timeline) string {
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				slices.Sort(th.Slices[i].Work())
			}
		}
	}
	return timelinetest.Text(tl)
}

// numbered makes a log of definitions and a block for each other line.
func numbered(t testing.TB, defs, lines []string) logtest.Opener {
	t.Helper()
	all := strings.Join(defs, "")
	g := logtest.NewGrowing(t)
	g.Append(all)
	ids := make(map[string]string) // functions are known in their own text only
	for _, line := range defs {
		if rest, ok := strings.CutPrefix(line, "function id="); ok {
			id, rest, _ := strings.Cut(rest, " name=")
			name, _, _ := strings.Cut(rest, " ")
			ids["func="+name+" "] = "func=#" + id + " "
		}
	}
	for _, line := range lines {
		for name, id := range ids {
			line = strings.Replace(line, name, id, 1)
		}
		g.Append(line)
	}
	return logtest.InMemory(g.Bytes())
}

var errSink = errors.New("the disk is full")

// A failingSink fails.
type failingSink struct{ taken int }

func (s *failingSink) Take([]timeline.Event) error { s.taken++; return errSink }
func (s *failingSink) End(error) error             { return nil }

// launches returns a log of launches.
func launches(t testing.TB, n int) logtest.Opener {
	t.Helper()
	var log bytes.Buffer
	logtest.WriteLaunches(t, &log, n)
	return logtest.InMemory(log.Bytes())
}

// What keeps a log from being read, or its timeline from being taken, ends the joining.
func TestRunErrors(t *testing.T) {
	t.Parallel()
	open := launches(t, 30_000)
	failed := errors.New("gone")
	j := newJoining(t, open, Options{})
	if err := j.Run(func() (*tracelog.Reader, error) { return nil, failed }, func(float64) {}); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
	j.timeline()
	sink := &failingSink{}
	pipe := pipeline.New(sink)
	j.Joiner = New(catalogOf(t, open), pipe, Options{IDs: new(WorkIDs), Budget: DefaultBudget()})
	steps := 0
	err := j.Run(open, func(float64) { steps++ })
	if closed := pipe.Close(); !errors.Is(closed, errSink) || sink.taken != 1 {
		t.Errorf("the sink was given %d lists of events, the error is %v", sink.taken, closed)
	}
	if err != nil && !errors.Is(err, errSink) || steps == 0 {
		t.Errorf("behind %d steps the error is %v", steps, err)
	}
}

// Run says how far it is, and shows what it has read meanwhile.
func TestRunProgress(t *testing.T) {
	t.Parallel()
	var shares []float64
	var shown []uint64
	j := newJoining(t, launches(t, 30_000), Options{})
	must.Do(t, j.Run(j.open, func(share float64) {
		shares, shown = append(shares, share), append(shown, j.Found.Slices())
	}))
	if len(shares) < 4 || !slices.IsSorted(shares) || shares[0] > 0.5 || shares[len(shares)-1] > 1 || !slices.IsSorted(shown) || shown[0] == 0 {
		t.Errorf("the shares are %v, with %d slices", shares, shown)
	}
	if f := &j.Found; f.Calls.Joined != 30_000 || f.Work.Matched != 30_000 || f.Forced != 0 || f.Slices() != 90_000+300 {
		t.Errorf("found are %s", nonZero(*f))
	}
	j.timeline()
}

// What was found of each process is told, of programs that took one another's place of each.
func TestProcesses(t *testing.T) {
	t.Parallel()
	j := newJoining(t, logtest.Assemble(t, `process pid=5 start=100 exe=/bin/one args="one\x00-v"
process pid=5 start=500 exe=/bin/two args=two
process pid=4 start=100 exe=/bin/idle args=idle
call pid=5 tid=5 func=#1 enter=200 dur=5
call pid=5 tid=6 func=#1 enter=200 dur=5
call pid=5 tid=5 func=#1 enter=600 dur=5
kernel pid=5 context=1 stream=7 start=700 dur=5
kernel pid=5 context=1 stream=8 start=700 dur=5`), Options{Offset: 1000}).run()
	want := []ProcessCounts{
		{PID: 5, Name: "one", Args: []string{"one", "-v"}, Threads: 2, Exit: "exec"},
		{PID: 5, Name: "two", Args: []string{"two"}, Threads: 1, Streams: 2},
		{PID: 4, Name: "idle", Args: []string{"idle"}},
	}
	goldentest.Same(t, want, j.Processes(), "processes")
	j.timeline()
}

// catalogOf returns the catalog of a log with resolved programs and numbered GPUs.
func catalogOf(t testing.TB, open logtest.Opener) *read.Catalog {
	t.Helper()
	return filteredCatalog(t, open, nil)
}

// filteredCatalog returns the catalog of the records that a filter selects.
func filteredCatalog(t testing.TB, open logtest.Opener, filter *tracelog.Filter) *read.Catalog {
	t.Helper()
	r := must.Get(open())(t)
	defer r.Close()
	c := read.NewCatalog(filter)
	must.Do(t, c.Read(r, func(float64) {}))
	must.Do(t, c.Processes.Resolve(open, c.Contents))
	new(read.Inventory).Number(c)
	return c
}

// A thread or a stream that has nothing left to show is not looked at again: with one for each request the time of a
// reading would grow with the square of their number.
func TestCrowdRests(t *testing.T) {
	t.Parallel()
	const crowd = 20_000
	var data bytes.Buffer
	logtest.WriteCrowd(t, &data, crowd, crowd)
	j := newJoining(t, logtest.InMemory(data.Bytes()), Options{})
	var threads, streams, looks int
	must.Do(t, j.Run(j.open, func(float64) {
		looks++
		threads, streams = max(threads, len(j.threads.active)), max(streams, len(j.streams.active))
	}))
	if len(j.threads.all) != crowd || len(j.streams.byKey) != crowd {
		t.Errorf("%d threads and %d streams", len(j.threads.all), len(j.streams.byKey))
	}
	if looks < 3 || threads > crowd/2 || streams > crowd/2 {
		t.Errorf("at one of %d looks %d threads and %d streams of %d are active", looks, threads, streams, crowd)
	}
}

// What is beyond a bound is in the summary and in the trace, with its cause.
func TestNotesOfBounds(t *testing.T) {
	t.Parallel()
	beyond := CollectiveBounds{LeftOut: 3, Unnamed: 1}
	j := newJoining(t, logtest.Assemble(t, sampleLogs(t)["nvtx"]), Options{Collectives: beyond}).run()
	var remarks []string
	for _, r := range j.timeline().Remarks {
		remarks = append(remarks, r.Text)
	}
	for _, note := range j.Found.Notes() {
		if !slices.Contains(remarks, note) {
			t.Errorf("the trace lacks %q", note)
		}
	}
	if n := len(j.Found.Notes()); n != 2 {
		t.Errorf("%d notes: %q", n, j.Found.Notes())
	}
}

// Of graphs that stay, so many captured calls are kept; what is beyond is counted.
func TestCapturesBound(t *testing.T) {
	t.Parallel()
	l := newCaptures(nil, nil, timeline.CapturedBefore)
	l.graphs[1], l.kept = builtGraph{calls: make([]*capturedCall, maxCaptured-1)}, maxCaptured-1
	for i, want := range []bool{true, false, false} {
		if got := l.keep(0); got != want {
			t.Errorf("call %d beyond %d is kept: %t", i, maxCaptured-1, got)
		}
	}
	if l.beyond != 2 {
		t.Errorf("%d are counted, want 2", l.beyond)
	}
	l.graphs[1] = builtGraph{}
	l.trim(0)
	if !l.keep(0) {
		t.Error("nothing is kept where there is room again")
	}
}

// Every state says what its thread waited for, however many reasons there are.
func TestReasonsBound(t *testing.T) {
	t.Parallel()
	times := threadTimes{catalog: new(read.Catalog), blocks: make(map[blockKey]*timeline.Block)}
	k := new(threadTime)
	for i := range uint64(maxBlocks + 2) {
		on := fmt.Sprint("file ", i)
		r := tracelog.ThreadState{Start: 10 * i, Dur: 5, State: tracelog.StateBlocked, Call: "read", On: on}
		if s, ok := times.state(k, &r); !ok || s.Why == nil || s.Why.On != on {
			t.Fatalf("state %d: %+v", i, s)
		}
	}
	if len(times.blocks) != maxBlocks {
		t.Errorf("%d reasons are shared", len(times.blocks))
	}
}
