package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/metadata"
)

// TestVariablesAreDocumented holds the list of docs/metadata.md against that of the recorder.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, g := range metadata.Groups {
		when := "always"
		if g.If != "" {
			when = "`" + g.If + "` is set"
		}
		want = append(want, g.Title+": "+when+": `"+strings.Join(g.Names, "` `")+"`")
	}
	for line := range strings.Lines(section(t, readRepository(t, "docs/metadata.md"), "## Environment variables")) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "-") || cells[1] == " group " {
			continue
		}
		got = append(got, strings.TrimSpace(cells[1])+": "+strings.TrimSpace(cells[2])+": "+strings.TrimSpace(cells[3]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-recorder +docs/metadata.md):\n%s", diff)
	}
}
