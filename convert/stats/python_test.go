package stats_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
)

// pythonLog assembles the log of testdata/python.log.txt.
func pythonLog(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/python.log.txt"))(t)
	data := must.Get(logtest.Assembled(string(text)))(t)
	path := filepath.Join(t.TempDir(), "python.cudatrace")
	must.Do(t, os.WriteFile(path, data, 0o644))
	return path
}

// What the reports say of Python lines: GPU work, waits and memory, and the stacks in folded form.
func TestPythonGolden(t *testing.T) {
	s := stats.New()
	s.Fold()
	must.Get(convert.Timeline([]convert.Log{convert.Path(pythonLog(t))}, convert.Options{}, s))(t)
	var out bytes.Buffer
	for _, r := range s.Tables(stats.Facts{}) {
		if !slices.Contains([]string{"python", "memory", "memory_holders", "unfreed"}, r.Name) {
			continue
		}
		must.Do(t, table.WriteText(&out, []*table.Table{r}, 200))
		fmt.Fprintln(&out)
		if r.Name == "python" {
			must.Do(t, r.WriteCSV(&out))
			fmt.Fprintln(&out)
		}
	}
	for _, name := range stats.Folds() {
		fmt.Fprintf(&out, "folded %s\n", name)
		must.Do(t, stats.ByName(name).Folded(s, stats.Facts{Startup: true}).Write(&out))
		fmt.Fprintln(&out)
	}
	golden(t, "python.txt", out.Bytes())
}

// The rows of the report of Python lines have all GPU work, and those of the holders all memory of the report of memory.
func TestPartsAddUp(t *testing.T) {
	t.Parallel()
	all := maps.Clone(everyTable(t))
	all["python of stats"] = tablesOf(t, pythonLog(t)) // without a start-up
	for name, tables := range all {
		holders, memory := tables["memory_holders"], tables["memory"]
		sums, want := make(map[string][]uint64), make(map[string][]uint64)
		add := func(to map[string][]uint64, r *table.Table) {
			for _, row := range r.Rows {
				key := fmt.Sprint(row.Cells[0], row.Cells[r.Column("pid")], row.Cells[r.Column("gpu")])
				for i, c := range []string{"peak_bytes", "current_bytes", "not_freed", "allocations"} {
					to[key] = append(to[key], make([]uint64, 4-len(to[key]))...)
					to[key][i] += row.Cells[r.Column(c)].(uint64)
				}
			}
		}
		add(sums, holders)
		add(want, memory)
		for key := range want {
			if want[key][3] > 0 && !slices.Equal(sums[key], want[key]) {
				t.Errorf("%s: peak, current bytes, not freed and allocations of %s are %d, of its holders %d", name, key, want[key], sums[key])
			}
		}
		python := tables["python"]
		if len(python.Rows) == 0 {
			continue
		}
		var work, ns, part, idle uint64
		for _, row := range tables["devices"].Rows {
			idle += row.Cells[tables["devices"].Column("idle_late_ns")].(uint64)
		}
		for _, row := range python.Rows {
			work += row.Cells[python.Column("count")].(uint64)
			ns += row.Cells[python.Column("total_ns")].(uint64)
			idle -= row.Cells[python.Column("idle_ns")].(uint64)
		}
		for _, row := range tables["processes"].Rows {
			part += row.Cells[tables["processes"].Column("kernels")].(uint64) + row.Cells[tables["processes"].Column("copies")].(uint64) + row.Cells[tables["processes"].Column("sets")].(uint64)
			ns -= row.Cells[tables["processes"].Column("gpu_work_ns")].(uint64)
		}
		if work != part || ns != 0 || idle != 0 {
			t.Errorf("%s: lines have %d pieces of work, processes %d; ns differ by %d, idle times by %d", name, work, part, int64(ns), int64(idle))
		}
	}
}

// From 90 % of the launches on the report names the line with most GPU time. With more stacks than are kept apart at a time, each still counts.
func TestPythonVerdict(t *testing.T) {
	t.Parallel()
	for _, framed := range []int{899, 900} {
		s := stats.New()
		stream := &timeline.Stream{Context: &timeline.Context{Process: &timeline.Process{PID: 1}}}
		list := make([]timeline.Work, 1000)
		for i := range list {
			list[i] = timeline.Work{ID: uint64(i + 1), Start: uint64(10 * i), Dur: 10, Shape: &timeline.Shape{}}
			if i < framed {
				list[i].Call.Python = &timeline.Python{PythonFrame: &timeline.PythonFrame{File: "a.py", Function: "f", Line: 1 + uint32(i%2)*uint32(i%3)}, ID: uint32(i + 1)}
			}
		}
		must.Do(t, s.Take([]timeline.Event{&timeline.WorkList{Stream: stream, List: list}}))
		r := byName(s, stats.Facts{})["python"]
		want := "90.0 % of 1,000 launches have a Python frame; most GPU time, 60.0 %, is of a.py:1 f"
		if framed < 900 {
			want = "89.9 % of 1,000 launches have a Python frame: too few to say which line takes most GPU time"
		}
		if got := strings.Join(r.Notes, "; "); got != want {
			t.Errorf("of %d launches with a frame it says %q, want %q", framed, got, want)
		}
	}
}

