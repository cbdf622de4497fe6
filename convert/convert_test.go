package convert

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

func TestMain(m *testing.M) { logtest.Main(m) }

// TestGolden shows for each log in testdata what becomes of it: the tracks with
// their slices, and the numbers.
func TestGolden(t *testing.T) {
	for _, log := range slices.Concat(logtest.Texts(t, "testdata"), logtest.Texts(t, "testdata/python")) {
		t.Run(log.Name, func(t *testing.T) {
			t.Parallel()
			tl, sum := timelineOf(t, logtest.Assemble(t, log.Text))
			got := timelinetest.Text(tl) + summaryText(&sum)
			goldentest.Hold(t, log.Golden(".golden"), got)
		})
	}
}

// summaryText shows the numbers of a summary as text.
func summaryText(m *Summary) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("processes %d threads %d streams %d", m.ProcessCount, m.ThreadCount, m.StreamCount)
	line("kernels %d copies %d memsets %d calls %d launches %d failed %d unfinished %d",
		m.Kernels, m.Copies, m.Memsets, m.Calls, m.Launches, m.Failed, m.Unfinished)
	for _, name := range ByCount(m.Functions) {
		line("called %s: %d", name, m.Functions[name])
	}
	line("waits %d ambiguous %d", m.Waits, m.WaitsAmbiguous)
	line("NVTX ranges %d marks %d unmatched %d", m.Ranges, m.RangeMarks, m.RangesUnmatched)
	line("overhead %d ns, peak of device memory %d bytes", m.OverheadNS, m.PeakDevice)
	for _, name := range slices.Sorted(maps.Keys(m.Errors)) {
		line("error %s: %d", name, m.Errors[name])
	}
	line("matched %d unmatched %d early %d", m.Matched, m.Unmatched, m.Early)
	line("pairs %d API records %d joined %d unprobed %d", m.Pairs, m.APIRecords, m.APIJoined, m.Unprobed)
	if m.Unnamed > 0 {
		line("launches without a kernel name: %d", m.Unnamed)
	}
	if m.Callers != nil {
		line("callers known %d unknown %d: %.1f %%", m.Callers.Known, m.Callers.Unknown, m.Callers.Share())
	}
	line("lost: %s", LostWords(m.Lost))
	line("complete %t damaged %t %q", m.Complete, m.Damaged, m.Reasons)
	return b.String()
}

// Files converts logs into one trace at out, in the place of a file that stands there.
func Files(logs []Log, out string, o TraceOptions) ([]Summary, error) {
	t, err := o.Target(out, true)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	all, _, err := FilesAt(logs, t, o)
	return all, err
}

// File converts the log at path into a compressed Perfetto trace at out.
func File(path, out string) (Summary, error) {
	all, err := Files([]Log{Path(path)}, out, TraceOptions{})
	if err != nil {
		return Summary{}, err
	}
	return all[0], nil
}

// goldenSlices is the number of slices of a track, and of values of a counter, in a golden file.
const goldenSlices = 40

// compareText compares what people see of a trace with a golden file.
func compareText(t *testing.T, tr *tptest.Trace, golden string) {
	t.Helper()
	got := tptest.Text(tr, goldenSlices)
	goldentest.Hold(t, golden, got)
}

// What people see of a program on a real GPU.
func TestTraceOfGPUProcessor(t *testing.T) {
	t.Parallel()
	tr, _ := openTrace(t, Path("../testdata/gpu/logs/streams.cudatrace").Open)
	compareText(t, tr, "testdata/streams.trace")
}

// Records of kinds that a later version has added are left out, and the summary says so.
func TestLaterVersion(t *testing.T) {
	t.Parallel()
	seed := must.Get(os.ReadFile("../record/tracelog/testdata/fuzz/FuzzReader/newer_minor_version"))(t)
	_, bytes, _ := strings.Cut(string(seed), "[]byte(")
	log := must.Get(strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(bytes), ")")))(t)
	_, s := timelineOf(t, logtest.InMemory([]byte(log)))
	want := "2 records are left out, of kinds that this version of cudatrace does not know: kind88, range; convert the log with a newer version"
	if !slices.Contains(s.Notes, want) {
		t.Errorf("the notes are %q", s.Notes)
	}
}

// timelineOf makes the timeline of a log.
func timelineOf(t testing.TB, open logtest.Opener) (*timelinetest.Timeline, Summary) {
	t.Helper()
	tl, all := timelineWith(t, Options{}, Log{"test", open})
	return tl, all[0]
}

// timelineWith makes one timeline of logs.
func timelineWith(t testing.TB, o Options, logs ...Log) (*timelinetest.Timeline, []Summary) {
	t.Helper()
	c := timelinetest.NewCollector(t)
	all := must.Get(Timeline(logs, o, c))(t)
	return c.Timeline(), all
}

// build gives a log to a sink.
func build(t testing.TB, open logtest.Opener, s timeline.Sink) Summary {
	t.Helper()
	all := must.Get(Timeline([]Log{{"test", open}}, Options{}, s))(t)
	return all[0]
}

func traceTo(t testing.TB, open logtest.Opener, o TraceOptions, w io.Writer) Summary {
	t.Helper()
	all, _, err := toTrace([]Log{{"test", open}}, w, o)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// No log makes a conversion panic or slices cross, and the numbers add up.
func FuzzConvert(f *testing.F) {
	for _, log := range logtest.Texts(f, "testdata") {
		f.Add(log.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := logtest.Assembled(text)
		if err != nil {
			return
		}
		if _, s := timelineOf(t, logtest.InMemory(data)); s.Matched+s.Unmatched != s.Kernels+s.Copies+s.Memsets {
			t.Fatalf("%+v", s)
		}
		traceTo(t, logtest.InMemory(data), TraceOptions{Compress: output.None}, io.Discard)
		files, _ := chromeFilesOf(t, logtest.InMemory(data), TraceOptions{})
		for _, f := range files {
			f.parse(t)
		}
	})
}

// Records that make no sense together still make a trace whose slices nest.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range logtest.Seeds(400, 10) {
		log := logtest.Chaos(t, rand.New(rand.NewPCG(seed, 1)), int(10+seed))
		tl, s := timelineOf(t, logtest.InMemory(log))
		if s.Matched+s.Unmatched != s.Kernels+s.Copies+s.Memsets || s.Waits != arrows(tl) {
			t.Fatalf("seed %d: %+v", seed, s)
		}
		traceTo(t, logtest.InMemory(log), TraceOptions{Compress: output.None}, io.Discard)
		files, _ := chromeFilesOf(t, logtest.InMemory(log), TraceOptions{})
		for _, f := range files {
			f.parse(t)
		}
	}
}

// arrows counts the work that calls waited for.
func arrows(tl *timelinetest.Timeline) (n uint64) {
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				n += uint64(len(th.Slices[i].Waits()))
			}
		}
	}
	return n
}
