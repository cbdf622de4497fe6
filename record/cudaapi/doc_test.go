package cudaapi

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/functions.md from the table")

const docPath = "../../docs/functions.md"

// docs/functions.md says what the table says.
func TestDocumentation(t *testing.T) {
	want := documentation()
	if *update {
		if err := os.WriteFile(docPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("run go test with -update (-want +got):\n%s", diff)
	}
}

const docHead = `# The functions that are recorded

Written from the table in ` + "`record/cudaapi`" + `; a test keeps it so. ` + "`cudatrace probes`" + ` prints the same for a choice of functions.

- **%d functions** of CUDA 11 to 13; with the forms for per-thread default streams (_ptsz, _ptds) %d symbols.
- Sets: **minimal** (launches), **default** (what creates GPU work, moves or allocates memory, loads code or waits, and what makes and
  destroys streams, events, graphs and contexts), **all**. Not in the default set is what is called often and says little about
  where time goes: queries, getters, cudaEventRecord, the nodes of a graph that is built by hand.
- GPU work is recorded at the driver, which every such call passes. With *all* the runtime's functions for it are recorded too.
- *fallback*: a driver function behind a function of the runtime, recorded in a program that has no runtime, or when asked for with --probe.
- Arguments marked with * are read when the function has returned with success. In braces: fields of a struct that the argument
  points to; in brackets: of a struct that is passed by value.
`

func documentation() string {
	var b strings.Builder
	symbols, rows := len(functions), 0
	for i := range functions {
		if functions[i].Name == functions[i].Base() {
			rows++
		}
	}
	fmt.Fprintf(&b, docHead, rows, symbols)
	heading := ""
	for i := range functions {
		f := &functions[i]
		if f.Name != f.Base() {
			continue
		}
		if h := fmt.Sprintf("\n## %s: %s\n\n| function | set | arguments |\n|---|---|---|\n", f.Library, f.Category); h != heading {
			heading = h
			b.WriteString(h)
		}
		fmt.Fprintf(&b, "| `%s`%s | %s%s | %s |\n", f.Name, perThread(f), setName(f.Sets), fallback(f), argText(f))
	}
	return b.String()
}

func perThread(f *Function) string {
	if next := int(f.ID) + 1; next < len(functions) && functions[next].Base() == f.Name {
		return " " + strings.TrimPrefix(functions[next].Name, f.Name)
	}
	return ""
}

func setName(s Set) string {
	switch {
	case s&Minimal != 0:
		return "minimal"
	case s&Default != 0:
		return "default"
	}
	return "all"
}

func fallback(f *Function) string {
	if f.Fallback {
		return ", fallback"
	}
	return ""
}

// argText joins the arguments, with the fields of a struct in brackets.
func argText(f *Function) string {
	var b strings.Builder
	closing := ""
	for i, a := range f.Args {
		inside := fieldBrackets(f, i)
		if i == 0 || a.Index != f.Args[i-1].Index {
			b.WriteString(closing)
			closing = ""
			if i > 0 {
				b.WriteByte(' ')
			}
			if inside != "" {
				b.WriteByte(inside[0])
				closing = inside[1:]
			}
		} else {
			b.WriteByte(' ')
		}
		if a.Out() {
			b.WriteString("\\*")
		}
		fmt.Fprintf(&b, "%s:%s", a.Name, a.Type)
	}
	return b.String() + closing
}

func fieldBrackets(f *Function, i int) string {
	shared := func(j int) bool { return j >= 0 && j < len(f.Args) && f.Args[j].Index == f.Args[i].Index }
	switch {
	case f.Args[i].From == FromValue:
		return "[]"
	case f.Args[i].From == FromField, f.Args[i].Out() && (shared(i-1) || shared(i+1)):
		return "{}"
	}
	return ""
}
