package top

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/live"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// reportOf is a report of a log of a GPU: that of its seventh second.
func reportOf(t *testing.T, name string, number int) *live.Report {
	t.Helper()
	data := must.Get(os.ReadFile("../../../testdata/gpu/logs/" + name + ".cudatrace"))(t)
	var all []*live.Report
	f := must.Get(convert.Follow(func() (*tracelog.Reader, error) {
		return tracelog.NewReader(bytes.NewReader(data), int64(len(data)), name)
	}, live.New(live.Options{Report: func(r *live.Report) { all = append(all, r) }})))(t)
	must.Do(t, f.Close())
	return all[min(number, len(all)-1)]
}

// text shows lines as a terminal does; a mark in front says how they look.
func text(lines []console.Line) string {
	var b strings.Builder
	for _, l := range lines {
		mark := map[console.Style]string{console.Plain: " ", console.Bold: "!", console.Reverse: "#"}[l.Style]
		fmt.Fprintln(&b, strings.TrimRight(mark+l.Text, " "))
	}
	return b.String()
}

// The screen of a PyTorch program, in two sizes.
func TestScreen(t *testing.T) {
	t.Parallel()
	r := reportOf(t, "train", 5)
	for _, size := range [][2]int{{80, 24}, {120, 40}} {
		v := view{name: "train.cudatrace", report: r, latest: r, keys: true}
		lines := v.lines(size[0], size[1])
		if len(lines) != size[1] {
			t.Errorf("%d lines on a screen of %d", len(lines), size[1])
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l.Text); n > size[0] {
				t.Errorf("a line of %d columns on a screen of %d: %s", n, size[0], l.Text)
			}
		}
		goldentest.Hold(t, fmt.Sprintf("testdata/screen-%dx%d.golden", size[0], size[1]), text(lines))
	}
}

// Nothing that a log holds, and no size, gets a line out of its place.
func TestScreenOfAnything(t *testing.T) {
	t.Parallel()
	rows := []live.Row{{Name: "a\x1b[2Jb\nc\u202e", All: live.Count{N: 1 << 63, Time: 1 << 63}}, {Name: strings.Repeat("漢", 3000), Now: live.Count{N: 1, Time: 1}}}
	r := &live.Report{To: 1, Kernels: rows, Functions: rows, Lines: rows, Errors: rows, Losses: rows, Copies: rows}
	for range 20 {
		r.GPUs = append(r.GPUs, live.GPU{Busy: 1 << 63, Queue: 1e300, Memory: live.Memory{Live: 1 << 63, Peak: 1 << 63}})
	}
	for width := 1; width < 140; width += 7 {
		for height := 1; height < 60; height += 5 {
			for _, v := range []view{{name: "x\x1b"}, {name: "x", report: r, keys: true, filter: "\x1b", state: "a\nb"}, {report: r, help: true}, {report: r, typing: true}} {
				if lines := v.lines(width, height); len(lines) < min(height, 2) {
					t.Errorf("%d lines at %dx%d", len(lines), width, height)
				}
			}
		}
	}
	if line := plainText(r, nil); !strings.Contains(line, "records lost") && strings.Contains(line, "\n") {
		t.Errorf("the line %q", line)
	}
}

