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
	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/must"
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
				must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
			}
			completeLines(t, shell, dir)
		})
	}
}

func completeLines(t *testing.T, shell []string, dir string) {
	t.Helper()
	home := t.TempDir()
	script := filepath.Join(home, "script")
	text := must.Get(exec.Command("cudatrace", "completion", shell[0]).Output())(t)
	must.Do(t, os.WriteFile(script, text, 0o644))
	for _, c := range []struct{ line, want string }{
		{"cudatrace con", "convert"},
		{"cudatrace info --format=", "json text"},
		{"cudatrace info --format=j", "json"},
		{"cudatrace record --capture-range ", "cudaProfilerApi none nvtx:"},
		{"cudatrace dump --kind call,ker", "call,kernel"},
		{"cudatrace open ", "a.cudatrace b.pftrace folder"},
		{"cudatrace man -o ", "folder"},
		{"cudatrace record -p ", ""},
		{"cudatrace record -q touc", "touch"},
		{"cudatrace record touch c", "c.txt"},
	} {
		command := slices.Concat(shell, []string{filepath.Join(root, "cmd/cudatrace/testdata/completion/capture."+shell[0]), script, c.line})
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
		for _, o := range visibleOptions(c) {
			options = append(options, "--"+o.Long)
		}
		wantWords(t, append(options, "--help"), c.Name, "--")
	}
	wantWords(t, append(names, "--help", "--version"), "")
	wantWords(t, stats.Names(), "stats", "--report", "")
	wantWords(t, []string{"auto", "uprobe", "cupti", "none"}, "record", "-q", "--calls", "")
	wantWords(t, []string{"none"}, "diff", "--significance", "")
	wantWords(t, nil, "convert", "--min-duration", "")
}

// wantWords checks the words that the command line is to be completed with.
func wantWords(t *testing.T, want []string, words ...string) {
	t.Helper()
	stdout, stderr := succeed(t, append([]string{"complete-words"}, words...)...)
	offer, rest, _ := strings.Cut(stdout, "\n")
	var got []string
	for line := range strings.Lines(rest) {
		word, _, _ := strings.Cut(line, "\t")
		got = append(got, word)
	}
	if diff := cmp.Diff(want, got); diff != "" || offer != "words" || stderr != "" {
		t.Errorf("%q: %s (-want +got):\n%s%s", words, offer, diff, stderr)
	}
}

// TestComplete completes the last word of lines, whose words stand between bars.
func TestComplete(t *testing.T) {
	t.Parallel()
	app := &cli.App{Name: "prog", Commands: []*cli.Command{
		{Name: "run", Usage: "run it", ArgsUsage: "PROGRAM [ARG...]", UsageText: "prog run [--] PROGRAM [ARG...]", Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write `NAME`"},
			&cli.StringFlag{Name: "mode", Usage: "`fast|exact|TIME`: how"},
			&cli.StringFlag{Name: "only", Usage: "only `KINDS`"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "say nothing"},
			&cli.BoolFlag{Name: "secret", Hidden: true},
		}},
		{Name: "watch", ArgsUsage: "LOG", UsageText: "prog watch LOG\nprog watch -- PROGRAM [ARG...]"},
		{Name: "look", ArgsUsage: "[PROGRAM]", UsageText: "prog look [PROGRAM]"},
		{Name: "compare", ArgsUsage: "BASE NEW"},
		{Name: "nothing"},
		{Name: "hidden", Hidden: true},
	}}
	for _, c := range []struct{ line, want string }{
		{"", "words run watch look compare nothing --help --version"},
		{"r", "words run"},
		{"--v", "words --version"},
		{"unknown|x", "words"},
		{"nothing|", "words"},
		{"run|-", "words --output --mode --only --quiet --help"},
		{"run|--mo", "words --mode"},
		{"run|--mode|", "words fast exact"},
		{"run|-mode|f", "words fast"},
		{"run|--mode=e", "words --mode=exact"},
		{"run|--mode|=|e", "words --mode=exact"},
		{"run|--mode|=", "words --mode=fast --mode=exact"},
		{"run|--mode|fast|", "program 3"},
		{"run|--only|ker", "words kernel"},
		{"run|--calls|=|auto|prog|--x|=|", "program 4"},
		{"run|--only|call,k", "words call,kernel"},
		{"run|--only=call,me", "words --only=call,meta --only=call,memcpy --only=call,memset --only=call,memory --only=call,memory_pool --only=call,metric_set --only=call,metric"},
		{"run|-o|", "files"},
		{"run|-qo|", "files"},
		{"run|-oname|", "program 2"},
		{"run|-q|", "program 2"},
		{"run|--unknown|a", "program 2"},
		{"run|a", "program 1"},
		{"run|a|-", "program 1"},
		{"run|a|--mode|", "program 1"},
		{"run|--|-x", "program 2"},
		{"run|--mode=fast|--|a|b", "program 3"},
		{"watch|", "files cudatrace"},
		{"watch|--|", "program 2"},
		{"look|--|", "program 2"},
		{"look|a", "program 1"},
		{"compare|a|", "files cudatrace json"},
		{"=|=|", "words"},
		{"run|=|=", "program 1"},
	} {
		lines := complete(app, strings.Split(c.line, "|"))
		got := lines[0]
		for _, line := range lines[1:] {
			word, _, _ := strings.Cut(line, "\t")
			got += " " + word
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

// FuzzComplete: whatever stands in a line, the words that are offered continue its last word.
func FuzzComplete(f *testing.F) {
	app := &cli.App{Commands: []*cli.Command{{Name: "run", ArgsUsage: "LOG", Flags: []cli.Flag{
		&cli.StringFlag{Name: "mode", Aliases: []string{"m"}, Usage: "`fast|exact`"}, &cli.StringFlag{Name: "only", Usage: "only `KINDS`"},
	}}}}
	for _, line := range []string{"run|--mode=", "run|-m|", "run|--only=a,b|=|-x", "run|é|-é|="} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Split(text, "|")
		l := joined(words)
		for _, line := range complete(app, words)[1:] {
			if !strings.HasPrefix(line, l[len(l)-1]) {
				t.Errorf("%q: %q", words, line)
			}
		}
	})
}
