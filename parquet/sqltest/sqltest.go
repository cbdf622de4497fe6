// Package sqltest runs SQL over Parquet files in real engines: DuckDB, and ClickHouse's. Queries go in, rows come out.
//
// The engines run under Node.js, by testdata/sqlengines/query.mjs.
package sqltest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// The engines.
const (
	DuckDB     = "duckdb"
	ClickHouse = "clickhouse"
)

// packages say whether an engine is installed.
var packages = map[string]string{DuckDB: "@duckdb/node-bindings-linux-x64", ClickHouse: "@chdb/lib-linux-x64-gnu"}

// An Engine is an engine that runs until the end of the test. It serves one goroutine at a time.
type Engine struct {
	Name    string
	t       testing.TB
	queries io.Writer
	answers *bufio.Reader
	stderr  *bytes.Buffer
}

// Open starts an engine. Where it is not installed, a test of DuckDB fails, and one of ClickHouse is skipped: its
// archive is large. Both are skipped on machines for which no archive is pinned.
func Open(t testing.TB, name string) *Engine {
	t.Helper()
	script := find(t)
	if runtime.GOARCH != "amd64" {
		t.Skipf("no archive of %s is pinned for this processor", name)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(script), "node_modules", packages[name], ".integrity")); err != nil {
		say := t.Skipf
		if name == DuckDB {
			say = t.Fatalf
		}
		say("%s is not installed: run testdata/sqlengines/install.sh %s", name, name)
	}
	e := &Engine{Name: name, t: t, stderr: new(bytes.Buffer)}
	cmd := exec.Command("node", script, name)
	cmd.Stderr = e.stderr
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		in.Close() // ends the script
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v: %s", name, err, e.stderr)
		}
	})
	e.queries, e.answers = in, bufio.NewReaderSize(out, 1<<16)
	e.answer(&struct{ Ready bool }{})
	return e
}

// find finds the script from the working folder of the test upwards.
func find(t testing.TB) string {
	t.Helper()
	folder := must.Get(os.Getwd())(t)
	for ; folder != "/"; folder = filepath.Dir(folder) {
		script := filepath.Join(folder, "testdata", "sqlengines", "query.mjs")
		if _, err := os.Stat(script); err == nil {
			return script
		}
	}
	t.Fatal("testdata/sqlengines/query.mjs is in no folder above the test's")
	return ""
}

func (e *Engine) answer(v any) {
	e.t.Helper()
	line, err := e.answers.ReadBytes('\n')
	if err != nil {
		e.t.Fatalf("%s: %v: %s", e.Name, err, e.stderr)
	}
	if err := json.Unmarshal(line, v); err != nil {
		e.t.Fatalf("%s answers %s", e.Name, line)
	}
}

// Rows runs a query. NULL is "NULL".
func (e *Engine) Rows(sql string) [][]string {
	e.t.Helper()
	line := must.Get(json.Marshal(sql))(e.t)
	must.Get(e.queries.Write(append(line, '\n')))(e.t)
	var answer json.RawMessage
	e.answer(&answer)
	var cells [][]*string
	if json.Unmarshal(answer, &cells) != nil {
		e.t.Fatalf("%s: %s\nin %s", e.Name, answer, sql)
	}
	rows := make([][]string, len(cells))
	for i, row := range cells {
		for _, c := range row {
			text := "NULL"
			if c != nil {
				text = *c
			}
			rows[i] = append(rows[i], text)
		}
	}
	return rows
}

// Text runs a query and returns its cells, separated by blanks, a line a row.
func (e *Engine) Text(sql string) string {
	e.t.Helper()
	var lines []string
	for _, row := range e.Rows(sql) {
		lines = append(lines, strings.Join(row, " "))
	}
	return strings.Join(lines, "\n")
}

// Int runs a query with one number. NULL is 0.
func (e *Engine) Int(sql string) int64 {
	e.t.Helper()
	text := e.Text(sql)
	if text == "NULL" {
		return 0
	}
	n := must.Get(strconv.ParseInt(text, 10, 64))(e.t)
	return n
}
