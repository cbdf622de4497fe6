package stats_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// docs/stats.md has a section of each report, with the table of its keys, and the list of the details. -update writes them: what else a
// section says is written by hand.
func TestDocs(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "stats.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, rest, _ := strings.Cut(string(data), "\n## Nsight")
	parts := strings.Split(text, "\n### `")
	sections := make(map[string]string)
	for _, s := range parts[1:] {
		name, body, _ := strings.Cut(s, "`\n")
		sections[name] = body
	}
	var got strings.Builder
	got.WriteString(withDetails(parts[0]))
	for _, r := range stats.Reports {
		fmt.Fprintf(&got, "\n### `%s`\n%s", r.Name, withKeys(sections[r.Name], r))
	}
	got.WriteString("\n## Nsight" + rest)
	goldentest.Hold(t, path, got.String())
}

// withDetails returns the text before the sections, with the list of the details.
func withDetails(text string) string {
	const begin, end = "and the reports `", "` come only"
	before, rest, _ := strings.Cut(text, begin)
	_, after, _ := strings.Cut(rest, end)
	list, last := stats.Details(), len(stats.Details())-1
	return before + begin + strings.Join(list[:last], "`, `") + "` and `" + list[last] + end + after
}

// timeKeys are the keys of how durations differ, which the section on times explains.
const timeKeys = "`min_ns`, `median_ns`, `mean_ns`, `p95_ns`, `p99_ns`, `max_ns`, `stddev_ns`, `median_low_ns`, `median_high_ns`"

// withKeys returns a section of a report with the table of its keys.
func withKeys(section string, r *stats.Report) string {
	const head = "| key | meaning |\n|---|---|\n"
	before, rest, found := strings.Cut(section, head)
	if !found {
		before = "\n" + strings.ToUpper(r.Title[:1]) + r.Title[1:] + ".\n\n"
	}
	for strings.HasPrefix(rest, "|") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	var b strings.Builder
	b.WriteString(before + head)
	for _, k := range r.Keys {
		keys := "`" + strings.ReplaceAll(k.Columns, ", ", "`, `") + "`"
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Replace(keys, timeKeys, "[times](#times)", 1), k.Meaning)
	}
	return b.String() + rest
}
