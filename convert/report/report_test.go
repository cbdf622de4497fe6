package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// reports returns all reports, with rows in some of them.
func reports(filled ...*table.Table) []*table.Table {
	all := stats.New().Tables(stats.Facts{})
	for _, t := range filled {
		i := slices.IndexFunc(all, func(o *table.Table) bool { return o.Type == t.Type })
		all[i].Rows = t.Rows
	}
	return all
}

// large returns a report of as much as a log can have of everything, with a text for every name: thousands of steps on
// hundreds of ranks, a step of tens of thousands of calls.
func large(text string) *Report {
	var kernels []stats.KernelCells
	var findings []stats.FindingCells
	var steps []stats.StepCells
	for i := range uint64(1000) {
		kernel := stats.KernelCells{Name: text}
		kernel.Count, kernel.Total, kernel.Share = i, 1e9-i, new(0.5)
		kernels = append(kernels, kernel)
		findings = append(findings, stats.FindingCells{Name: "gaps", Title: text, Evidence: text, Try: text, Query: text})
		step := stats.StepCells{Name: fmt.Sprintf("%s %d", text, i), Number: int64(i), At: i * 1e6, Max: 2e6, Median: 1e6}
		for rank := range uint64(300) {
			step.Ranks, step.Durations = append(step.Ranks, rank), append(step.Durations, 1e6+(rank*i)%1000*1000)
		}
		steps = append(steps, step)
	}
	r := &Report{Title: text, Overview: NewOverview()}
	r.Tables = reports(table.Of(kernels), table.Of(findings), table.Of(steps))
	r.Part = newPart("step", 1000, 1e9)
	p := &timeline.Process{PID: 1, Name: text}
	r.Timeline = r.NewTimeline(2 << 20)
	_ = r.Timeline.Take([]timeline.Event{&timeline.Recording{}})
	for i := range 20 {
		thread := &timeline.Thread{Process: p, TID: uint32(i), Name: text}
		for k := range uint64(10_000) {
			call := timeline.Slice{Function: &timeline.Function{Name: fmt.Sprint(text, k)}, Start: k * 5e5, End: k*5e5 + 2e5}
			_ = r.Timeline.Take([]timeline.Event{&timeline.Slices{Thread: thread, List: []timeline.Slice{call}}})
		}
	}
	r.Comparison = &Comparison{Lines: []string{text}}
	for range 500 {
		r.Comparison.Changes = append(r.Comparison.Changes, Change{
			Name: text, Base: text, New: text, Change: math.Inf(1), Spread: math.NaN(), Verdict: "slower",
		})
	}
	return r
}

// The page of the largest log is less than 2 MB, and each chart of it XML.
func TestLarge(t *testing.T) {
	t.Parallel()
	r := large(strings.Repeat(`<k&"`, 500))
	var page bytes.Buffer
	must.Do(t, r.WriteHTML(&page, 2<<20))
	data := regexp.MustCompile(`(?s)type="application/json">(.*?)</script>`).FindSubmatch(page.Bytes())
	if len(data) < 2 || !json.Valid(data[1]) {
		t.Error("the page has no timeline, or it is no JSON")
	}
	if page.Len() > 2<<20 {
		t.Errorf("the page has %d bytes", page.Len())
	}
	list := r.Charts()
	if len(list) < 3 {
		t.Errorf("%d charts", len(list))
	}
	for _, c := range list {
		var b bytes.Buffer
		must.Do(t, c.WriteSVG(&b))
		t.Logf("%s: %d bytes", c.Name, b.Len())
		d := xml.NewDecoder(&b)
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", c.Name, err)
				break
			}
		}
	}
}

