package stats_test

import (
	"math"
	"path/filepath"
	"strings"
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

// However narrow a terminal is, the rows with most time have what tells them apart: the place, and of several ranks the rank.
func TestPathsInNarrowTerminal(t *testing.T) {
	t.Parallel()
	const ranks = "../../testdata/gpu/logs/nccl-rank"
	r := pathsOf(t, []convert.Log{convert.Path(ranks + "0.cudatrace"), convert.Path(ranks + "1.cudatrace")})
	r.Rows, r.Notes = r.Rows[:6], nil
	for _, width := range []int{80, 66} {
		var b strings.Builder
		if err := table.WriteText(&b, []*table.Table{r}, width); err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for _, line := range strings.Split(b.String(), "\n")[1 : 2+len(r.Rows)] {
			words := strings.Fields(line)
			end := max(len(words)-2, 0) // the time
			if text := strings.Join(words[:end], " "); seen[text] {
				t.Errorf("in %d characters two rows read alike but for their times:\n%s", width, &b)
			} else {
				seen[text] = true
			}
		}
	}
}
