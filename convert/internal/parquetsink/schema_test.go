package parquetsink_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/convert/internal/parquetsink"
	"github.com/cudatrace/cudatrace/parquet"
	"github.com/cudatrace/cudatrace/parquet/sqltest"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// sqlTypes are the types as people see them; a column without a type on the page is an integer.
var sqlTypes = map[parquet.Type]string{parquet.Float: "float", parquet.Text: "text", parquet.Bool: "boolean", parquet.Time: "timestamp"}

// A described column has what the page says of it.
type described struct {
	name, null, meaning string
	of                  parquet.Type
}

// describe returns the columns of a table with what the comments of package joined say.
func describe(number int, comments map[string]string) (list []described) {
	row, columns := joined.Tables[number].Row, parquetsink.Tables[number].Columns
	for i := range row.NumField() {
		f := row.Field(i)
		list = append(list, described{columns[i].Name, f.Tag.Get("null"), comments[row.Name()+"."+f.Name], columns[i].Type})
	}
	return append(list, described{name: columns[len(columns)-1].Name, meaning: "log", of: parquet.Text})
}

// TestSchemaDocument compares the schema with docs/parquet.md, where people read it.
func TestSchemaDocument(t *testing.T) {
	t.Parallel()
	comments := goldentest.Comments(filepath.Join("..", "joined"))
	in := make(map[described]int) // how many tables have the column
	for i := range joined.Tables {
		for _, c := range describe(i, comments) {
			in[c]++
		}
	}
	var common []described
	var b strings.Builder
	for i, table := range joined.Tables {
		var own []described
		var others []string
		for _, c := range describe(i, comments) {
			if in[c] < 3 {
				own = append(own, c)
				continue
			}
			others = append(others, "`"+c.name+"`")
			if !slices.Contains(common, c) {
				common = append(common, c)
			}
		}
		_, meaning, _ := strings.Cut(comments[table.Row.Name()], ": ")
		fmt.Fprintf(&b, "\n### `%s`\n\n%s\n\n%s\n[Common](#common-columns): %s\n", table.Name, strings.ToUpper(meaning[:1])+meaning[1:], columns(own), strings.Join(others, " "))
	}
	want := "\n### Common columns\n\n" + columns(common) + b.String()
	const begin, end = "<!-- schema: go test ./convert/internal/parquetsink -update -->\n", "\n<!-- end of schema -->"
	goldentest.Section(t, "../../../docs/parquet.md", begin, end, want)
}

// columns lists columns; those with one meaning are one line.
func columns(list []described) string {
	var b strings.Builder
	names := ""
	for i, c := range list {
		names += ", `" + c.name + "`"
		if next := i + 1; next < len(list) && list[next].meaning == c.meaning {
			continue
		}
		kind, null := "", ""
		if c.of != parquet.Int {
			kind = " *" + sqlTypes[c.of] + "*"
		}
		if c.null != "" {
			null = " (NULL: " + c.null + ")"
		}
		fmt.Fprintf(&b, "- %s%s: %s%s\n", names[2:], kind, c.meaning, null)
		names = ""
	}
	return b.String()
}

// checkSchema checks that files have the columns of the schema, their types, and the schema's version.
func checkSchema(t *testing.T, e *sqltest.Engine, folder string) {
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
		if got := e.Text("select distinct decode(value) from parquet_kv_metadata(" + files + ") where decode(key) = 'cudatrace.schema_version'"); got != fmt.Sprint(joined.Version) {
			t.Errorf("%s: version %q", table.Name, got)
		}
		if got := e.Text("select distinct compression from parquet_metadata(" + files + ")"); got != "ZSTD" {
			t.Errorf("%s: compression %q", table.Name, got)
		}
	}
}
