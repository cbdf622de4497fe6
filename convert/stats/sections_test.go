package stats_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
)

// added are the columns whose values a row of the start-up and one of the steady state have together.
var added = []string{
	"count", "calls", "failed", "inner", "unfinished", "untimed", "in_graphs", "replays", "bytes", "entries", "left",
	"gpu_work", "short", "default_stream", "waits", "inclusive_count", "inclusive_waits", "kernels", "copies", "sets",
	"total_ns", "blocked_ns", "gpu_ns", "replayed_ns", "call_total_ns", "queue_total_ns", "kernel_total_ns",
	"inclusive_ns", "idle_ns", "wait_ns", "inclusive_wait_ns", "inclusive_idle_ns", "in_calls_ns", "waiting_ns",
	"gpu_work_ns", "work_ns",
}

// keyed are the columns that tell rows apart.
var keyed = []string{
	"name", "signature", "caller", "library", "grid", "block", "file", "function", "from", "to", "peer", "waited_for",
	"domain", "kind", "gpu", "pid", "tid", "stream", "context", "line", "host",
}

// sumsByRow adds up these columns of a table by row.
func sumsByRow(t *table.Table) map[string]uint64 {
	sums := make(map[string]uint64)
	for _, row := range t.Rows {
		key := ""
		for _, name := range keyed {
			if i := t.Column(name); i >= 0 {
				key += fmt.Sprint(table.Words(row.Cells[i], t.Columns[i].Unit), "|")
			}
		}
		for _, name := range added {
			if i := t.Column(name); i >= 0 {
				if n, is := row.Cells[i].(uint64); is && n > 0 {
					sums[key+name] += n
				}
			}
		}
	}
	return sums
}

// What a report counts with the start-up is what it counts without, and that of the start-up.
func TestStartupAddsUp(t *testing.T) {
	t.Parallel()
	counts := make(map[string][2]int) // sums that are not 0
	for name, path := range logs(t) {
		for report, views := range sinkOf(t, convert.Options{}, path).Views() {
			before, after, whole := sumsByRow(views[0]), sumsByRow(views[1]), sumsByRow(views[2])
			counts[report] = [2]int{counts[report][0] + len(before), counts[report][1] + len(after)}
			sums := maps.Clone(before)
			for key, n := range after {
				sums[key] += n
			}
			if diff := cmp.Diff(whole, sums); diff != "" {
				t.Errorf("%s: %s (-whole +start-up and steady state):\n%s", name, report, diff)
			}
		}
	}
	for report, n := range counts {
		if report != "library_functions" && n[0] == 0 || n[1] == 0 { // no log has functions of a start-up
			t.Errorf("%s: %d sums in start-ups, %d in steady states", report, n[0], n[1])
		}
	}
}

// moments keep when the calls, the work and the spans of processes began.
type moments struct {
	*stats.Sink
	of map[*timeline.Process]map[string][]uint64 // by report
}

func (m *moments) Take(events []timeline.Event) error {
	add := func(p *timeline.Process, report string, at uint64) {
		if m.of[p] == nil {
			m.of[p] = make(map[string][]uint64)
		}
		m.of[p][report] = append(m.of[p][report], at)
	}
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Slices:
			for i := range e.List {
				add(e.Thread.Process, "calls", e.List[i].Start)
			}
		case *timeline.WorkList:
			for i := range e.List {
				at := findings.Launched(&e.List[i])
				add(e.Stream.Context.Process, "work", at-1)
				if e.List[i].Kind == timeline.KernelWork {
					add(e.Stream.Context.Process, "kernels", at-1)
				}
			}
		case *timeline.SpanEnd:
			if e.Track.Category == timeline.NVTX {
				add(e.Track.Process, "nvtx", e.Start)
			}
		case *timeline.Instant:
			if e.Track.Category == timeline.NVTX {
				add(e.Track.Process, "nvtx", e.Start)
			}
		}
	}
	return m.Sink.Take(events)
}

// disordered are the logs in which work comes before work that was launched earlier, and that ends a stage.
var disordered = []string{
	"hang", "exec", // work without times
	"ranges", "ranks", // of another stream
}

