package diff

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// page compares five runs with five that allocate in the loop, and whose kernels differ: one is
// longer, one has other template arguments, one is new.
func page(t testing.TB, conditions ...string) *Page {
	t.Helper()
	rule := Rule{Rate: 0.01, GateRate: 0.02, MinChange: 0.05}
	base := logtest.Steps{Seed: 100, Noise: 0.005, Kernels: []string{"_Z4gemmILi64EEvPf", "_Z3oldPf"}}
	new := logtest.Steps{Seed: 200, Noise: 0.005, Longer: 0.1, Malloc: true, Kernels: []string{"_Z4gemmILi128EEvPf", "_Z3newIA|B`CEvPf"}}
	d := Compare(runsOf(t, 5, base), runsOf(t, 5, new), rule)
	return &Page{Diff: d, Base: "base*.cudatrace", New: "new|`*.json", Outcomes: d.Gate(conditionsOf(t, conditions...), false), Top: 10}
}

var examples = []string{"kernel_time > +5%", "kernel:step*:median > +5%", "calls:cudaMalloc > +0", "peak_memory > 2GiB", "kernel:conv* > 0"}

// TestGolden holds each format against a file.
func TestGolden(t *testing.T) {
	p := page(t, examples...)
	for _, r := range p.Diff.New {
		r.Logs[0].Revision = "0123456789abcdef0123"
	}
	p.Diff.Base[0].Logs[0].Revision = "another one"
	p.Problems = []Problem{{Kind: OtherGPU, Text: "different GPUs: a has X, b has Y"}, {Kind: OtherTimes, Text: "one side was later"}}
	p.Refused = p.Problems[:1]
	for name, write := range map[string]func(io.Writer) error{
		"text.txt":    func(w io.Writer) error { return p.WriteText(w, 80) },
		"wide.txt":    func(w io.Writer) error { return p.WriteText(w, 160) },
		"markdown.md": p.WriteMarkdown,
		"diff.json":   p.WriteJSON,
		"junit.xml":   func(w io.Writer) error { return p.WriteJUnit(w) },
	} {
		var got bytes.Buffer
		must.Do(t, write(&got))
		path := filepath.Join("testdata", name)
		goldentest.Hold(t, path, got.String())
	}
}

// No line of text is longer than the terminal, but those in front of the tables, and conditions: they are whole.
func TestWidth(t *testing.T) {
	t.Parallel()
	p := page(t, examples...)
	for _, width := range []int{60, 80, 100, 140} {
		var out strings.Builder
		must.Do(t, p.WriteText(&out, width))
		for _, o := range p.Outcomes {
			if !strings.Contains(out.String(), o.Verdict()+"\n") {
				t.Errorf("width %d: %s is cut", width, o.Verdict())
			}
		}
		_, tables, _ := strings.Cut(out.String(), "\n\noverall: ")
		for line := range strings.Lines(tables) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > width {
				t.Errorf("width %d: %d characters: %s", width, n, line)
			}
		}
	}
}

// A page that is too long for a comment says how much is missing.
func TestLongMarkdown(t *testing.T) {
	t.Parallel()
	p := page(t)
	for _, r := range p.Sections[0].Rows {
		r.Name = strings.Repeat(r.Name, 100)
	}
	row := p.Sections[0].Rows[0]
	for range 1000 {
		p.Sections[0].Rows = append([]*Row{row}, p.Sections[0].Rows...)
		p.Sections[0].Differ++
	}
	p.Top = 0
	var out strings.Builder
	must.Do(t, p.WriteMarkdown(&out))
	if out.Len() > 64<<10 || !strings.HasSuffix(out.String(), "5 more tables are not shown: the page would be too long for a comment\n\n</details>\n") {
		t.Errorf("%d bytes, which end with %q", out.Len(), out.String()[out.Len()-100:])
	}
}

// Few rows are those that add or save most, in the order of what they add.
func TestTop(t *testing.T) {
	t.Parallel()
	p := page(t)
	for top, want := range map[int]string{0: "cudaMalloc cudaFree cudaDeviceSynchronize", 1: "cudaMalloc", 2: "cudaMalloc cudaFree", 3: "cudaMalloc cudaFree cudaDeviceSynchronize"} {
		p.Top = top
		var names []string
		for _, r := range p.shown(p.Sections[3]) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("top %d: %s, want %s", top, got, want)
		}
	}
}

// All forms of the output have one verdict of a condition.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 500) // as names of templates can be
	p := page(t, append(examples, "kernel:"+long+" > 0", "calls:cudaFree > 0")...)
	var junit, markdown strings.Builder
	must.Do(t, errors.Join(p.WriteJUnit(&junit), p.WriteMarkdown(&markdown)))
	var s suite
	must.Do(t, xml.Unmarshal([]byte(junit.String()), &s))
	shown, _, _ := strings.Cut(markdown.String(), "<details>")
	for i, o := range p.Outcomes {
		if !strings.Contains(shown, "| "+string(o.State)+" | "+table.MarkdownName(o.Text)+" | "+table.MarkdownName(o.Verdict())+" |\n") {
			t.Errorf("Markdown lacks %s: %s", o.Text, o.Verdict())
		}
		c := s.Cases[i+1]
		got := ""
		for _, r := range []*result{c.Failure, c.Error} {
			if r != nil {
				got = r.Message
			}
		}
		if want := o.Verdict(); c.Name != o.Text || got != want && o.State != Passed || (c.Failure != nil) != (o.State == Failed) || (c.Error != nil) != (o.State == Broken) {
			t.Errorf("JUnit has %q of %s, want %q", got, o.Text, want)
		}
	}
	rows := 0
	for line := range strings.Lines(shown) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| re") { // titles: result, report
			rows++
		}
	}
	if rows != maxUnfolded {
		t.Errorf("%d rows are not folded", rows)
	}
}
