package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// chromeTo writes the Chrome trace of a log with one process, uncompressed.
func chromeTo(tb testing.TB, open logtest.Opener, w io.Writer) {
	tb.Helper()
	if _, _, err := toTrace([]Log{{"test", open}}, w, TraceOptions{Format: FormatNamed("chrome"), Compress: output.None}); err != nil {
		tb.Fatal(err)
	}
}

// A chromeFile is one file of a Chrome trace.
type chromeFile struct{ bytes.Buffer }

// chromeFilesOf makes the files of the Chrome trace of a log, uncompressed.
func chromeFilesOf(tb testing.TB, open logtest.Opener, o TraceOptions) (files []*chromeFile, sum Summary) {
	tb.Helper()
	c := newConversion([]Log{{"test", open}}, o.Options)
	must.Do(tb, c.read())
	o.Format, o.Compress = FormatNamed("chrome"), output.None
	all := must.Get(c.write(o, func(string) (io.Writer, error) {
		files = append(files, new(chromeFile))
		return files[len(files)-1], nil
	}))(tb)
	return files, all[0]
}

// A chromeEvent is an event of a Chrome trace.
type chromeEvent struct {
	Ph, Cat, Name string
	PID, TID      uint32
	TS, Dur       json.Number
	ID            uint64
	Args          map[string]any
}

// A chromeTrace is a Chrome trace as a reader has it.
type chromeTrace struct {
	SchemaVersion       int
	Host                string `json:"host_name"`
	DisplayTimeUnit     string
	BaseTimeNanoseconds uint64
	DeviceProperties    []map[string]any
	TraceEvents         []chromeEvent
}

// parse reads a file. It fails the test when the file is not valid JSON in UTF-8.
func (f *chromeFile) parse(tb testing.TB) *chromeTrace {
	tb.Helper()
	if !utf8.Valid(f.Bytes()) {
		tb.Fatal("the JSON is not UTF-8")
	}
	var tr chromeTrace
	if err := json.Unmarshal(f.Bytes(), &tr); err != nil {
		tb.Fatalf("%v\n%s", err, f)
	}
	tr.nests(tb)
	return &tr
}

// nests fails the test when two slices of a thread cross: readers drop one of them.
func (tr *chromeTrace) nests(tb testing.TB) {
	tb.Helper()
	type extent struct{ start, end int64 }
	threads := make(map[[2]uint32][]extent)
	for _, e := range tr.TraceEvents {
		if e.Ph == "X" {
			start := nanoseconds(tb, e.TS)
			key := [2]uint32{e.PID, e.TID}
			threads[key] = append(threads[key], extent{start, start + nanoseconds(tb, e.Dur)})
		}
	}
	for key, list := range threads {
		slices.SortStableFunc(list, func(a, b extent) int { return cmp.Compare(a.start, b.start) })
		var open []int64
		for _, x := range list {
			for len(open) > 0 && open[len(open)-1] <= x.start {
				open = open[:len(open)-1]
			}
			if len(open) > 0 && open[len(open)-1] < x.end {
				tb.Fatalf("slices of thread %d of process %d cross at %d", key[1], key[0], x.start)
			}
			open = append(open, x.end)
		}
	}
}

// nanoseconds reads a time in microseconds with three decimals.
func nanoseconds(tb testing.TB, us json.Number) int64 {
	whole, part, _ := strings.Cut(us.String(), ".")
	ns, err := strconv.ParseInt(whole+part, 10, 64)
	if err != nil || len(part) != 3 {
		tb.Fatalf("%s is not a time in microseconds with three decimals", us)
	}
	return ns
}

// compareChrome reads the Chrome trace of a log with the trace processor. It has the slices and the launch arrows of
// the Perfetto trace, with the same total times.
func compareChrome(t *testing.T, open logtest.Opener, tr *tptest.Trace) {
	t.Helper()
	files, sum := chromeFilesOf(t, open, TraceOptions{})
	var paths []string
	for i, f := range files {
		f.parse(t)
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.json", i))
		must.Do(t, os.WriteFile(path, f.Bytes(), 0o644))
		paths = append(paths, path)
	}
	tptest.SameChrome(t, tr, paths, sum.Early)
}

