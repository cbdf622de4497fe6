package main

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// A path goes from a kernel to the one before the record of the event that its stream waited for, however long ago that was. Without the calls
// that record events that is not known.
func TestPathByEvents(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{nil, {"--no-probe", "*EventRecord*"}} {
		r := recordProgram(t, append(options, sim("events"), "-n", "20")...)
		stdout, _ := succeed(t, "stats", "--report", "critical_path", "--format", "json", r.base+".cudatrace")
		var all struct {
			Rows []struct {
				Name, Kind string
				Count      uint64
			} `json:"critical_path"`
		}
		must.Do(t, json.Unmarshal([]byte(stdout), &all))
		kernels := make(map[string]uint64)
		for _, r := range all.Rows {
			if r.Kind == "kernel" {
				kernels[r.Name] += r.Count
			}
		}
		want := uint64(0)
		if options == nil {
			want = kernels["consume"] // a thread that was late for a round did not wait for it
		}
		if kernels["consume"] == 0 || kernels["produce"] != want || kernels["other"] != 0 {
			t.Errorf("%q: on the path are %v, want %d × produce", options, kernels, want)
		}
	}
}

// A finding about paths is the same whether the report of paths is shown beside it or not: the paths go through other ranks.
func TestPathFindingAlone(t *testing.T) {
	t.Parallel()
	logs := gpuLogs([]string{"ranks/starved-rank0", "ranks/starved-rank3"})
	title := regexp.MustCompile(`"title":\s*"(ready to run, no CPU free, on rank 3: on the critical path of step)"`)
	var titles []string
	for _, reports := range []string{"findings", "findings,critical_path"} {
		stdout, _ := succeed(t, append([]string{"stats", "--report", reports, "--format", "json"}, logs...)...)
		found := title.FindStringSubmatch(stdout)
		if found == nil {
			t.Fatalf("--report %s: no such finding: %s", reports, stdout)
		}
		titles = append(titles, found[1])
	}
	if titles[0] != titles[1] {
		t.Errorf("alone: %q, beside the report: %q", titles[0], titles[1])
	}
}