// Keys sort, filter, choose tables, pause and quit.
func TestKeys(t *testing.T) {
	t.Parallel()
	rows := []live.Row{
		{Name: "gemm", Now: live.Count{N: 1, Time: 90}, All: live.Count{N: 9, Time: 100}},
		{Name: "add", Now: live.Count{N: 20, Time: 60}, All: live.Count{N: 30, Time: 400}},
		{Name: "ADDmul", Now: live.Count{N: 2, Time: 80}, All: live.Count{N: 100, Time: 90}},
	}
	first, second := &live.Report{To: 1e9, Kernels: rows, Functions: rows}, &live.Report{To: 2e9}
	for _, test := range []struct {
		keys string // ^ is ESC, < is backspace
		want string
	}{
		{"", "gemm ADDmul add"}, {"s", "add ADDmul gemm"}, {"ss", "gemm ADDmul add"}, {"sss", "gemm ADDmul add"},
		{"a", "add gemm ADDmul"}, {"as", "ADDmul add gemm"}, {"fadd\n", "ADDmul add"}, {"/addx<\n", "ADDmul add"}, {"fadd\n^", "gemm ADDmul add"},
		{"fadd^", "gemm ADDmul add"}, {"fq\n", ""}, {"f<<a\r", "ADDmul add"}, {"zx", "gemm ADDmul add"},
		{"f::\n", "gemm"}, {"fgem\n", "gemm"},
	} {
		v := view{report: first, latest: first}
		for _, key := range test.keys {
			if v.key(strings.NewReplacer("^", keyEscape, "<", keyBackspace).Replace(string(key))) {
				t.Errorf("%q quits", test.keys)
			}
		}
		var names []string
		for _, r := range v.chosen(rows, strings.NewReplacer("gemm", "mm :: gemm").Replace) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("after %q the rows are %q, want %q", test.keys, got, test.want)
		}
	}
	v := view{report: first, latest: first}
	if !v.key("q") {
		t.Error("q does not quit")
	}
	v.key("p")
	if v.latest = second; !v.stopped || v.report != first {
		t.Error("p does not pause")
	}
	if v.key("p"); v.stopped || v.report != second {
		t.Error("a second p does not go on with the latest report")
	}
	v.report = first
	tables := func() string {
		s := text(v.lines(80, 24))
		return fmt.Sprint(strings.Contains(s, "kernels"), strings.Contains(s, "functions"))
	}
	got := tables()
	for range 3 {
		v.key("t")
		got += " " + tables()
	}
	if want := "true true true false false true true true"; got != want {
		t.Errorf("tables %s, want %s", got, want)
	}
	first.Lines = []live.Row{{Name: "/home/ann/train.py:7 step", Now: live.Count{N: 1, Time: 30}, All: live.Count{N: 9, Time: 30}}, {Name: "(no Python frame: autograd)", All: live.Count{N: 1, Time: 10}}}
	v.tables, got = 0, ""
	for range 6 {
		s := text(v.lines(80, 24))
		got += fmt.Sprint(strings.Contains(s, "lines (of 90.0 % of work)"), strings.Contains(s, "\n train.py:7 step  "), strings.Contains(s, "kernels"), strings.Contains(s, "functions"), " ")
		v.key("t")
	}
	if want := "true true true false true true false false false false true true false false true false false false false true true true true false "; got != want {
		t.Errorf("tables %s, want %s", got, want)
	}
	if line := plainText(first, nil); !strings.Contains(line, "; line train.py:7 step 100.0 %; ") {
		t.Errorf("the line %q", line)
	}
	if v.key("h"); !strings.Contains(text(v.lines(80, 24)), "ESC shows all again") {
		t.Error("h shows no help")
	}
}

// A report as a line, and as JSON.
func TestLines(t *testing.T) {
	t.Parallel()
	r := reportOf(t, "train", 5)
	var b strings.Builder
	must.Do(t, writeJSON(&b, r))
	rows := strings.ReplaceAll(b.String(), `},{"name"`, "},\n  {\"name\"")
	goldentest.Hold(t, "testdata/lines.golden", plainText(r, nil)+"\n"+totalText(r)+"\n"+rows)
}

// The sample in the documentation is the screen of this version.
func TestSample(t *testing.T) {
	t.Parallel()
	const path = "../../../docs/top.md"
	page := must.Get(os.ReadFile(path))(t)
	r := reportOf(t, "train", 5)
	v := view{name: "train.cudatrace", report: r, latest: r, keys: true}
	var sample strings.Builder
	for _, l := range v.lines(80, 18) {
		fmt.Fprintln(&sample, strings.TrimRight(l.Text, " "))
	}
	before, rest, ok := strings.Cut(string(page), "```\ncudatrace top: ")
	_, after, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("the page has no sample")
	}
	goldentest.Hold(t, path, before+"```\n"+sample.String()+"```"+after)
}
