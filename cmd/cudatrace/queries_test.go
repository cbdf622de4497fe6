package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A page of queries has blocks of SQL, each with the names of logs and the results.
var (
	aQuery  = regexp.MustCompile("(?s)```sql\n(.*?)```\n\n`")
	aResult = regexp.MustCompile("(?s)`([^`\n]+)`:\n\n```\n(.*?)```")
)

// TestQueries runs the queries of docs/queries.md and compares their results with those on the page.
func TestQueries(t *testing.T) {
	t.Parallel()
	const page = "docs/queries.md"
	text := readRepository(t, page)
	queries := aQuery.FindAllStringSubmatchIndex(text, -1)
	if n := strings.Count(text, "```sql\n"); n == 0 || n != len(queries) {
		t.Fatalf("%d of %d queries have a result", len(queries), n)
	}
	traces := make(map[string]*tptest.Trace)
	var rewritten strings.Builder
	last, sql := 0, ""
	for _, at := range aResult.FindAllStringSubmatchIndex(text, -1) {
		for len(queries) > 0 && queries[0][0] < at[0] {
			sql, queries = text[queries[0][2]:queries[0][3]], queries[1:]
		}
		name, want := text[at[2]:at[3]], text[at[4]:at[5]]
		if traces[name] == nil {
			traces[name] = queriedTrace(t, name)
		}
		got := resultText(traces[name].Table(sql))
		if got != want && !*goldentest.Update {
			t.Errorf("of %s\n%s\ngives\n%s\nand not\n%s", name, sql, got, want)
		}
		if strings.Count(got, "\n") < 2 {
			t.Errorf("of %s\n%s\ngives nothing", name, sql)
		}
		rewritten.WriteString(text[last:at[4]] + got)
		last = at[5]
	}
	if rewritten.WriteString(text[last:]); *goldentest.Update {
		must.Do(t, os.WriteFile(filepath.Join(root, page), []byte(rewritten.String()), 0o644))
	}
}

// TestBatchQuery runs the query of docs/fleet.md over several traces: together they have the kernels of all logs.
func TestBatchQuery(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(readRepository(t, "docs/fleet.md"), "<!-- batch -->\n```sql\n")
	sql, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no query for many traces")
	}
	got, want := 0, 0
	names := map[any]bool{}
	for _, name := range []string{"streams.cudatrace", "nvtx.cudatrace"} {
		tr := queriedTrace(t, name)
		columns, rows := tr.Table(sql)
		launches := slices.Index(columns, "launches")
		for _, row := range rows {
			n := must.Get(strconv.Atoi(fmt.Sprint(row[launches])))(t)
			got, names[row[0]] = got+n, true
		}
		all, err := convert.Timeline([]convert.Log{convert.Path(filepath.Join(filepath.Dir(gpuLog), name))}, convert.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want += int(all[0].Kernels)
	}
	if got != want || len(names) < 2 {
		t.Errorf("%d kernels with %d names, not %d", got, len(names), want)
	}
}

// queriedTrace is the trace of a log that the page names, or of several: nccl-rank*.cudatrace.
func queriedTrace(t *testing.T, name string) *tptest.Trace {
	t.Helper()
	logs := []string{filepath.Join(filepath.Dir(gpuLog), name)}
	if strings.HasSuffix(name, ".txt") {
		logs[0] = logOfText(t, readRepository(t, "convert/testdata/"+name))
	}
	if strings.Contains(name, "*") {
		logs, _ = filepath.Glob(logs[0])
	}
	trace := filepath.Join(t.TempDir(), "logs.pftrace")
	succeed(t, append([]string{"convert", "-o", trace}, logs...)...)
	tr := tptest.Open(t, trace)
	tptest.NoErrors(t, tr)
	return tr
}

// resultText is a result as a table.
func resultText(columns []string, rows [][]any) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return b.String()
}