// The typical step is the one that took as long as the median, and none of the start-up.
func TestTypical(t *testing.T) {
	t.Parallel()
	r := &Report{Overview: NewOverview(), Tables: reports()}
	if r.Typical() != nil {
		t.Error("a log without GPU work has a typical part")
	}
	var steps []stats.StepCells
	for i, ns := range []uint64{70, 90, 50, 71, 60} {
		name, at := fmt.Sprintf("step %d", i), uint64(1000*(i+1))
		steps = append(steps, stats.StepCells{Name: name, Number: int64(i), At: at, Median: ns, Max: ns})
	}
	r.Tables = reports(table.Of(steps), table.Of([]stats.StepKindCells{{Name: "step", Median: 70, Starting: 1}}))
	if p := r.Typical(); p == nil || p.From != 4000 || p.To != 4071 {
		t.Errorf("the typical step is %+v", p)
	}
}

// A scale with a knee gives the time before it the width that was asked for, and keeps the order of times.
func TestScale(t *testing.T) {
	t.Parallel()
	s := scale{from: 100, to: 1100, x: 10, width: 100}
	s.bend(900, 20)
	for at, want := range map[uint64]float64{0: 10, 100: 10, 500: 20, 900: 30, 1000: 70, 1100: 110, 2000: 110} {
		if got := s.at(at); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d is at %g, want %g", at, got, want)
		}
	}
	s = scale{from: 100, to: 1100, x: 10, width: 100}
	if s.bend(150, 20); s.before != 0 {
		t.Error("a short start-up is drawn longer than it took")
	}
}

// Processes of a distributed program are named by their ranks.
func TestProcessTitle(t *testing.T) {
	t.Parallel()
	p := &timeline.Process{PID: 7}
	for _, of := range []struct {
		several bool
		rank    ranks.Rank
		want    string
	}{
		{false, ranks.Rank{}, "GPU 0"}, {true, ranks.Rank{}, "GPU 0, process 7"},
		{false, ranks.Rank{Known: true, Number: 3}, "rank 3, GPU 0"},
	} {
		p.Rank = of.rank
		if got := processTitle(p, "GPU 0", of.several); got != of.want {
			t.Errorf("%q, want %q", got, of.want)
		}
	}
}

// Texts of a log are clean wherever they stand on the page and in charts.
func TestCleanTexts(t *testing.T) {
	t.Parallel()
	const dirty = "a\xff\x1b[2J\u202eb"
	r := large(dirty)
	r.Logs, r.Part.Title = []string{dirty}, dirty
	for _, t := range r.Tables {
		t.Title, t.Notes = dirty, []string{dirty}
	}
	var page bytes.Buffer
	must.Do(t, r.WriteHTML(&page, 2<<20))
	for _, c := range r.Charts() {
		must.Do(t, c.WriteSVG(&page))
	}
	text := page.String()
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("a text of the log is not clean")
	}
	if !strings.Contains(text, "a\ufffd\ufffd[2J\ufffdb") {
		t.Error("no text of the log is there")
	}
}

// Labels of different names differ, and are no longer than the room that they have.
func TestLabels(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("vectorized_elementwise_kernel", 4)
	var list []bar
	for _, name := range []string{
		"gemm", long + "<add, float>" + long, long + "<mul, float>" + long, long + "<add, half>" + long,
		long + "<add, float>" + long,
	} {
		list = append(list, bar{name: name})
	}
	texts := labels(list, 40)
	for i, a := range list {
		if n := utf8.RuneCountInString(texts[i]); n > 40 {
			t.Errorf("%q has %d characters", texts[i], n)
		}
		for k, b := range list {
			if same := texts[i] == texts[k]; same != (a.name == b.name) {
				t.Errorf("%q and %q", texts[i], texts[k])
			}
		}
	}
}

// A table with nothing but zeros is not shown.
func TestZero(t *testing.T) {
	t.Parallel()
	var busy stats.KernelCells
	busy.Name, busy.Total = "k", 1
	for _, of := range []struct {
		rows []stats.KernelCells
		want int
	}{{[]stats.KernelCells{{Name: "k"}}, 0}, {[]stats.KernelCells{{Name: "k"}, busy}, 2}} {
		if got := len(shown(table.Of(of.rows)).Rows); got != of.want {
			t.Errorf("%d rows are shown, want %d", got, of.want)
		}
	}
}