// TestChromeGolden shows the Chrome traces of some logs, and of the beginning of a recording on a
// real GPU.
func TestChromeGolden(t *testing.T) {
	for _, name := range []string{
		"callers", "exec", "graph", "memory", "metrics", "nvtx", "python/autograd", "python/operators", "python/operatorspans",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := must.Get(os.ReadFile("testdata/" + name + ".log.txt"))(t)
			var f Filter
			if name == "nvtx" || name == "metrics" {
				f.Steps.Ranges = pattern.Ranges{Name: "step", Domain: "*"}
			}
			holdChrome(t, filepath.Base(name), logtest.Assemble(t, string(text)), TraceOptions{Options: Options{Filter: f}})
		})
	}
	t.Run("streams", func(t *testing.T) {
		t.Parallel()
		log := Path("../testdata/gpu/logs/streams.cudatrace")
		holdChrome(t, "streams", log.Open, TraceOptions{Options: Options{Filter: Filter{From: streamsFrom, To: streamsTo}}})
	})
}

// Each piece of GPU work of a real program is in the operator with its External id, which lies around its launch and
// nothing else with work. Operators cross neither Python functions nor calls, which parse checks.
func TestChromeOperators(t *testing.T) {
	t.Parallel()
	files, _ := chromeFilesOf(t, Path("../testdata/gpu/logs/operators.cudatrace").Open, TraceOptions{})
	operators, linked := make(map[any]*chromeEvent), 0
	tr := files[0].parse(t)
	for i, e := range tr.TraceEvents {
		if e.Cat == "cpu_op" {
			if operators[e.Args["External id"]] != nil {
				t.Errorf("two operators have the External id %v", e.Args["External id"])
			}
			operators[e.Args["External id"]] = &tr.TraceEvents[i]
		}
	}
	for _, e := range tr.TraceEvents {
		o := operators[e.Args["External id"]]
		switch {
		case e.Cat == "kernel" || e.Cat == "gpu_memcpy" || e.Cat == "gpu_memset":
			if linked++; o == nil {
				t.Fatalf("%s has no operator", e.Name)
			}
		case e.Cat == "cuda_runtime" && o != nil:
			stack, _ := e.Args["operator"].(string)
			from, to := nanoseconds(t, o.TS), nanoseconds(t, o.TS)+nanoseconds(t, o.Dur)
			at := nanoseconds(t, e.TS)
			innermost, _, _ := strings.Cut(stack, " <- ")
			if innermost != o.Name || from >= at || to <= at+nanoseconds(t, e.Dur) {
				t.Errorf("%s in %s at %d is in operator %s from %d to %d", e.Name, stack, at, o.Name, from, to)
			}
		}
	}
	if linked != 1694 {
		t.Errorf("%d pieces of GPU work, not 1694", linked)
	}
}

// The time of the first round of streams.cudatrace.
const (
	streamsFrom = 386 * time.Millisecond
	streamsTo   = 386_400 * time.Microsecond
)

// holdChrome compares the Chrome trace of a log with its golden file.
func holdChrome(t *testing.T, name string, open logtest.Opener, o TraceOptions) {
	t.Helper()
	files, _ := chromeFilesOf(t, open, o)
	var got bytes.Buffer
	for _, f := range files {
		f.parse(t)
		got.Write(f.Bytes())
	}
	golden := "testdata/chrome/" + name + ".json"
	goldentest.Hold(t, golden, got.String())
}

// Arrows join calls that waited and the work that they waited for, as in the Perfetto trace. (The
// trace processor turns an arrow that leads to a slice which began earlier.)
func TestChromeWaitsProcessor(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"streams", "nvtx", "nccl-rank0"} {
		log := Path("../testdata/gpu/logs/" + name + ".cudatrace")
		files, _ := chromeFilesOf(t, log.Open, TraceOptions{})
		path := filepath.Join(t.TempDir(), "chrome.json")
		must.Do(t, os.WriteFile(path, files[0].Bytes(), 0o644))
		tr := tptest.Open(t, path)
		tptest.NoErrors(t, tr)
		mixed := tr.Int(`select count(*) from flow join slice a on a.id = slice_out join slice b on b.id = slice_in
			where extract_arg(flow.arg_set_id, 'cat') = 'wait' and (a.category glob 'cuda*') = (b.category glob 'cuda*')`)
		if mixed != 0 {
			t.Errorf("%s: %d arrows join two calls, or two pieces of work", name, mixed)
		}
		n := tr.Int(`select count(*) from flow where extract_arg(arg_set_id, 'cat') = 'wait'`)
		all := traceOfLogs(t, TraceOptions{}, log).Int(`select count(*) from flow
			join gpu_slice g on g.id = slice_out join slice b on b.id = slice_in where b.category in ('runtime', 'driver')`)
		if n != all || n == 0 {
			t.Errorf("%s: %d arrows to calls that waited, want %d", name, n, all)
		}
	}
}