// What belongs to a start-up is settled by its moment alone, although that is known late.
func TestStartupMoments(t *testing.T) {
	t.Parallel()
	for name, path := range logs(t) {
		if slices.Contains(disordered, name) {
			continue
		}
		m := &moments{stats.New(), make(map[*timeline.Process]map[string][]uint64)}
		if _, err := convert.SomeTimeline([]convert.Log{convert.Path(path)}, convert.Options{}, m); err != nil {
			t.Logf("%s: %v", name, err)
		}
		want := make(map[string]int)
		for p, by := range m.of {
			steady := m.StartsUp(p)
			sort := "work" // of which some must come after the start-up
			if len(by["kernels"]) > 0 {
				sort = "kernels"
			}
			if !slices.ContainsFunc(by[sort], func(at uint64) bool { return at >= steady }) {
				continue
			}
			for report, list := range by {
				for _, at := range list {
					if at < steady {
						want[report]++
					}
				}
			}
		}
		views := m.Views()
		for _, report := range []string{"calls", "kernels", "nvtx"} {
			got, starting := 0, views[report][0]
			for _, row := range starting.Rows {
				got += int(row.Cells[starting.Column("count")].(uint64))
			}
			if got != want[report] {
				t.Errorf("%s: %d of %s in the start-up, want %d", name, got, report, want[report])
			}
		}
	}
}

// A program that ran its only kernel when it started has no start-up, though a copy came behind it.
func TestShortProgram(t *testing.T) {
	t.Parallel()
	p := newProgram()
	p.copy("cudaMemcpyAsync", 7, 1<<20, fromPinned)
	p.kernel(7, 5*us, 10)
	p.copy("cudaMemcpyAsync", 7, 1<<20, fromPinned)
	all := p.reports(t, false)
	for report, want := range map[string]uint64{"kernels": 1, "copies": 2} {
		r, n := all[report], uint64(0)
		for _, row := range r.Rows {
			n += cell(r, row, "count").(uint64)
		}
		if n != want {
			t.Errorf("%s: %d, want %d", report, n, want)
		}
	}
}

// Processes beyond a bound are settled early: each row of many short ones is there, and memory is bounded.
func TestManyUnsettled(t *testing.T) {
	t.Parallel()
	s := stats.New()
	const processes, launches = 300, 20
	shape := &timeline.Shape{Kernel: timeline.KernelShape{Name: "k"}}
	for pid := range uint32(processes) {
		process := &timeline.Process{PID: pid + 1}
		stream := &timeline.Stream{Context: &timeline.Context{Process: process, GPU: pid}, ID: 7}
		list := make([]timeline.Work, launches)
		for i := range list {
			at := uint64(pid)*1e6 + uint64(i)*1e3 + 1e3
			list[i] = timeline.Work{Start: at, Dur: 100, Kind: timeline.KernelWork, Shape: shape}
		}
		must.Do(t, s.Take([]timeline.Event{process, &timeline.WorkList{Stream: stream, List: list}}))
	}
	const ranged = 100 // processes with NVTX ranges alone, which take their sections when the reports are made
	for i := range uint32(ranged) {
		process := &timeline.Process{PID: processes + i + 1}
		track := &timeline.Track{Process: process, Category: timeline.NVTX}
		span := timeline.Span{Name: "r", Start: 1e3, End: 2e3, Ranges: &timeline.RangeStack{Range: new(timeline.Range)}}
		must.Do(t, s.Take([]timeline.Event{process, &timeline.SpanEnd{Track: track, Span: span}}))
	}
	for _, r := range s.Tables(stats.Facts{Startup: true}) {
		if r.Name == "nvtx" && (len(r.Rows) != 1 || cell(r, r.Rows[0], "count") != uint64(ranged)) {
			t.Errorf("%v", r.Rows)
		}
		if r.Name == "kernels" && (len(r.Rows) != 1 || cell(r, r.Rows[0], "count") != uint64(processes*launches)) {
			t.Errorf("%v", r.Rows)
		}
	}
	if n := s.Unsettled(); n > 33 {
		t.Errorf("%d processes have sections of their own", n)
	}
}
