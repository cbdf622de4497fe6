package parquetsink_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/parquet/sqltest"
	"github.com/cudatrace/cudatrace/record/must"
)

// TestBudgetDuckDB writes many row groups, as where rows would take more memory than there is for them: no row is lost, and each
// row group is sorted.
func TestBudgetDuckDB(t *testing.T) {
	t.Parallel()
	const launches = 10_000
	e := sqltest.Open(t, sqltest.DuckDB)
	var data bytes.Buffer
	logtest.WriteLaunches(t, &data, launches)
	var files []*os.File
	folder := t.TempDir()
	sink := tables(64<<10, func(path string) (io.Writer, error) {
		path = filepath.Join(folder, path)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		f, err := os.Create(path)
		files = append(files, f)
		return f, err
	})
	all, err := convert.Timeline([]convert.Log{{Name: "log", Open: logtest.InMemory(data.Bytes())}}, convert.Options{}, sink)
	must.Do(t, err)
	for _, f := range files {
		must.Do(t, f.Close())
	}
	for table, want := range map[string]uint64{"work": all[0].Kernels, "calls": all[0].Pairs + all[0].APIRecords, "arrows": all[0].Matched + all[0].Waits} {
		file := fmt.Sprintf("'%s/%s/run=r/*/*/*.parquet'", folder, table)
		if table != "calls" { // some pairs and API records are one call
			if n := e.Int("select count(*) from " + file); uint64(n) != want {
				t.Errorf("%s: %d rows, not %d", table, n, want)
			}
		}
		if n := e.Int("select max(row_group_id) from parquet_metadata(" + file + ")"); n < 2 {
			t.Errorf("%s: %d row groups", table, n+1)
		}
	}
	// The rows of a row group come in the order of the file, so the row groups are where the time goes back.
	groups := e.Int(fmt.Sprintf("select count(distinct row_group_id) from parquet_metadata('%s/work/run=r/*/*/*.parquet')", folder))
	back := e.Int(fmt.Sprintf("select count(*) from (select start_unix_ns < lag(start_unix_ns) over (order by file_row_number) as back from read_parquet('%s/work/run=r/*/*/*.parquet', file_row_number = true)) where back", folder))
	if back >= groups {
		t.Errorf("time goes back %d times in %d row groups", back, groups)
	}
}

// TestSameFiles converts a log several times, in many row groups: how fast these are encoded changes no byte.
func TestSameFiles(t *testing.T) {
	t.Parallel()
	var data bytes.Buffer
	logtest.WriteLaunches(t, &data, 3000)
	convertTo := func(workers int) map[string]string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
		buffers := make(map[string]*bytes.Buffer)
		sink := tables(128<<10, func(path string) (io.Writer, error) {
			buffers[path] = new(bytes.Buffer)
			return buffers[path], nil
		})
		_, err := convert.Timeline([]convert.Log{{Name: "log", Open: logtest.InMemory(data.Bytes())}}, convert.Options{}, sink)
		must.Do(t, err)
		files := make(map[string]string)
		for path, b := range buffers {
			files[path] = b.String()
		}
		return files
	}
	first := convertTo(1)
	for _, workers := range []int{2, 4, 8} {
		if again := convertTo(workers); !maps.Equal(first, again) {
			t.Errorf("other files with %d processors", workers)
		}
	}
}
