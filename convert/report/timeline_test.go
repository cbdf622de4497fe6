package report

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
)

// decoded reads a list of slices, by the comment of pageData.
func decoded(t *testing.T, text string) (list []slice) {
	t.Helper()
	b := must.Get(base64.StdEncoding.DecodeString(text))(t)
	var start uint64
	var link int64
	for len(b) > 0 {
		var v [5]uint64
		for i := range v {
			n, size := binary.Uvarint(b)
			if size <= 0 {
				t.Fatalf("%q ends in a number", text)
			}
			v[i], b = n, b[size:]
		}
		start += v[0]
		s := slice{start: start, end: start + v[1], name: uint32(v[2]), detail: uint32(v[3])}
		if v[4] > 0 {
			zigzag := v[4] - 1
			link += int64(zigzag>>1) ^ -int64(zigzag&1)
			s.call.start = uint64(link)
		}
		list = append(list, s)
	}
	return list
}

// What the encoding takes, it gives again.
func TestSlicesEncoding(t *testing.T) {
	t.Parallel()
	same := func(s *slice) (_, _, _ uint64) { return uint64(s.name), uint64(s.detail), s.call.start }
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var list []slice
		for range rnd.IntN(200) {
			start := rnd.Uint64N(1 << (1 + rnd.IntN(52)))
			s := slice{start: start, end: start + rnd.Uint64N(1<<rnd.IntN(50)), name: rnd.Uint32N(300)}
			s.detail = rnd.Uint32N(1 << 20)
			if rnd.IntN(3) > 0 {
				s.call.start = 1 + rnd.Uint64N(100_000)
			}
			list = append(list, s)
		}
		got := decoded(t, encode(list, same)) // which sorts them
		if !slices.Equal(got, list) {
			t.Fatalf("seed %d: %d slices became %d", seed, len(list), len(got))
		}
	}
}

// Windows have the whole of each moment, and no time twice.
func TestWindows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		var list []moment
		for range 1 + rnd.IntN(20) {
			from := rnd.Uint64N(1000)
			list = append(list, moment{from: from, to: from + rnd.Uint64N(200), least: rnd.Uint64N(100)})
		}
		all := windows(list)
		for i, w := range all {
			if w.from >= w.to || w.focus < w.from || w.focus > w.to || i > 0 && w.from < all[i-1].to {
				t.Fatalf("seed %d: window %+v", seed, w)
			}
		}
		for i, m := range list {
			for at := m.from; at <= m.to; at++ {
				k := slices.IndexFunc(all, func(w *window) bool { return w.from <= at && at < w.to })
				if k < 0 || all[k].rank > i {
					t.Fatalf("seed %d: %d of moment %d is in no window of it or of a more important one", seed, at, i)
				}
			}
		}
	}
}

// steady returns a report with steps of 1 ms, and a timeline that has been given a call and a kernel each microsecond.
func steady(bytes int) *Report {
	r := &Report{Overview: NewOverview()}
	var steps []stats.StepCells
	for i := range uint64(20) {
		steps = append(steps, stats.StepCells{Name: fmt.Sprint("step ", i), Number: int64(i), At: 1e6 * i, Max: 1e6})
	}
	r.Tables = reports(table.Of(steps), table.Of([]stats.StepKindCells{{Name: "step", Median: 1e6}}))
	r.Part = newPart("A typical step", 5e6, 6e6)
	r.Timeline = r.NewTimeline(bytes)
	thread := &timeline.Thread{Process: &timeline.Process{PID: 1, Name: "app"}, TID: 1, Main: true}
	stream := &timeline.Stream{Context: &timeline.Context{Process: thread.Process}, ID: 7}
	launch, shape := &timeline.Function{Name: "cudaLaunchKernel"}, &timeline.Shape{Kernel: timeline.KernelShape{Name: "k"}}
	const start = 1 << 40
	_ = r.Timeline.Take([]timeline.Event{&timeline.Recording{Start: start}}) // it never fails
	for i := range uint64(20_000) {
		at := start + 1000*i
		call := timeline.Slice{Function: launch, Start: at, End: at + 500}
		call.AddWork(i + 1)
		work := timeline.Work{ID: i + 1, Start: at + 600, Dur: 300, Shape: shape,
			Call: timeline.Call{Function: launch, Thread: thread, Start: at, End: at + 500}}
		_ = r.Timeline.Take([]timeline.Event{&timeline.Slices{Thread: thread, List: []timeline.Slice{call}},
			&timeline.WorkList{Stream: stream, List: []timeline.Work{work}}})
	}
	return r
}

func dataOf(t *testing.T, r *Report, room int) (d pageData) {
	t.Helper()
	text := must.Get(r.timelineData(room))(t)
	if len(text) > room {
		t.Errorf("the data has %d bytes, room is for %d", len(text), room)
	}
	must.Do(t, json.Unmarshal(text, &d))
	return d
}

