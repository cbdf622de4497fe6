package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/cmd/cudatrace/option"
	"github.com/cudatrace/cudatrace/convert/stats"
)

// TestCompletionShells completes command lines in each shell.
func TestCompletionShells(t *testing.T) {
	t.Parallel()
	for _, shell := range [][]string{{"bash"}, {"zsh", "-f"}, {"fish", "-N"}} {
		t.Run(shell[0], func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Fatalf("%v: run `make tools` in the root of the repository (it installs %s, as root)", err, shell[0])
			}
			dir := t.TempDir()
			for _, name := range []string{"a.cudatrace", "b.pftrace", "c.txt", "folder/d.cudatrace"} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			completeLines(t, shell, dir)
		})
	}
}

func completeLines(t *testing.T, shell []string, dir string) {
	t.Helper()
	home := t.TempDir()
	script := filepath.Join(home, "script")
	text, err := exec.Command("cudatrace", "completion", shell[0]).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want string }{
		{"cudatrace con", "convert"},
		{"cudatrace help rec", "record"},
		{"cudatrace completion ", "bash fish zsh"},
		{"cudatrace info --format ", "json text"},
		{"cudatrace info --format=", "json text"},
		{"cudatrace info --format=j", "json"},
		{"cudatrace record --capture-range ", "cudaProfilerApi none nvtx:"},
		{"cudatrace dump --kind call,ker", "call,kernel"},
		{"cudatrace dump --kin", "--kind"},
		{"cudatrace stats ", "a.cudatrace folder"},
		{"cudatrace open ", "a.cudatrace b.pftrace folder"},
		{"cudatrace open b", "b.pftrace"},
		{"cudatrace man -o ", "folder"},
		{"cudatrace convert a.cudatrace --output c", "c.txt"},
		{"cudatrace record -p ", ""},
		{"cudatrace record -q touc", "touch"},
		{"cudatrace record touch c", "c.txt"},
		{"cudatrace nothing ", ""},
	} {
		command := slices.Concat(shell, []string{filepath.Join(root, "cmd/cudatrace/completion/testdata/capture."+shell[0]), script, c.line})
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home, "TERM=dumb")
		out, err := cmd.CombinedOutput()
		words := strings.Fields(strings.NewReplacer("--format=", "", "/\n", "\n").Replace(string(out)))
		slices.Sort(words)
		if got := strings.Join(slices.Compact(words), " "); err != nil || got != c.want {
			t.Errorf("%q: %v: %q, want %q", c.line, err, got, c.want)
		}
	}
}

// TestCompletionAll: each command, option and value is offered, and nothing beside them.
func TestCompletionAll(t *testing.T) {
	t.Parallel()
	app := newApp(console.New(io.Discard, io.Discard))
	var names []string
	for _, c := range app.VisibleCommands() {
		names = append(names, c.Name)
		var options []string
		for _, o := range option.Visible(c) {
			options = append(options, "--"+o.Long)
		}
		wantWords(t, append(options, "--help"), c.Name, "--")
	}
	wantWords(t, append(names, "--help", "--version"), "")
	wantWords(t, stats.Names(), "stats", "--report", "")
	wantWords(t, []string{"auto", "uprobe", "cupti", "none"}, "record", "-q", "--calls", "")
	wantWords(t, []string{"none"}, "diff", "--significance", "")
	wantWords(t, nil, "convert", "--split", "")
}

// wantWords checks the words that the command line is to be completed with.
func wantWords(t *testing.T, want []string, words ...string) {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(append([]string{"cudatrace", "complete-words"}, words...), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("%q: exit code %d: %s", words, code, stderr.String())
	}
	offer, rest, _ := strings.Cut(stdout.String(), "\n")
	var got []string
	for line := range strings.Lines(rest) {
		word, _, _ := strings.Cut(line, "\t")
		got = append(got, word)
	}
	if diff := cmp.Diff(want, got); diff != "" || offer != "words" {
		t.Errorf("%q: %s (-want +got):\n%s", words, offer, diff)
	}
}