// Each rank's file has the path of its steps on a thread of its own, as in the trace of all ranks: through what another
// rank did, too.
func TestChromePathsProcessor(t *testing.T) {
	t.Parallel()
	logs := []Log{Path("../testdata/gpu/logs/nccl-rank0.cudatrace"), Path("../testdata/gpu/logs/nccl-rank1.cudatrace")}
	const spans = ` select s.ts - min(s.ts) over (), s.dur, s.name, extract_arg(s.arg_set_id, '%[1]s.step'),
		extract_arg(s.arg_set_id, '%[1]s.kind'), extract_arg(s.arg_set_id, '%[1]s.on')
		from slice s where s.category = 'critical_path' and s.track_id in (%s) order by s.ts, s.dur`
	all := traceOfLogs(t, TraceOptions{}, logs...)
	folder := filepath.Join(t.TempDir(), "trace.pt.trace")
	must.Get(Files(logs, folder, TraceOptions{Format: FormatNamed("chrome"), Compress: output.None}))(t)
	for rank := range logs {
		files, err := filepath.Glob(fmt.Sprintf("%s/rank%d_*", folder, rank))
		if err != nil || len(files) != 1 {
			t.Fatalf("%q, %v", files, err)
		}
		tr := tptest.Open(t, files[0])
		tptest.NoErrors(t, tr)
		got := tr.Values(fmt.Sprintf(spans, "args",
			`select thread_track.id from thread_track join thread using (utid) where thread.name = 'critical path'`))
		want := all.Values(fmt.Sprintf(spans, "debug",
			fmt.Sprintf(`select id from process_track where name = 'rank %d · critical path'`, rank)))
		if !reflect.DeepEqual(got, want) || len(got) == 0 {
			t.Errorf("rank %d: %d spans, want %d:\n%v\n%v", rank, len(got), len(want), got, want)
		}
	}
}

// An arrow ends at work only if its call is shown. (Work in its file has an arrow to a call that waited for it.)
func TestChromeFilter(t *testing.T) {
	t.Parallel()
	log := Path("../testdata/gpu/logs/streams.cudatrace")
	for name, want := range map[string]int{"*axpy*": 0, "*": 423 + 22} {
		files, _ := chromeFilesOf(t, log.Open, TraceOptions{Options: Options{Filter: Filter{Name: name}}})
		ends := make(map[string]int)
		for _, e := range files[0].parse(t).TraceEvents {
			ends[e.Ph]++
		}
		if ends["f"] != want || ends["s"] != want || ends["X"] == 0 {
			t.Errorf("%s: events %v, want %d arrows", name, ends, want)
		}
	}
}

// TestChromeLarge makes a Chrome trace in a process of its own: it takes less memory than its text.
// CUDATRACE_LAUNCHES is the number of launches.
func TestChromeLarge(t *testing.T) {
	t.Parallel()
	n := must.Get(strconv.Atoi(cmp.Or(os.Getenv("CUDATRACE_LAUNCHES"), "200000")))(t)
	path := filepath.Join(t.TempDir(), "large.cudatrace")
	f := must.Get(os.Create(path))(t)
	logtest.WriteLaunches(t, f, n)
	must.Do(t, f.Close())
	cmd := exec.Command(os.Args[0], "-test.run=^TestConvertForBenchmark$")
	cmd.Env = append(os.Environ(), programMemory, "CUDATRACE_BENCH_LOG="+path, "CUDATRACE_BENCH_FORMAT=chrome", "CUDATRACE_BENCH_COMPRESS=gzip")
	out := must.Run(t, cmd)
	if peak := logtest.Peak(t, out) >> 10; peak > 150 {
		t.Errorf("it took %d MiB of memory", peak)
	}
}

// A Chrome trace has a bounded number of files, and a bounded number of bytes.
func TestChromeBounds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "many.cudatrace")
	b := bomb{fill: times(FormatNamed("chrome").most+1, func(i int) tracelog.Record {
		return &tracelog.Call{PID: uint32(i + 1), TID: 1, Func: 2, Enter: 1000 + uint64(i), Dur: 1}
	})}
	must.Do(t, os.WriteFile(path, b.log(t), 0o600))
	_, err := Files([]Log{Path(path)}, filepath.Join(filepath.Dir(path), "out/"), TraceOptions{Format: FormatNamed("chrome")})
	if err == nil || !strings.Contains(err.Error(), "more than 256 files, one for each process: choose processes") {
		t.Errorf("the error is %v", err)
	}
	left := int64(10)
	one, two := bounded{io.Discard, &left}, bounded{io.Discard, &left}
	for i, w := range []*bounded{&one, &two} {
		if _, err := w.Write([]byte("123456")); (err == nil) != (i == 0) {
			t.Errorf("file %d: %v", i, err)
		}
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("the folder has %v, %v", list, err)
	}
}
