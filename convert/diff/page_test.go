package diff

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// page compares five runs with five that allocate in the loop, and whose kernels differ: one is
// longer, one has other template arguments, one is new.
func page(t testing.TB, conditions ...string) *Page {
	t.Helper()
	rule := Rule{Rate: 0.01, MinChange: 0.05}
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
	p.Problems = []Problem{{Kind: OtherGPU, Text: "GPUs: a has X, b has Y"}}
	for name, write := range map[string]func(io.Writer) error{
		"text.txt":    func(w io.Writer) error { return p.WriteText(w, 80) },
		"wide.txt":    func(w io.Writer) error { return p.WriteText(w, 160) },
		"markdown.md": p.WriteMarkdown,
		"diff.json":   p.WriteJSON,
		"junit.xml":   func(w io.Writer) error { return p.WriteJUnit(w, p.Problems) },
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		goldentest.Hold(t, path, got.String())
	}
}

// No line of text is longer than the terminal, but those in front of the tables.
func TestWidth(t *testing.T) {
	t.Parallel()
	p := page(t, examples...)
	for _, width := range []int{60, 80, 100, 140} {
		var out strings.Builder
		if err := p.WriteText(&out, width); err != nil {
			t.Fatal(err)
		}
		_, tables, _ := strings.Cut(out.String(), "\n\n")
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
	if err := p.WriteMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 64<<10 || !strings.HasSuffix(out.String(), "5 more tables are not shown: the page would be too long for a comment\n") {
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
		for _, r := range p.shown(p.Sections[4]) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("top %d: %s, want %s", top, got, want)
		}
	}
}

// The data formats are what their names say, and JUnit's counts are right.
func TestData(t *testing.T) {
	t.Parallel()
	p := page(t, examples...)
	var out bytes.Buffer
	if err := p.WriteJSON(&out); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("%v: %s", err, &out)
	}
	out.Reset()
	if err := p.WriteJUnit(&out, nil); err != nil {
		t.Fatal(err)
	}
	var s suite
	if err := xml.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, c := range s.Cases {
		names[c.Class+c.Name] = true
	}
	if s.Tests != 6 || s.Failures != 2 || s.Errors != 1 || len(s.Cases) != 6 || len(names) != 6 {
		t.Errorf("%+v", s)
	}
}
