package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// TestInfoIsDocumented holds docs/info.md against the JSON of a log: both have the same
// fields, and the same causes of loss.
func TestInfoIsDocumented(t *testing.T) {
	t.Parallel()
	stdout, _ := succeed(t, "info", gpuLog, "--format", "json")
	var info map[string]any
	must.Do(t, json.Unmarshal([]byte(stdout), &info))
	text := must.Get(os.ReadFile(filepath.Join(root, "docs", "info.md")))(t)
	fields, causes, _ := strings.Cut(string(text), "Causes in `lost`")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(info)), firstCells(fields)); diff != "" {
		t.Errorf("fields (-JSON +docs/info.md):\n%s", diff)
	}
	want := slices.Clone(tracelog.LostCauses)
	slices.Sort(want)
	if diff := cmp.Diff(want, firstCells(causes)); diff != "" {
		t.Errorf("causes (-code +docs/info.md):\n%s", diff)
	}
}

// firstCells are the names in the first column of a table, or before the colons of a list, sorted.
func firstCells(text string) (names []string) {
	name := regexp.MustCompile("`(\\w+)`")
	for line := range strings.Lines(text) {
		first, _, listed := strings.Cut(line, ": ")
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			first, listed = cells[1], true
		} else if !strings.HasPrefix(line, "- `") {
			continue
		}
		if listed {
			for _, m := range name.FindAllStringSubmatch(first, -1) {
				names = append(names, m[1])
			}
		}
	}
	slices.Sort(names)
	return names
}
