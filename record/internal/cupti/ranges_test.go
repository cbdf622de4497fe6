package cupti

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
)

func buildRanges(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ranges")
	build := exec.Command("gcc", "-std=c11", "-D_GNU_SOURCE", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
		"-O0", "-g1", "-fsanitize=undefined", "-fno-sanitize-recover", "-iquote", "inject", "-o", program, "testdata/ranges.c")
	must.Run(t, build)
	return program
}

// A range that begins while another thread has the records switched on is recorded from its beginning, too.
func TestRangeWhileSwitching(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(buildRanges(t), "both").Output()
	if err != nil || string(out) != "1 1\n" {
		t.Errorf("records were on: %q; %v", out, err)
	}
}

// TestRangesOfLibrary has the injected library select and number NVTX ranges as the recorder and the filters of logs do,
// by patterns and names made at random.
func TestRangesOfLibrary(t *testing.T) {
	t.Parallel()
	program := buildRanges(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func(pieces []string, most int) (s string) {
		for range rnd.IntN(most + 1) {
			s += pieces[rnd.IntN(len(pieces))]
		}
		return s
	}
	names := []string{"step", "s", "t", "e", "p", " ", "_", "#", "7", "42", ",", ", loss", "/", "größe", "é", "水", "🙂", "-", "]", "12345678901"}
	globs := append(names[:len(names):len(names)], "*", "*", "?", "?", "[a-z]", "[^0-9]", "[é水]", "[^s]", `\*`, `\[`, `[\]-]`)
	endings := []string{" 7", "#0042", ":9999999999, loss"}
	var in, want strings.Builder
	said, numbered := 0, 0
	var cases []string
	for len(cases) < 50_000 {
		r := pattern.Ranges{Name: text(globs, 3), Domain: text(globs, 2)}
		if rnd.IntN(2) == 0 {
			r.Domain = "*"
		}
		name, domain := text(names, 3), text(names, 1)
		if rnd.IntN(2) == 0 {
			name += endings[rnd.IntN(len(endings))]
		}
		if pattern.Check(r.Name) != nil || pattern.Check(r.Domain) != nil {
			continue
		}
		fmt.Fprintf(&in, "%x %x %x %x\n", r.Name, r.Domain, name, domain)
		cases = append(cases, fmt.Sprintf("%q: name %q of domain %q", r, name, domain))
		number := int64(-2)
		if r.Match(name, domain) {
			_, number = pattern.Stem(name)
			said++
			if number >= 0 {
				numbered++
			}
		}
		fmt.Fprintln(&want, number)
	}
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = strings.NewReader(in.String()), os.Stderr
	out := must.Get(cmd.Output())(t)
	got, wanted := strings.Split(string(out), "\n"), strings.Split(want.String(), "\n")
	if len(got) != len(wanted) || said < 1_000 || numbered < 100 {
		t.Fatalf("%d answers to %d questions, %d ranges selected, %d with numbers", len(got), len(wanted), said, numbered)
	}
	for i, c := range cases {
		if got[i] != wanted[i] {
			t.Errorf("%s: selected %s, want %s", c, got[i], wanted[i])
		}
	}
}

// Recordings begin and end while threads begin and end ranges without pause: none of them lacks a range.
func TestStandby(t *testing.T) {
	t.Parallel()
	for _, sanitizer := range []string{"thread", "address,undefined"} {
		program := filepath.Join(t.TempDir(), "waiting")
		must.Run(t, exec.Command("gcc", "-std=c11", "-D_GNU_SOURCE", "-pthread", "-Wall", "-Wextra", "-Werror", "-O1", "-g1",
			"-fsanitize="+sanitizer, "-fno-sanitize-recover", "-iquote", "inject", "-o", program, "testdata/waiting.c"))
		cmd := exec.Command(program, "20", "4")
		cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", sanitizer, err, out)
		}
	}
}

// Parts of the library at moments that come seldom: what waits for a recorder that dies is given back; a handler that
// the program installs as ours goes stays; a subscription is not given back under a thread that takes it.
func TestMoments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"full", "handlers", "subscription"} {
		program := filepath.Join(t.TempDir(), name)
		must.Run(t, exec.Command("gcc", "-std=c11", "-D_GNU_SOURCE", "-pthread", "-Wall", "-Wextra", "-Werror",
			"-iquote", "inject", "-o", program, "testdata/"+name+".c"))
		must.Run(t, exec.Command(program))
	}
}
