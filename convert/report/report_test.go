package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// large returns a report of as much as a log can have of everything: kernels with long names, thousands of steps on hundreds of ranks,
// a step of tens of thousands of calls.
func large() *Report {
	long := strings.Repeat(`<k&"`, 500)
	r := &Report{Title: long, Overview: NewOverview()}
	kernels := &table.Table{Name: "kernels", Columns: []table.Column{{Key: "name", Title: "kernel"}, {Key: "count", Title: "count", Unit: table.Number}, {Key: "total_ns", Title: "total", Unit: table.Duration}, {Key: "share", Title: "share", Unit: table.Share}}}
	findings := &table.Table{Name: "findings", Columns: []table.Column{{Key: "name"}, {Key: "title"}, {Key: "evidence"}, {Key: "try"}, {Key: "query"}}}
	steps := &table.Table{Name: "steps", Columns: []table.Column{{Key: "name", Title: "step"}, {Key: "number", Unit: table.ID}, {Key: "at_ns", Unit: table.Moment}, {Key: "max_ns", Title: "max", Unit: table.Duration}, {Key: "median_ns", Unit: table.Duration}, {Key: "ranks", Unit: table.ID}, {Key: "durations_ns", Unit: table.Duration}}}
	for i := range uint64(1000) {
		kernels.Add(long, i, 1e9-i, 0.5)
		findings.Add("gaps", long, long, long, long)
		var on, lengths []uint64
		for rank := range uint64(300) {
			on, lengths = append(on, rank), append(lengths, 1e6+(rank*i)%1000*1000)
		}
		steps.Add(fmt.Sprintf("%s %d", long, i), i, i*1e6, uint64(2e6), uint64(1e6), on, lengths)
	}
	r.Tables = []*table.Table{kernels, findings, steps}
	r.Part = newPart("step", "", 1000, 1e9)
	p := &timeline.Process{PID: 1, Name: long}
	for i := range 20 {
		thread := &timeline.Thread{Process: p, TID: uint32(i), Name: long}
		stream := &timeline.Stream{Context: &timeline.Context{Process: p}, ID: uint32(i), Name: long}
		var calls []timeline.Slice
		var work []timeline.Work
		for k := range uint64(2000) {
			calls = append(calls, timeline.Slice{Function: &timeline.Function{Name: long}, Start: k * 5e5, End: k*5e5 + 2e5})
			work = append(work, timeline.Work{Start: k * 5e5, Dur: 1e5, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: long}}, Call: timeline.Call{Function: calls[k].Function, Thread: thread, Start: k * 5e5}})
		}
		_ = r.Part.Take([]timeline.Event{&timeline.Slices{Thread: thread, List: calls}, &timeline.WorkList{Stream: stream, List: work}}) // it never fails
	}
	r.Comparison = &Comparison{Lines: []string{long}}
	for range 500 {
		r.Comparison.Changes = append(r.Comparison.Changes, Change{Name: long, Base: long, New: long, Change: math.Inf(1), Spread: math.NaN(), Verdict: "slower"})
	}
	return r
}

// The page of the largest log is less than 2 MB, and each chart of it XML.
func TestLarge(t *testing.T) {
	t.Parallel()
	r := large()
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	if page.Len() > 2<<20 {
		t.Errorf("the page has %d bytes", page.Len())
	}
	list := r.Charts()
	if len(list) < 4 {
		t.Errorf("%d charts", len(list))
	}
	for _, c := range list {
		var b bytes.Buffer
		if err := c.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
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
	r := &Report{Overview: NewOverview()}
	if r.Typical() != nil {
		t.Error("a log without GPU work has a typical part")
	}
	steps := &table.Table{Name: "steps", Columns: []table.Column{{Key: "name"}, {Key: "number", Unit: table.ID}, {Key: "at_ns", Unit: table.Moment}, {Key: "median_ns", Unit: table.Duration}, {Key: "max_ns", Unit: table.Duration}}}
	for i, ns := range []uint64{70, 90, 50, 71, 60} {
		steps.Add(fmt.Sprintf("step %d", i), uint64(i), uint64(1000*(i+1)), ns, ns)
	}
	kinds := &table.Table{Name: "step_kinds", Columns: []table.Column{{Key: "name"}, {Key: "median_ns", Unit: table.Duration}, {Key: "starting", Unit: table.Number}}}
	kinds.Add("step", uint64(70), uint64(1))
	r.Tables = []*table.Table{steps, kinds}
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
	}{{false, ranks.Rank{}, "GPU 0"}, {true, ranks.Rank{}, "GPU 0, process 7"}, {false, ranks.Rank{Known: true, Number: 3}, "rank 3, GPU 0"}} {
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
	r := large()
	r.Title, r.Logs = dirty, []string{dirty}
	r.Part.Title, r.Part.Note = dirty, dirty
	r.Comparison.Lines = []string{dirty}
	for _, t := range r.Tables {
		t.Title, t.Notes = dirty, []string{dirty}
		for _, row := range t.Rows {
			row.Cells[0] = dirty
		}
	}
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Charts() {
		if err := c.WriteSVG(&page); err != nil {
			t.Fatal(err)
		}
	}
	text := page.String()
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("a text of the log is not clean")
	}
	if !strings.Contains(text, "a\ufffd\ufffd[2J\ufffdb") {
		t.Error("no text of the log is there")
	}
}