// The data have each slice of their windows, calls with the links of their work, and what is left out by its name.
func TestTimelineData(t *testing.T) {
	t.Parallel()
	d := dataOf(t, steady(2<<20), 1<<20)
	if len(d.Windows) != 2 || len(d.Left) != 0 || len(d.Rows) != 2 || d.Rows[0].Kind != "call" ||
		d.Rows[1].Kind != "work" {
		t.Fatalf("%d windows, rows %+v, left %q", len(d.Windows), d.Rows, d.Left)
	}
	for _, w := range d.Windows {
		calls, work := decoded(t, w.Rows[0]), decoded(t, w.Rows[1])
		first, last := w.From/1000, (w.To+999)/1000 // of the calls in the window
		if len(calls) != int(last-first) || len(work) < int(last-first)-1 {
			t.Errorf("from %d to %d are %d calls and %d kernels", w.From, w.To, len(calls), len(work))
		}
		for i, c := range calls {
			name := [3]string{"cudaLaunchKernel", "", "call"}
			if c.start != 1000*(first+uint64(i)) || c.end-c.start != 500 || d.Names[c.name] != name {
				t.Fatalf("call %d: %+v", i, c)
			}
		}
		for _, k := range work {
			i := slices.IndexFunc(calls, func(c slice) bool { return c.start == k.start-600 })
			if k.call.start == 0 || i >= 0 && calls[i].call != k.call || d.Names[k.name] != [3]string{"k", "", "compute"} {
				t.Fatalf("kernel %+v has not the link of its call", k)
			}
		}
	}
	steps := decoded(t, d.Steps)
	if s := steps[7]; len(steps) != 20 || s.start != 7e6 || d.StepNames[s.name] != "step" || s.detail != 8 {
		t.Errorf("steps %+v, names %q", steps, d.StepNames)
	}
}

// With little room less is there, the most important moment last to go, and the data say what is missing.
func TestTimelineBounds(t *testing.T) {
	t.Parallel()
	small := dataOf(t, steady(2<<20), 30<<10)
	if len(small.Windows) != 1 || small.Windows[0].From > 5e6 || len(small.Left) != 1 ||
		!strings.Contains(small.Left[0], "slowest") {
		t.Errorf("windows %+v, left %q", small.Windows, small.Left)
	}
	if none := dataOf(t, steady(2<<20), 7<<10); len(none.Windows) != 0 || len(none.Left) != 2 {
		t.Errorf("windows %+v, left %q", none.Windows, none.Left)
	}
	few := steady(0) // at most 1,000 slices of a window
	for _, w := range few.Timeline.windows {
		if w.kept > 1000 || w.kept < 250 || !w.full {
			t.Errorf("a window has %d slices", w.kept)
		}
	}
	if d := dataOf(t, few, 1<<20); len(d.Left) != 2 || !strings.HasPrefix(d.Left[0], "a part of ") {
		t.Errorf("left: %q", d.Left)
	}
}

// A long row of steps gives way to calls and kernels.
func TestTimelineSteps(t *testing.T) {
	t.Parallel()
	r := steady(2 << 20)
	_, rows := table.Find[stats.StepCells](r.Tables)
	var many []stats.StepCells
	for i := range 2000 {
		many = append(many, *rows[i%len(rows)])
	}
	r.Tables = reports(table.Of(many), table.Of([]stats.StepKindCells{{Name: "step", Median: 1e6}}))
	if d := dataOf(t, r, 36<<10); d.Steps != "" || len(d.Windows) == 0 || d.Left[0] != "the row of steps" {
		t.Errorf("%d bytes of steps, %d windows, left %q", len(d.Steps), len(d.Windows), d.Left)
	}
}

// A page without room for a timeline has none, and no script, and says so.
func TestTimelineNoRoom(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	must.Do(t, steady(2<<20).WriteHTML(&page, 1000))
	if s := page.String(); strings.Contains(s, "<script") || strings.Contains(s, "script-src") ||
		!strings.Contains(s, "The timeline has no room in this page") || !strings.HasSuffix(s, "</html>\n") {
		t.Error("the page has a script, does not say why it has no timeline, or is not whole")
	}
}

// A name cannot leave the element of the data.
func TestTimelineEscapes(t *testing.T) {
	t.Parallel()
	r := steady(2 << 20)
	r.Timeline.moments[0].title = "</script><script>alert(1)</script><!--"
	for i := range r.Timeline.names.list {
		r.Timeline.names.list[i].text = "</script><!-- \u2028 \x1b"
	}
	var page bytes.Buffer
	must.Do(t, r.WriteHTML(&page, 1<<20))
	if n := strings.Count(page.String(), "<script"); n != 2 || strings.Contains(page.String(), "<!--") {
		t.Errorf("the page has %d scripts, or a comment", n)
	}
}

// The typical step of an earlier run stands where that of this run does, in rows of its own.
func TestTimelineBase(t *testing.T) {
	t.Parallel()
	r, base := steady(2<<20), steady(2<<20)
	base.Part = newPart("A typical step", 4e6, 4.5e6)
	base.Timeline.windows = slices.DeleteFunc(base.Timeline.windows, func(w *window) bool { return w.from < 2e6 })
	r.Base = base
	before := dataOf(t, steady(2<<20), 1<<20)
	d := dataOf(t, r, 1<<20)
	if len(d.Rows) != 4 || d.Rows[1].Base || !d.Rows[2].Base || len(d.Base) != 1 || d.BaseTo != 5.5e6 ||
		len(d.Processes) != 2 || len(d.Windows) != len(before.Windows) {
		t.Fatalf("rows %+v, processes %q, to %d", d.Rows, d.Processes, d.BaseTo)
	}
	w := d.Base[0]
	if w.From != base.Timeline.windows[0].from+1e6 {
		t.Errorf("the window begins at %d", w.From)
	}
	for row, text := range w.Rows {
		list := decoded(t, text)
		if row < 2 || len(list) == 0 || list[0].start%1000 != 600*uint64(row-2) || d.Names[list[0].name][0] == "" {
			t.Errorf("row %d has %d slices", row, len(list))
		}
	}
}
