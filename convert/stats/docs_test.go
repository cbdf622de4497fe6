package stats_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// docs/stats.md has a section of each report, with the list of its keys, and the list of the details. -update writes them: what else a
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

// keyList is the list of keys in a section: what is written by hand has no list that begins so.
var keyList = regexp.MustCompile("(?m)(^- [`\\[].*\n)+")

// withKeys returns a section of a report with the list of its keys. Keys that are explained elsewhere stand last, in a line for each place.
func withKeys(section string, r *stats.Report) string {
	before, rest := "\n"+strings.ToUpper(r.Title[:1])+r.Title[1:]+".\n\n", "\n"
	if at := keyList.FindStringIndex(section); at != nil {
		before, rest = section[:at[0]], section[at[1]:]
	}
	var list strings.Builder
	var places []string
	elsewhere := make(map[string][]string)
	for _, k := range r.Keys {
		if k == (stats.Key{Columns: "name"}) {
			continue // every row has it
		}
		keys := "`" + strings.ReplaceAll(k.Columns, ", ", "`, `") + "`"
		keys = strings.Replace(keys, timeKeys, "[times](#times)", 1)
		switch place := k.Meaning; {
		case place != "" && !strings.HasPrefix(place, "as in "):
			fmt.Fprintf(&list, "- %s: %s\n", keys, place)
		case elsewhere[place] == nil:
			places = append(places, place)
			fallthrough
		default:
			elsewhere[place] = append(elsewhere[place], keys)
		}
	}
	for _, place := range places {
		fmt.Fprintf(&list, "- %s: %s\n", strings.Join(elsewhere[place], ", "), cmp.Or(place, "[common](#common-keys)"))
	}
	return before + list.String() + rest
}
