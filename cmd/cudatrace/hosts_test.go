package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// succeed runs a command, which must succeed, and returns what it writes.
func succeed(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(append([]string{"cudatrace"}, args...), &out, &errs); code != 0 {
		t.Fatalf("%v: exit code %d\n%s", args, code, &errs)
	}
	return out.String(), errs.String()
}

type rankReports struct {
	Ranks, Collectives []map[string]any
}

// reportsOfRanks returns the reports on the ranks of logs.
func reportsOfRanks(t *testing.T, logs []string) (r rankReports) {
	t.Helper()
	out, _ := succeed(t, append([]string{"stats", "--format", "json", "--report", "ranks,collectives"}, logs...)...)
	must.Do(t, json.Unmarshal([]byte(out), &r))
	return r
}

// Four armed ranks on GPUs, recorded twice: both logs are complete, and all ranks are of one communicator, although the recordings begin in its middle.
func TestArmedTwice(t *testing.T) {
	t.Parallel()
	for i, kernels := range []float64{6828, 9347} {
		log := filepath.Join(root, fmt.Sprintf("testdata/gpu/logs/ranks/armed-%d.cudatrace", i+1))
		out, _ := succeed(t, "info", "--format", "json", log)
		var info map[string]any
		must.Do(t, json.Unmarshal([]byte(out), &info))
		for key, want := range map[string]any{"complete": true, "processes": 4., "unmatched": 0., "kernels": kernels} {
			if info[key] != want {
				t.Errorf("%s: %s is %v, want %v", log, key, info[key], want)
			}
		}
		got := reportsOfRanks(t, []string{log})
		if len(got.Ranks) != 4 || len(got.Collectives) != 1 || got.Collectives[0]["ranks"] != "0-3" || got.Collectives[0]["uncertain"] != 0. {
			t.Errorf("%s: %d ranks, collectives %v", log, len(got.Ranks), got.Collectives)
		}
	}
}
