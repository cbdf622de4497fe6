package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// TestManual: groff has nothing to say against a page of a command, and each page has what the help has.
func TestManual(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "man1")
	if out, err := exec.Command("cudatrace", "man", "-o", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	app := newApp(quiet())
	wantPage(t, filepath.Join(dir, "cudatrace.1"), app.Description)
	for _, c := range app.VisibleCommands() {
		lines := strings.Split(c.Usage+"\n"+c.UsageText+"\n"+c.Description, "\n")
		for _, o := range visibleOptions(c) {
			lines = append(lines, o.Names(), o.Text)
		}
		page := wantPage(t, filepath.Join(dir, "cudatrace-"+c.Name+".1"), lines...)
		out, err := exec.Command("cudatrace", "man", c.Name).Output()
		if err != nil || string(out) != page {
			t.Errorf("man %s prints (%v) another text than man -o writes", c.Name, err)
		}
	}
	files, err := os.ReadDir(dir)
	if len(files) != len(app.VisibleCommands())+1 {
		t.Errorf("%d pages (%v)", len(files), err)
	}
}

// wantPage checks the text that a person sees of a manual page, and returns the page.
func wantPage(t *testing.T, path string, want ...string) (page string) {
	t.Helper()
	cmd := exec.Command("groff", "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=10000n", path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v (`make tools` installs groff): %s", path, err, stderr.String())
	}
	shown := strings.Join(strings.Fields(string(out)), " ")
	for _, text := range want {
		if text = strings.Join(strings.Fields(strings.TrimPrefix(text, "Example: ")), " "); !strings.Contains(shown, text) {
			t.Errorf("%s lacks %q:\n%s", path, text, out)
		}
	}
	source := must.Get(os.ReadFile(path))(t)
	return string(source)
}

// TestManualFolder: a folder that cannot be written to is named.
func TestManualFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o644))
	var stdout, stderr strings.Builder
	want := fmt.Sprintf("cudatrace: the folder %s cannot be made: not a directory\n", file)
	if code := run([]string{"cudatrace", "man", "-o", file}, &stdout, &stderr); code != exitFailure || stderr.String() != want {
		t.Errorf("exit code %d: %q, want %q", code, stderr.String(), want)
	}
}

// TestManualPage compares the page of a command whose texts have all that man would take for its own.
func TestManualPage(t *testing.T) {
	t.Parallel()
	got := must.Get(manualPage(&cli.App{Name: "prog", Version: "1.2-3"}, &cli.Command{
		Name: "run", Usage: `run 'it' "now"`,
		UsageText:   "prog run [OPTION...] FILE\nprog run --all\n\nExample: prog run ~/.x '*' `y`\nExample: .dot \\n ^",
		Description: ".TH is no request here.\n'br is none either: a\\fBb",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "take everything"},
			&cli.StringFlag{Category: "Output", Name: "output", Aliases: []string{"o"}, Value: "x.y", Usage: "write `FILE`"},
			&cli.StringFlag{Category: "Output", Name: "mode", Usage: "`a-b|c`: how"},
		},
	}))(t)
	goldentest.Hold(t, "testdata/manual.1", got)
}
