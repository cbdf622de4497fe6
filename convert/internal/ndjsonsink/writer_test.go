package ndjsonsink_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/parquet/sqltest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// The lines of JSON say what the Parquet tables do: each row of each table, each value.
func TestRowsDuckDB(t *testing.T) {
	t.Parallel()
	e := sqltest.Open(t, sqltest.DuckDB)
	root := filepath.Join("..", "..", "..", "testdata")
	rows := int64(0)
	for _, name := range []string{"gpu/logs/ranks/straggler-rank0.cudatrace", "gpu/logs/graphs/python.cudatrace"} {
		path := filepath.Join(root, name)
		log := convert.Log{Name: path, Open: func() (*tracelog.Reader, error) { return tracelog.Open(path) }}
		out := t.TempDir()
		for _, format := range []string{"parquet", "ndjson"} {
			o := convert.TraceOptions{Format: convert.FormatNamed(format)}
			target, err := o.Target(filepath.Join(out, format), true)
			must.Do(t, err)
			defer target.Close()
			_, _, err = convert.FilesAt([]convert.Log{log}, target, o)
			must.Do(t, err)
		}
		apart(t, filepath.Join(out, "ndjson"))
		for _, table := range joined.Tables {
			rows += compare(t, e, out, table.Name)
		}
	}
	if rows < 10_000 {
		t.Errorf("only %d rows were compared", rows)
	}
}

// apart writes the lines of each table to a file of its own: columns of one name may have several types.
func apart(t *testing.T, path string) {
	data := must.Get(os.ReadFile(path))(t)
	lines := make(map[string][]byte)
	for line := range bytes.Lines(data) {
		var of struct{ Table string }
		must.Do(t, json.Unmarshal(line, &of))
		lines[of.Table] = append(lines[of.Table], line...)
	}
	for table, text := range lines {
		must.Do(t, os.WriteFile(path+"-"+table, text, 0o666))
	}
}

// compare compares a table and returns its rows.
func compare(t *testing.T, e *sqltest.Engine, out, table string) int64 {
	files, lines := filepath.Join(out, "parquet", table), filepath.Join(out, "ndjson-"+table)
	if _, err := os.Stat(files); errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(lines); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Parquet has no table %s", table)
		}
		return 0
	}
	var names, types []string
	read := fmt.Sprintf("read_parquet('%s/*/*/*/*.parquet', hive_partitioning = true)", files)
	for _, column := range e.Rows("select column_name, column_type from (describe select * from " + read + ")") {
		names = append(names, `"`+column[0]+`"`)
		types = append(types, fmt.Sprintf(`"%s": '%s'`, column[0], column[1]))
	}
	list := strings.Join(names, ", ")
	a := fmt.Sprintf("(select %s from read_json('%s', format = 'newline_delimited', columns = {%s}))", list, lines, strings.Join(types, ", "))
	b := fmt.Sprintf("(select %s from %s)", list, read)
	query := "select (select count(*) from (from %[1]s except all from %[2]s)) + (select count(*) from (from %[2]s except all from %[1]s))"
	if n := e.Int(fmt.Sprintf(query, a, b)); n > 0 {
		t.Errorf("%s: %d rows differ", table, n)
	}
	return e.Int("select count(*) from " + b)
}

// An error of writing ends the conversion.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	var data bytes.Buffer
	logtest.WriteLaunches(t, &data, 2000)
	log := convert.Log{Name: "log", Open: logtest.InMemory(data.Bytes())}
	o := convert.TraceOptions{Format: convert.FormatNamed("ndjson")}
	for _, room := range []int{0, 100_000} {
		full := errors.New("the disk is full")
		if _, err := convert.FilesTo([]convert.Log{log}, &disk{room, full}, o); err == nil || !strings.Contains(err.Error(), full.Error()) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
}

// A disk takes some bytes.
type disk struct {
	room int
	full error
}

func (d *disk) Write(b []byte) (int, error) {
	if d.room -= len(b); d.room < 0 {
		return 0, d.full
	}
	return len(b), nil
}
