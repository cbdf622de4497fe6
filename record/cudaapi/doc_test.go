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

// TestDocumentation compares docs/functions.md with the table.
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

const docHead = `# The functions that can be recorded

This page is generated from the table in ` + "`record/cudaapi`" + `; a test keeps both equal. ` + "`cudatrace probes`" + ` prints the same list and
marks the functions that a recording would probe.

- **%d functions** of CUDA 11 to 13. With the variants for per-thread default streams (_ptsz, _ptds) they are %d symbols.
- The column *set* is the smallest set that holds the function, by its name in ` + "`--api`" + `. **minimal**: launches. **default**: functions that
  create GPU work, move or allocate memory, load code or wait, and functions that make and destroy streams, events, graphs and
  contexts. **all**: every function. Only **all** holds the functions that programs call often and that say little about where time
  goes: queries, getters, and the functions that build graphs node by node.
- GPU work is recorded at the driver, because every call that creates GPU work passes the driver. So is what allocates and frees in the
  order of a stream. **all** also records the runtime's functions for both. What else allocates or frees is recorded at both: a call is
  [one slice](calls.md) all the same.
- *fallback* marks a driver function that the runtime calls. It is recorded only in a program without a runtime, or when ` + "`--probe`" + ` names it.
- An argument marked with \* is read after the function has returned with success. Braces hold fields of a struct that the argument
  points to; brackets hold fields of a struct that is passed by value.
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
