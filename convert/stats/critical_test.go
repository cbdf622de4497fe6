package stats_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// pathsOf returns the report of critical paths of logs.
func pathsOf(t *testing.T, logs []convert.Log) *table.Table {
	t.Helper()
	s := stats.New()
	if _, err := convert.Timeline(logs, convert.Options{Collectives: true}, s); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Tables(stats.Facts{}) {
		if r.Name == "critical_path" {
			return r
		}
	}
	return nil
}

// The parts of the paths of each kind of step add up to its steps.
func TestPathsAddUp(t *testing.T) {
	t.Parallel()
	all := logs(t)
	more, err := filepath.Glob("../../testdata/gpu/logs/*/*.cudatrace")
	if err != nil || len(more) == 0 {
		t.Fatalf("%d logs, %v", len(more), err)
	}
	for _, path := range more {
		all[path] = path
	}
	for name, path := range all {
		r := pathsOf(t, []convert.Log{convert.Path(path)})
		shares, kinds := 0.0, make(map[any]bool)
		for _, row := range r.Rows {
			shares += cell(r, row, "share").(float64)
			kinds[cell(r, row, "step")] = true
		}
		if n := len(tablesOf(t, path)["processes"].Rows); len(r.Rows) > 0 && len(kinds) == 1 && n == 1 && math.Abs(shares-1) > 1e-9 {
			t.Errorf("%s: the parts are %g of the paths", name, shares)
		}
	}
}
