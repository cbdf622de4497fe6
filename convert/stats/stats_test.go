package stats_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

func TestMain(m *testing.M) { logtest.Main(m) }

// sinkOf returns the statistics of logs.
func sinkOf(t testing.TB, o convert.Options, paths ...string) *stats.Sink {
	t.Helper()
	var list []convert.Log
	for _, path := range paths {
		list = append(list, convert.Path(path))
	}
	return taking(t, stats.New(), o, list...)
}

// taking has statistics take logs.
func taking(t testing.TB, s *stats.Sink, o convert.Options, logs ...convert.Log) *stats.Sink {
	t.Helper()
	must.Get(convert.Timeline(logs, o, s))(t)
	return s
}

// byName returns the reports of statistics by name.
func byName(s *stats.Sink, f stats.Facts) map[string]*table.Table {
	all := make(map[string]*table.Table)
	for _, r := range s.Tables(f) {
		all[r.Name] = r
	}
	return all
}

// tablesOf returns the reports of logs by name.
func tablesOf(t testing.TB, paths ...string) map[string]*table.Table {
	t.Helper()
	return byName(sinkOf(t, convert.Options{Collectives: true}, paths...), stats.Facts{})
}

// logs are the paths of all logs in the repository: those in text form, by the name of the file,
// and recordings on a real GPU.
func logs(t testing.TB) map[string]string {
	t.Helper()
	all := make(map[string]string)
	folder := t.TempDir()
	for _, log := range logtest.Texts(t, "../testdata") {
		data := must.Get(logtest.Assembled(log.Text))(t)
		all[log.Name] = filepath.Join(folder, log.Name+".cudatrace")
		must.Do(t, os.WriteFile(all[log.Name], data, 0o644))
	}
	for _, name := range []string{"streams", "train", "operators"} {
		all["h200-"+name] = filepath.Join("..", "..", "testdata", "gpu", "logs", name+".cudatrace")
	}
	return all
}

// goldenLogs are logs that show every form of row, note and reason. The other logs' sums are compared with their traces
// (TestSumsProcessor).
var goldenLogs = []string{
	"callers", "exec", "functions", "graph", "h200-streams", "h200-train", "memorycalls", "metrics", "nccl", "nvtx",
	"odd", "python", "ranks", "threads", "torchmemory", "waitcalls",
}

// Each report has these rows of a log, or the reason why it has none.
func TestGolden(t *testing.T) {
	all := logs(t)
	full, empty := make(map[string]*bytes.Buffer), make(map[string]map[string][]string) // of the latter the logs by the reason
	for _, name := range stats.Names() {
		full[name], empty[name] = new(bytes.Buffer), make(map[string][]string)
	}
	for _, log := range goldenLogs {
		for _, r := range sinkOf(t, convert.Options{}, all[log]).Tables(stats.Facts{}) {
			if len(r.Rows) == 0 {
				empty[r.Name][r.Reason] = append(empty[r.Name][r.Reason], log)
				continue
			}
			fmt.Fprintf(full[r.Name], "== %s\n", log)
			if r.Name == "gaps" { // thousands of them are alike
				r.Top(10)
			}
			must.Do(t, table.WriteText(full[r.Name], []*table.Table{r}, 140))
			fmt.Fprintln(full[r.Name])
		}
	}
	for name, text := range full {
		for _, reason := range slices.Sorted(maps.Keys(empty[name])) {
			fmt.Fprintf(text, "%s: %s\n", reason, strings.Join(empty[name][reason], " "))
		}
		t.Run(name, func(t *testing.T) { golden(t, filepath.Join("reports", name+".txt"), text.Bytes()) })
	}
}

// golden compares with a golden file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	goldentest.Hold(t, path, string(got))
}

// The reports are those that Names lists, with rows that fit their columns and keys that differ.
func TestTables(t *testing.T) {
	t.Parallel()
	var got []string
	for _, r := range stats.New().Tables(stats.Facts{}) {
		got = append(got, r.Name)
		var keys []string
		for _, c := range r.Columns {
			if slices.Contains(keys, c.Key) {
				t.Errorf("%s has two columns %s", r.Name, c.Key)
			}
			keys = append(keys, c.Key)
		}
		if len(r.Rows) > 0 || r.Reason == "" || r.Title == "" || keys[0] != "name" {
			t.Errorf("%s of no timeline: %d rows, reason %q, title %q, columns %q", r.Name, len(r.Rows), r.Reason, r.Title, keys)
		}
	}
	if diff := cmp.Diff(stats.Names(), got); diff != "" {
		t.Errorf("reports (-Names +Tables):\n%s", diff)
	}
	for name, tables := range everyTable(t) {
		for _, r := range tables {
			for _, row := range r.Rows {
				if len(row.Cells) != len(r.Columns) {
					t.Errorf("%s: a row of %s has %d cells for %d columns", name, r.Name, len(row.Cells), len(r.Columns))
				}
			}
			if (len(r.Rows) == 0) != (r.Reason != "") {
				t.Errorf("%s: %s has %d rows and the reason %q", name, r.Name, len(r.Rows), r.Reason)
			}
		}
	}
}

var (
	onceRead   sync.Once
	tablesRead = make(map[string]map[string]*table.Table)
)

