package kernelnames

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

const golden = "testdata/names.txt"

// A section of the golden file is a log: a heading, and a line for each kernel.
type section struct {
	heading string
	full    []string
}

func sections(t testing.TB) (list []section) {
	t.Helper()
	text := must.Get(os.ReadFile(golden))(t)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			list = append(list, section{heading: line})
		} else if _, full, is := strings.Cut(line, "\t"); is {
			s := &list[len(list)-1]
			s.full = append(s.full, full)
		}
	}
	return list
}

func plain(names []string) (list []timeline.KernelName) {
	for _, n := range names {
		list = append(list, timeline.KernelName{Short: n, Full: n})
	}
	return list
}

// The golden file has what people see, a tab, and the full name. To try another name, write a tab and the name in a
// line, and run the test with -update.
func TestNames(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i, s := range sections(t) {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(s.heading + "\n")
		names := New(plain(s.full))
		var lines []string
		for _, full := range s.full {
			lines = append(lines, fmt.Sprintf("%-*s\t%s\n", Width, names.Of(full), full))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	goldentest.Hold(t, golden, b.String())
}

// check checks what holds of any names, in any order.
func check(t *testing.T, full []string) {
	t.Helper()
	names := New(plain(full))
	of := make(map[string]string)
	for _, f := range full {
		short := names.Of(f)
		if n := utf8.RuneCountInString(short); n > Width {
			t.Errorf("%q: %q has %d columns", f, short, n)
		}
		if short != figures.Clean(short) {
			t.Errorf("%q: %q has what a terminal must not get", f, short)
		}
		if other, known := of[short]; known && other != f {
			t.Errorf("%q and %q are both %q", other, f, short)
		}
		of[short] = f
	}
	mixed := slices.Clone(full)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	again := New(plain(append(mixed, mixed[:len(mixed)/2]...)))
	for _, f := range full {
		if names.Of(f) != again.Of(f) {
			t.Errorf("%q: %q in one order, %q in another", f, names.Of(f), again.Of(f))
		}
	}
}

func TestAnyNames(t *testing.T) {
	t.Parallel()
	var all []string
	for _, s := range sections(t) {
		check(t, s.full)
		all = append(all, s.full...)
	}
	check(t, all)
	some := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		part := slices.DeleteFunc(slices.Clone(all), func(string) bool { return some.IntN(3) > 0 })
		check(t, part)
	}
}

// Kernels that differ in their parameters alone have one name without them.
func TestOverloads(t *testing.T) {
	t.Parallel()
	names := New([]timeline.KernelName{
		{Short: "add", Full: "add(int*)"}, {Short: "add", Full: "add(float*)"}, {Short: "sub", Full: "sub(float*)"},
	})
	for name, want := range map[string]string{
		"add(int*)": "add int", "add(float*)": "add float", "add": "add", "sub": "sub", "sub(float*)": "sub",
	} {
		if got := names.Of(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Names that differ nowhere within reach get numbers, and a name that looks like such a one stays itself.
func TestNumbers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("same_", 40)
	check(t, []string{long + "(a)", long + "[a]", long + "{a}", "k #2", "k", "k\x00", "k\x01", "k\u202e", "k\ufffd",
		"k\ufffd #2"})
}

// Hostile names take time and memory that grow no faster than they do.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{
		"nested": "a<", "closed": ">", "parameters": "f(", "lambdas": "{lambda(", "quotes": "'lambda", "colons": "::",
		"spaces": "a ", "commas": "k<a,", "marks": "!a", "operators": "operator<", "brackets": "[(<{", "words": "unsigned ",
		"wide": "漢", "invalid": "\xff", "right to left": "\u202e", "underscores": "_a",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := func(bytes int) string { return strings.Repeat(unit, bytes/len(unit)) }
			check(t, []string{long(1 << 20), long(1 << 16), long(1<<16) + "x", long(1000), "k<" + long(1000) + ">"})
		})
	}
}

func TestNoNames(t *testing.T) {
	t.Parallel()
	var none *Names
	for _, n := range []*Names{none, New(nil)} {
		if got := n.Of("(other)"); got != "(other)" {
			t.Errorf("a name that is not known is %q", got)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range sections(f) {
		for i := 0; i < len(s.full); i += 20 {
			f.Add(s.full[i], s.full[(i+1)%len(s.full)])
		}
	}
	f.Add("k<\x00\xff>", "a::'lambda'(\u202e")
	f.Fuzz(func(t *testing.T, a, b string) { check(t, []string{a, b, a + b, "f<" + a + ", " + b + ">"}) })
}

// Each rule names a kernel of the golden file.
func TestRules(t *testing.T) {
	t.Parallel()
	used := make(map[*rule]bool)
	for _, s := range sections(t) {
		for _, full := range s.full {
			for n := parse(full); n != nil; n = n.inner() {
				r, _ := ruleOf(n)
				used[r] = true
			}
		}
	}
	for i := range rules {
		if !used[&rules[i]] {
			t.Errorf("no name in %s is of %s", golden, rules[i].pattern)
		}
	}
}
