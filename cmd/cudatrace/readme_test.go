package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

// TestREADMESample records the program of README's sample output, and compares what is said, but
// for times, sizes, costs and the number of calls.
func TestREADMESample(t *testing.T) {
	t.Parallel()
	text := readRepository(t, "README.md")
	_, sample, _ := strings.Cut(text, "$ sudo $(command -v cudatrace) record -o demo build/sim/bin/demo\n")
	sample, _, ok := strings.Cut(sample, "```")
	if !ok {
		t.Fatal("README.md has no sample output")
	}
	cmd := exec.Command("cudatrace", "record", "-o", "demo", sim("demo"))
	cmd.Dir = t.TempDir()
	got := must.Run(t, cmd)
	if diff := cmp.Diff(withoutFigures(sample), withoutFigures(string(got))); diff != "" {
		t.Errorf("README.md's sample differs (-README +got):\n%s", diff)
	}
}

// TestREADMEStart runs the first commands of README with a program of that name; TestWheel runs pip.
func TestREADMEStart(t *testing.T) {
	t.Parallel()
	interpreters := pythontest.All(t)
	if len(interpreters) == 0 {
		t.Skip("no Python here")
	}
	lines := strings.Split(codeBlocks(readRepository(t, "README.md"))[0], "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "pip install ./cudatrace-*_x86_64.whl ") {
		t.Fatalf("README.md begins with %q", lines)
	}
	dir := t.TempDir()
	program := []byte(contents(t, "testdata/python/holds.py"))
	must.Do(t, os.WriteFile(filepath.Join(dir, "train.py"), program, 0o644))
	for i, want := range []string{"cudatrace stats train.cudatrace", "findings: ", ""} {
		command := strings.Replace(lines[1+i], "python3", interpreters[0].Path, 1)
		if i == 2 {
			command = strings.Replace(command, "cudatrace open", "test -s", 1)
		}
		cmd := pythonCommand("sh", "-c", command)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", lines[1+i], err, out)
		}
	}
}

// sampleCommand is a command about logs of the repository.
var sampleCommand = regexp.MustCompile(`^\$ (cudatrace (?:stats|diff|stuck) testdata/.*)$`)

// TestTutorial: each command of docs/tutorial.md and README.md about logs of the repository prints what stands there.
func TestTutorial(t *testing.T) {
	t.Parallel()
	commands := 0
	for _, block := range codeBlocks(readRepository(t, "docs/tutorial.md") + readRepository(t, "README.md")) {
		line, want, _ := strings.Cut(block, "\n")
		m := sampleCommand.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		command := m[1]
		commands++
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = root
		got, err := cmd.Output()
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v (-page +got):\n%s", command, err, diff)
		}
	}
	if commands != 5 {
		t.Errorf("docs/tutorial.md and README.md have %d commands", commands)
	}
}

// TestREADMERecipes runs the commands of README's recipes in their order: with a simulated program in the place of Python's, and as two ranks what torchrun starts.
func TestREADMERecipes(t *testing.T) {
	t.Parallel()
	_, recipes, _ := strings.Cut(readRepository(t, "README.md"), "\n## Recipes\n")
	recipes, _, _ = strings.Cut(recipes, "\n## ")
	blocks := regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(recipes, -1)
	if len(blocks) != 7 {
		t.Fatalf("README.md has %d recipes", len(blocks))
	}
	blocks = blocks[1:] // TestTutorial has the first
	dir := t.TempDir()
	shell := func(command string, env ...string) {
		t.Helper()
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 0 && !(code == exitHolds && strings.HasPrefix(command, "cudatrace diff ")) {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	record := "cudatrace record -q --no-convert -o base/$i " + sim("steps")
	shell("mkdir base && for i in 1 2 3 4; do " + record + " || exit; done")
	shell("cp -r base new")
	program := regexp.MustCompile(`python3 \w+\.py`)
	for _, block := range blocks {
		for command := range strings.Lines(block[1]) {
			command = program.ReplaceAllLiteralString(command, sim("threads"))
			if rank, ok := strings.CutPrefix(command, "torchrun --nproc-per-node 8 --no-python "); ok {
				shell(rank, "RANK=0", "WORLD_SIZE=2")
				shell(rank, "RANK=1", "WORLD_SIZE=2")
				continue
			}
			shell(command)
		}
	}
}

// TestREADMEReport: the page is made, and what is said of it is README's, but for its size.
func TestREADMEReport(t *testing.T) {
	t.Parallel()
	_, sample, _ := strings.Cut(readRepository(t, "README.md"), "$ cudatrace report testdata/gpu/logs/train.cudatrace -o report.html\n")
	sample, _, ok := strings.Cut(sample, "```")
	if !ok {
		t.Fatal("README.md makes no report")
	}
	cmd := exec.Command("cudatrace", "report", filepath.Join(root, "testdata/gpu/logs/train.cudatrace"), "-o", "report.html")
	cmd.Dir = t.TempDir()
	got, err := cmd.CombinedOutput()
	if diff := cmp.Diff(withoutFigures(sample), withoutFigures(string(got))); err != nil || diff != "" {
		t.Errorf("%v (-README +got):\n%s", err, diff)
	}
}

// TestREADMEShort: README wins in a minute, or not at all.
func TestREADMEShort(t *testing.T) {
	t.Parallel()
	const most = 1300
	if n := len(strings.Fields(readRepository(t, "README.md"))); n > most {
		t.Errorf("README.md has %d words, more than %d: docs has room for the rest", n, most)
	}
}

// withoutFigures leaves out what differs from run to run.
func withoutFigures(text string) string {
	text = regexp.MustCompile(`[\d.]+ (ms|s|µs|KiB)\b`).ReplaceAllString(text, "TIME OR SIZE")
	text = regexp.MustCompile(`(peak memory )[\d.]+ \w+`).ReplaceAllString(text, "$1 SIZE")
	text = regexp.MustCompile(`(GPU busy: +)[\d.]+ %`).ReplaceAllString(text, "$1 SHARE")
	text = regexp.MustCompile(`(?m)^  (look first|try): .*\n`).ReplaceAllString(text, "") // it depends on times
	text = regexp.MustCompile(`[\d,]+ (calls|slices)`).ReplaceAllString(text, "CALLS")
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}

// TestMissing: each message that docs/missing.md explains is one that the program has, word for word.
func TestMissing(t *testing.T) {
	t.Parallel()
	table := readRepository(t, "docs/missing.md")
	sources := sourceText(t)
	rows := 0
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		rows++
		for _, part := range regexp.MustCompile(`\.\.\.|\bN\b`).Split(m[1], -1) {
			if part = strings.Trim(part, " :=()"); !hasWords(sources, part) {
				t.Errorf("docs/missing.md explains the message %q: no code says %q", m[1], part)
			}
		}
	}
	if rows < 6 {
		t.Errorf("docs/missing.md explains %d messages", rows)
	}
}

// hasWords reports whether code has a text, in one piece or in two: "processes are" "not recorded".
func hasWords(sources, text string) bool {
	if strings.Contains(sources, text) {
		return true
	}
	for i := range text {
		if text[i] == ' ' && strings.Contains(sources, `"`+text[:i]) && strings.Contains(sources, text[i+1:]) ||
			text[i] == ' ' && strings.Contains(sources, text[:i]+`"`) && strings.Contains(sources, text[i+1:]) {
			return true
		}
	}
	return false
}

// sourceText is the code that has messages.
func sourceText(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range []string{"cmd", "convert", "record"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".c") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}))
	}
	return all.String()
}
