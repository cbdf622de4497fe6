package stats_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// docs/stats.md has a section of each report, with the list of its keys, and the list of the details. -update writes them: what else a
// section says is written by hand.
func TestDocs(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "stats.md")
	data := must.Get(os.ReadFile(path))(t)
	parts := strings.Split(string(data), "\n### `")
	sections := make(map[string]string)
	for _, s := range parts[1:] {
		name, body, _ := strings.Cut(s, "`\n")
		sections[name] = body
	}
	var got strings.Builder
	got.WriteString(withDetails(parts[0]))
	for _, r := range stats.New().Tables(stats.Facts{}) {
		fmt.Fprintf(&got, "\n### `%s`\n%s", r.Name, withKeys(sections[r.Name], r))
	}
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
func withKeys(section string, t *table.Table) string {
	before, rest := "\n"+strings.ToUpper(t.Title[:1])+t.Title[1:]+".\n\n", "\n"
	if at := keyList.FindStringIndex(section); at != nil {
		before, rest = section[:at[0]], section[at[1]:]
	}
	var list strings.Builder
	var places []string
	elsewhere := make(map[string][]string)
	for _, k := range keysOf(t) {
		if k.names[0] == "name" && k.meaning == "" {
			k.names = k.names[1:] // every row has it
		}
		if len(k.names) == 0 {
			continue
		}
		keys := "`" + strings.Join(k.names, "`, `") + "`"
		keys = strings.Replace(keys, timeKeys, "[times](#times)", 1)
		switch place := k.meaning; {
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

// A key is columns of one meaning, "" for what the page explains for all reports.
type key struct {
	names   []string
	meaning string
}

// sameAs is a comment that refers to another column of the report: "as `count`".
var sameAs = regexp.MustCompile("^as `(\\w+)`$")

// keysOf returns the columns of a report with what the comments of their fields say. The comment of an embedded struct holds
// for all of its columns.
func keysOf(t *table.Table) (keys []*key) {
	meanings, byName := make(map[string]*key), make(map[string]*key)
	for _, f := range table.Fields(t.Type) {
		name := f.Tag.Get("key")
		meaning := commentOf(t.Type, f.Index)
		if other := sameAs.FindStringSubmatch(meaning); other != nil {
			meaning = byName[other[1]].meaning
		}
		k := meanings[meaning]
		if k == nil {
			k = &key{meaning: meaning}
			meanings[meaning], keys = k, append(keys, k)
		}
		k.names, byName[name] = append(k.names, name), k
	}
	return keys
}

// comments are those of the packages that have the structs of rows.
var comments = map[string]map[string]string{
	"github.com/cudatrace/cudatrace/convert/stats":                goldentest.Comments("."),
	"github.com/cudatrace/cudatrace/convert/stats/internal/ranks": goldentest.Comments(filepath.Join("internal", "ranks")),
}

// commentOf is the comment of a field: of the outermost embedded struct that has one, else its own.
func commentOf(of reflect.Type, index []int) string {
	for _, i := range index {
		f := of.Field(i)
		if text := comments[of.PkgPath()][of.Name()+"."+f.Name]; text != "" {
			return text
		}
		of = f.Type
	}
	return ""
}
