package parquetsink_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/parquetsink"
	"github.com/cudatrace/cudatrace/parquet"
	"github.com/cudatrace/cudatrace/parquet/sqltest"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/parquet.md")

// sqlTypes are the types as people see them; a column without a type on the page is an integer.
var sqlTypes = map[parquet.Type]string{parquet.Float: "float", parquet.Text: "text", parquet.Bool: "boolean", parquet.Time: "timestamp"}

// TestSchemaDocument compares the schema with docs/parquet.md, where people read it.
func TestSchemaDocument(t *testing.T) {
	t.Parallel()
	in := make(map[parquetsink.Column]int) // how many tables have the column
	for _, table := range parquetsink.Tables {
		for _, c := range table.Columns {
			in[c]++
		}
	}
	var common []parquetsink.Column
	var b strings.Builder
	for _, table := range parquetsink.Tables {
		var own []parquetsink.Column
		var others []string
		for _, c := range table.Columns {
			if in[c] < 3 {
				own = append(own, c)
				continue
			}
			others = append(others, "`"+c.Name+"`")
			if !slices.Contains(common, c) {
				common = append(common, c)
			}
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n%s\n\n%s\n[Common](#common-columns): %s\n", table.Name, table.Meaning, columns(own), strings.Join(others, " "))
	}
	want := "\n### Common columns\n\n" + columns(common) + b.String()
	const path, begin, end = "../../docs/parquet.md", "<!-- schema: go test ./convert/parquetsink -update -->\n", "\n<!-- end of schema -->"
	text, err := os.ReadFile(path)
	must(t, err)
	head, rest, ok := bytes.Cut(text, []byte(begin))
	old, tail, ok2 := bytes.Cut(rest, []byte(end[1:]))
	switch {
	case !ok || !ok2:
		t.Fatalf("%s: the marks are missing", path)
	case string(old) == want+"\n":
	case !*update:
		t.Errorf("%s differs from the schema; go test -update rewrites it", path)
	default:
		must(t, os.WriteFile(path, []byte(string(head)+begin+want+end+string(tail)), 0o644))
	}
}

// columns lists columns; those with one meaning are one line.
func columns(list []parquetsink.Column) string {
	var b strings.Builder
	names := ""
	for i, c := range list {
		names += ", `" + c.Name + "`"
		if next := i + 1; next < len(list) && list[next].Meaning == c.Meaning {
			continue
		}
		kind, null := "", ""
		if c.Type != parquet.Int {
			kind = " *" + sqlTypes[c.Type] + "*"
		}
		if c.Null != "" {
			null = " (NULL: " + c.Null + ")"
		}
		fmt.Fprintf(&b, "- %s%s: %s%s\n", names[2:], kind, c.Meaning, null)
		names = ""
	}
	return b.String()
}

// A file has the columns of the schema, their types, the schema's version, and sorted row groups.
func TestSchemaDuckDB(t *testing.T) {
	t.Parallel()
	e := sqltest.Open(t, sqltest.DuckDB)
	folder := t.TempDir()
	for _, r := range runs(t) {
		write(t, filepath.Join(folder, r.name), r.name, r.log)
	}
	types := map[parquet.Type]string{parquet.Int: "BIGINT", parquet.Float: "DOUBLE", parquet.Text: "VARCHAR", parquet.Bool: "BOOLEAN", parquet.Time: "TIMESTAMP WITH TIME ZONE"}
	for _, table := range parquetsink.Tables {
		files := fmt.Sprintf("'%s/*/%s/*/*/*/*.parquet'", folder, table.Name)
		var want []string
		for _, c := range table.Columns {
			want = append(want, c.Name+" "+types[c.Type])
		}
		want = append(want, "host VARCHAR", "rank BIGINT", "run VARCHAR")
		if got := e.Text("select column_name, column_type from (describe from " + files + ")"); got != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s", table.Name, got)
		}
		if got := e.Text("select distinct decode(value) from parquet_kv_metadata(" + files + ") where decode(key) = 'cudatrace.schema_version'"); got != fmt.Sprint(parquetsink.Version) {
			t.Errorf("%s: version %q", table.Name, got)
		}
		if got := e.Text("select distinct compression from parquet_metadata(" + files + ")"); got != "ZSTD" {
			t.Errorf("%s: compression %q", table.Name, got)
		}
	}
}