// Stacks beyond those that are kept apart go to the rows, and none counts twice.
func TestManyPythonStacks(t *testing.T) {
	t.Parallel()
	s := stats.New()
	stream := &timeline.Stream{Context: &timeline.Context{Process: &timeline.Process{PID: 1}}}
	const stacks = 150_000
	outer := &timeline.Python{PythonFrame: &timeline.PythonFrame{File: "a.py", Function: "main", Line: 1}}
	list := make([]timeline.Work, stacks)
	for i := range list {
		list[i] = timeline.Work{ID: uint64(i + 1), Start: uint64(10 * i), Dur: 10, Shape: &timeline.Shape{}}
		list[i].Call.Python = &timeline.Python{PythonFrame: &timeline.PythonFrame{File: "a.py", Function: "f", Line: 2 + uint32(i%100)}, Parent: outer}
	}
	for range 2 {
		must.Do(t, s.Take([]timeline.Event{&timeline.WorkList{Stream: stream, List: list}}))
	}
	r := byName(s, stats.Facts{})["python"]
	if len(r.Rows) != 101 {
		t.Fatalf("%d rows", len(r.Rows))
	}
	for _, row := range r.Rows {
		own, inclusive := uint64(2*stacks/100), uint64(2*stacks/100)
		if row.Cells[0] == "a.py:1 main" {
			own, inclusive = 0, 2*stacks
		}
		if row.Cells[r.Column("count")] != own || row.Cells[r.Column("inclusive_count")] != inclusive || row.Cells[r.Column("inclusive_ns")] != 10*inclusive {
			t.Errorf("%v: want %d launches, %d with those below", row, own, inclusive)
		}
	}
}

// Of a log without frames the holders of a library are one, whatever threads allocate.
func TestHoldersWithoutFrames(t *testing.T) {
	t.Parallel()
	s := stats.New()
	process, function := &timeline.Process{PID: 1}, &timeline.Function{Name: "cudaMalloc"}
	for i, name := range []string{"python3", "pt_autograd_0", "pt_autograd_1"} {
		a := &timeline.Allocation{Process: process, Address: uint64(i + 1), Bytes: 100 << i, Kind: 3}
		a.Call = timeline.Call{Function: function, Thread: &timeline.Thread{Process: process, Name: name}, Caller: &timeline.Caller{Module: "/lib/libc10_cuda.so"}}
		must.Do(t, s.Take([]timeline.Event{a}))
	}
	const noLines = "[no allocation has a Python line: docs/calls.md says when there are none]"
	for lack, notes := range map[string]string{"no sample has frames": "[]", "": noLines} {
		r := byName(s, stats.Facts{Python: lack})["memory_holders"]
		got, want := fmt.Sprint(r.Rows[0].Cells), "[device 1 0 libc10_cuda.so <nil> 700 1 700 3 3 700]"
		if got != want || fmt.Sprint(r.Notes) != notes {
			t.Errorf("%q: %s, notes %q, want %s %s", lack, got, r.Notes, want, notes)
		}
	}
}

// Two rows that differ by their libraries alone have these in a narrow terminal, too.
func TestHoldersOfTwoLibraries(t *testing.T) {
	t.Parallel()
	for modules, want := range map[[2]string]int{{"/lib/a.so", "/lib/b.so"}: 0, {"/lib/a.so", "/lib/a.so"}: 2} {
		s := stats.New()
		process, function := &timeline.Process{PID: 1}, &timeline.Function{Name: "cudaMalloc"}
		for i, module := range modules {
			a := &timeline.Allocation{Process: process, Address: uint64(i + 1), Bytes: 100 << i, Kind: 3}
			a.Call = timeline.Call{Function: function, Caller: &timeline.Caller{Module: module}}
			if err := s.Take([]timeline.Event{a}); err != nil {
				t.Fatal(err)
			}
		}
		r := s.Tables(stats.Facts{})[slices.Index(stats.Names(), "memory_holders")]
		if got := r.Columns[r.Column("library")].Rank; got != want {
			t.Errorf("%q: the column has rank %d, want %d", modules, got, want)
		}
	}
}
