package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/pattern"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"record", "convert", "stats", "info"}
	for word, want := range map[string]string{
		"rec": "record", "recrod": "record", "Convert": "convert", "covnert": "convert", "stat": "stats",
		"r": "", "x": "", "": "", "something": "", "inof": "info", "python": "", "train": "",
	} {
		if got := pattern.Nearest(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

// TestHabits: what each habit has a person write is a right command line, whatever stands around it.
func TestHabits(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"--to": "sqlite", "--type": "csv", "--report": "cuda_api_sum", "--output": "x.pdf", "--sample": "none",
	}
	for i := range habits {
		h := &habits[i]
		names, takesValue := strings.CutSuffix(h.typed, " VALUE")
		for name := range strings.SplitSeq(names, ", ") {
			typed := []string{"cudatrace", h.command, name}
			if h.command == "" {
				typed = []string{"cudatrace", name}
			}
			if takesValue {
				value := "7"
				for of, v := range values {
					if strings.Contains(h.typed, of) {
						value = v
					}
				}
				typed = append(typed, value)
			}
			typed = append(typed, "a b")
			_, err := arguments(newApp(quiet()), typed)
			if err == nil {
				t.Errorf("%q is no error", typed)
				continue
			}
			_, line, found := strings.Cut(err.Error(), "; write: ")
			rest, quoted := strings.CutSuffix(line, " 'a b'")
			if !found || !quoted {
				t.Errorf("%q: %v", typed, err)
			}
			if _, err := arguments(newApp(quiet()), append(strings.Fields(rest), "a b")); err != nil {
				t.Errorf("%q: %s: %v", typed, line, err)
			}
		}
	}
}

// docs/commands.md shows the habits; -update writes them.
func TestHabitsAreInTheDocs(t *testing.T) {
	var rows strings.Builder
	for i := range habits {
		h := &habits[i]
		names, value := strings.CutSuffix(h.typed, " VALUE")
		typed, here := "`"+h.command+" "+strings.ReplaceAll(names, ", ", "`, `"), "`"+h.write+"`"
		if value {
			typed += " VALUE"
		}
		switch {
		case h.write == "":
			here = h.why
		case h.of != nil && h.write == "-o VALUE":
			here = "an HTML file"
		}
		fmt.Fprintf(&rows, "| %s` | %s |\n", strings.Replace(typed, "` ", "`", 1), here)
	}
	goldentest.Section(t, filepath.Join(root, "docs", "commands.md"), "| typed | here |\n|---|---|\n", "\n## ", rows.String())
}
