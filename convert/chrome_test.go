package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

// chromeTo writes the Chrome trace of a log with one process, uncompressed.
func chromeTo(tb testing.TB, open logtest.Opener, w io.Writer) {
	tb.Helper()
	if _, err := toTrace([]Log{{"test", open}}, w, TraceOptions{Format: Chrome, Compress: output.None}); err != nil {
		tb.Fatal(err)
	}
}

// A chromeFile is one file of a Chrome trace.
type chromeFile struct {
	process *timeline.Process
	bytes.Buffer
}

// chromeFilesOf makes the files of the Chrome trace of a log, uncompressed.
func chromeFilesOf(tb testing.TB, open logtest.Opener, o TraceOptions) (files []*chromeFile, sum Summary) {
	tb.Helper()
	c := newConversion([]Log{{"test", open}}, o.Options)
	if err := c.read(); err != nil {
		tb.Fatal(err)
	}
	o.Compress = output.None
	all, err := c.chrome(o, func(p *timeline.Process) (io.Writer, error) {
		files = append(files, &chromeFile{process: p})
		return files[len(files)-1], nil
	})
	if err != nil {
		tb.Fatal(err)
	}
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
	return &tr
}

// perfettoCategories counts the slices of a Perfetto trace by the categories of a Chrome trace.
const perfettoCategories = `select case
		when g.id is null then case s.category when 'runtime' then 'cuda_runtime' when 'driver' then 'cuda_driver'
			when 'nvtx' then 'user_annotation' when 'cupti' then 'overhead' when 'memory' then 'memory_pool' else 'cuda_driver' end
		when s.name glob 'Memcpy*' then 'gpu_memcpy' when s.name glob 'Memset*' then 'gpu_memset' else 'kernel' end as cat,
	count(*), sum(max(s.dur, 0)) from slice s left join gpu_slice g using (id) where s.category is not 'cudatrace' group by 1 order by 1`

const chromeCategories = `select category, count(*), sum(max(dur, 0)) from slice where category != 'cudatrace' group by 1 order by 1`

// launchArrows are the arrows from calls to their work in a Perfetto trace.
const launchArrows = `select count(*) from flow where slice_in in (select id from gpu_slice)`

// TestChromeProcessor reads the Chrome trace of each log in testdata with the trace processor. It
// has the slices and the launch arrows of the Perfetto trace, with the same total times.
func TestChromeProcessor(t *testing.T) {
	logs, err := filepath.Glob("testdata/*.log.txt")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs in testdata: %v", err)
	}
	for _, path := range logs {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".log.txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			compareFormats(t, logtest.Assemble(t, string(text)))
		})
	}
}

// compareFormats compares the two traces of a log.
func compareFormats(t *testing.T, open logtest.Opener) {
	t.Helper()
	pf := openTrace(t, open)
	files, sum := chromeFilesOf(t, open, TraceOptions{})
	got, arrows := make(map[string][2]int64), int64(0)
	for i, f := range files {
		f.parse(t)
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.json", i))
		if err := os.WriteFile(path, f.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		tr := tptest.Open(t, path)
		tptest.NoErrors(t, tr)
		addCounts(got, tr.Values(chromeCategories))
		arrows += tr.Int(`select count(*) from flow`)
	}
	want := make(map[string][2]int64)
	addCounts(want, pf.Values(perfettoCategories))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("number and time of the slices by category (-want +got):\n%s", diff)
	}
	if want := pf.Int(launchArrows) - int64(sum.Early); arrows != want { // no arrow leads back in time
		t.Errorf("%d arrows, want %d", arrows, want)
	}
}

func addCounts(sums map[string][2]int64, rows [][]any) {
	for _, r := range rows {
		cat, _ := r[0].(string)
		n, _ := r[1].(int64)
		dur, _ := r[2].(int64)
		sums[cat] = [2]int64{sums[cat][0] + n, sums[cat][1] + dur}
	}
}
