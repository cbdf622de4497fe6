package stats_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// A saving is a program that was recorded with a cause of lost time and without it.
type saving struct {
	log         string
	kind, title string // of the finding that names the cause, a part of its title; "" where the cause costs nothing, and no finding may say that it does
}

// The programs are testdata/sim/prog/savings.c and, on an H100, testdata/gpu/savings.py, which say what each one does.
var savings = []saving{
	{"sim/behind", "", "sleeps"},
	{"sim/pipeline", "", "Memcpy HtoD"},
	{"sim/beside", "", "sleeps"},
	{"sim/needless", "", "whole device"},
	{"sim/covered", "", "pageable"},
	{"sim/queue", "", "sleeps"},
	{"sim/fed", "", "sleeps"},
	{"sim/even", "", " late"},
	{"sim/partly", "critical_path", "sleeps in clock_nanosleep"},
	{"sim/partly", "gaps", " is idle "},
	{"sim/longer", "critical_path", "sleeps in clock_nanosleep"},
	{"sim/mid", "critical_path", "sleeps in clock_nanosleep"},
	{"sim/mid", "gaps", " is idle "},
	{"sim/sleep", "critical_path", "sleeps in clock_nanosleep"},
	{"sim/sleep", "gaps", " is idle "},
	{"sim/compute", "gaps", " is idle "},
	{"sim/copy", "critical_path", "Memcpy HtoD"},
	{"sim/sync", "device_waits", "waits for the whole device"},
	{"sim/pageable", "pageable_copies", "of pageable memory"},
	{"sim/small", "small_copies", "small copies"},
	{"sim/pipe", "critical_path", "blocked in read on a pipe"},
	{"sim/lock", "critical_path", "waits for a lock"},
	{"sim/straggler", "straggling_rank", "rank 1 is "},
	{"sim/straggler", "critical_path", "sleeps in clock_nanosleep"},
	{"gpu/behind", "", "sleeps"},
	{"gpu/copy", "", "Memcpy HtoD"},
	{"gpu/loader", "critical_path", "load, sleeps in"},
	{"gpu/loader", "gaps", " is idle "},
	{"gpu/item", "gaps", " is idle "},
	{"gpu/sync", "device_waits", "waits for the whole device"},
	{"gpu/sync", "gaps", " is idle "},
	{"gpu/pageable", "pageable_copies", "of pageable memory"},
	{"gpu/alloc", "allocation_in_loop", "between launches"},
}

// What a finding says its cause costs is what the program without the cause saves: within a fifth, or 2 % of a step. Of a cause that costs nothing it says nothing.
func TestSavings(t *testing.T) {
	t.Parallel()
	for _, c := range savings {
		t.Run(c.log+" "+c.kind, func(t *testing.T) {
			t.Parallel()
			with, step, n := recorded(t, c.log+"-with")
			_, without, _ := recorded(t, c.log+"-without")
			saved, claimed, found := step-without, 0.0, false
			for _, row := range with.Rows {
				title := cell(with, row, "title").(string)
				of := append(cell(with, row, "also").([]string), fmt.Sprintf("%s (%s)", title, row.Cells[0]))
				cost, known := cell(with, row, "cost_ns").(uint64)
				said := slices.ContainsFunc(of, func(text string) bool { return strings.HasSuffix(text, c.kind+")") })
				if !strings.Contains(strings.Join(of, "; "), c.title) || c.kind != "" && !said || !known {
					continue
				}
				found, claimed = true, max(claimed, float64(cost)/n)
			}
			t.Logf("a step of %.3f ms; %.3f ms are saved, %.3f claimed", step/1e6, saved/1e6, claimed/1e6)
			if !found && c.kind != "" {
				t.Errorf("no %s with %q among %v", c.kind, c.title, with.Rows)
			}
			if c.kind == "" {
				saved = 0 // but for chance
			}
			if wrong := max(claimed, saved) - min(claimed, saved); wrong > max(0.2*saved, 0.02*step) {
				t.Errorf("%.3f ms of a step of %.3f ms are claimed, %.3f are saved", claimed/1e6, step/1e6, saved/1e6)
			}
		})
	}
}

// recorded returns the findings of the steps of a log from the sixth one on, how long such a step takes, and how many there are.
func recorded(t *testing.T, name string) (f *table.Table, step, steps float64) {
	t.Helper()
	path := filepath.Join("../../testdata/savings", name+".cudatrace")
	at := func(tables map[string]*table.Table) (list []uint64, first int64) {
		r := tables["steps"]
		first = 1 << 62
		for _, row := range r.Rows {
			if strings.HasPrefix(cell(r, row, "name").(string), "step") {
				list = append(list, cell(r, row, "at_ns").(uint64))
				first = min(first, int64(cell(r, row, "number").(uint64)))
			}
		}
		slices.Sort(list)
		return list, first
	}
	all, first := at(tablesOf(t, path))
	s := sinkOf(t, convert.Options{Collectives: true, Filter: convert.Filter{Steps: convert.Steps{Ranges: pattern.Ranges{Name: "step *", Domain: "*"}, Chosen: true, First: first + 5, Last: first + int64(len(all)) - 1}}}, path)
	for _, r := range s.Tables(stats.Facts{}) {
		if r.Name == "findings" {
			f = r
		}
	}
	all = all[5:]
	return f, float64(all[len(all)-1]-all[0]) / float64(len(all)-1), float64(len(all))
}