// everyTable are the reports of all logs in the repository, by the log's name and the report's: read once, not to be changed.
func everyTable(t *testing.T) map[string]map[string]*table.Table {
	t.Helper()
	onceRead.Do(func() {
		for name, path := range logs(t) {
			tablesRead[name] = byName(sinkOf(t, convert.Options{Collectives: true}, path), stats.Facts{Startup: true})
		}
	})
	if len(tablesRead) == 0 {
		t.Fatal("no log could be read")
	}
	return tablesRead
}

// Two logs together have the sums of both, and a row for each kernel.
func TestSeveralLogs(t *testing.T) {
	t.Parallel()
	all := logs(t)
	a, b := all["h200-streams"], filepath.Join(t.TempDir(), "copy.cudatrace")
	data := must.Get(os.ReadFile(a))(t)
	must.Do(t, os.WriteFile(b, data, 0o644))
	one, two := tablesOf(t, a), tablesOf(t, a, b)
	for _, report := range []string{"kernels", "kernel_shapes", "calls", "copies", "sets", "launches"} {
		x, y := one[report], two[report]
		if len(x.Rows) != len(y.Rows) {
			t.Errorf("%s: %d rows of two logs, %d of one", report, len(y.Rows), len(x.Rows))
			continue
		}
		for i, row := range x.Rows {
			for _, key := range []string{"count", "total_ns"} {
				k := x.Column(key)
				if got, want := y.Rows[i].Cells[k], 2*row.Cells[k].(uint64); got != want {
					t.Errorf("%s: %s of %v is %d, want %d", report, key, row.Cells[0], got, want)
				}
			}
		}
	}
	if n := len(two["processes"].Rows); n != 2 {
		t.Errorf("%d processes of two logs", n)
	}
}

// Why a report has no rows.
func TestReasons(t *testing.T) {
	t.Parallel()
	f := stats.Facts{GPU: "GPU work was not recorded: no libcupti", Callers: "callers were not recorded", Python: "no frames", Memory: "not recorded: calls are not probed"}
	for _, r := range stats.New().Tables(f) {
		want := f.GPU
		switch r.Name {
		case "calls", "errors", "threads", "processes", "library_functions", "steps", "step_kinds":
			want = ""
		case "callers":
			want = f.Callers
		case "python", "modules":
			want = f.Python
		case "memory", "memory_holders", "unfreed", "out_of_memory":
			want = f.Memory
		case "torch_memory":
			want = "no blocks of PyTorch's cache (record --pytorch memory)"
		}
		if want != "" && r.Reason != want || r.Reason == "" || want == "" && r.Reason == f.GPU {
			t.Errorf("%s: %q", r.Name, r.Reason)
		}
	}
}

// Rows beyond the limit are counted together.
func TestManyNames(t *testing.T) {
	t.Parallel()
	s := stats.New()
	process := &timeline.Process{PID: 1}
	stream := &timeline.Stream{Context: &timeline.Context{Process: process}}
	const kernels = 12_000
	for i := range kernels {
		shape := &timeline.Shape{Kernel: timeline.KernelShape{Name: "k" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/182)}}
		w := timeline.Work{ID: uint64(i + 1), Start: uint64(10 * i), Dur: 10, Shape: shape}
		must.Do(t, s.Take([]timeline.Event{&timeline.WorkList{Stream: stream, List: []timeline.Work{w}}}))
	}
	r := byName(s, stats.Facts{})["kernels"]
	var count, total uint64
	for _, row := range r.Rows {
		count += row.Cells[r.Column("count")].(uint64)
		total += row.Cells[r.Column("total_ns")].(uint64)
	}
	if len(r.Rows) != 10_001 || r.Rows[0].Cells[0] != "other" || count != kernels || total != 10*kernels {
		t.Errorf("%d rows, the first of %v, with %d kernels of %d ns", len(r.Rows), r.Rows[0].Cells[0], count, total)
	}
}

// checkJSON fails if the JSON of tables is not valid or lacks a report.
func checkJSON(t testing.TB, tables []*table.Table) {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, table.WriteJSON(&out, []table.Member{{Name: "version", Value: 1}}, tables))
	var all map[string]json.RawMessage
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	for _, r := range tables {
		var rows []map[string]any
		if err := json.Unmarshal(all[r.Name], &rows); err != nil || len(rows) != len(r.Rows) {
			t.Fatalf("%s: %d rows, want %d: %v", r.Name, len(rows), len(r.Rows), err)
		}
	}
}

// Launches before the first one with Python frames have rows, too.
func TestFirstFrames(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../testdata/python.log.txt"))(t)
	log := convert.Log{Name: "log", Open: logtest.Assemble(t, strings.Replace(string(text), " python=3", " python=0", 1))}
	var got []string
	r := byName(taking(t, stats.New(), convert.Options{}, log), stats.Facts{Startup: true})["kernel_python"]
	for _, row := range r.Rows {
		got = append(got, fmt.Sprint(row.Cells[:4], cell(r, row, "total_ns")))
	}
	want := []string{"[plain <nil> <nil> 2] 600", "[plain /home/ann/train.py main 1] 300", "[plain /usr/lib/python3.12/threading.py run 1] 300"}
	goldentest.Same(t, want, got, "result")
}
