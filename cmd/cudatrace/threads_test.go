package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/pythontest"
)

// owners records testdata/python/gaps.py and returns shares of the time in which the GPU was idle and the launching thread was in no
// CUDA call, by what it did, as the report of idle times has it.
func owners(t *testing.T, python, cause string, options ...string) map[string]float64 {
	t.Helper()
	base := filepath.Join(t.TempDir(), "run")
	args := append(append([]string{"record", "-q", "--no-convert", "-o", base}, options...), python, "testdata/python/gaps.py", cause, "20")
	if said, err := pythonCommand("cudatrace", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	out, err := exec.Command("cudatrace", "stats", "--format", "json", "--report", "idle", base+".cudatrace").Output()
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Idle []struct {
			Name, What string
			Total      float64 `json:"total_ns"`
		}
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shares, all := map[string]float64{}, 0.0
	for _, row := range said.Idle {
		if strings.HasPrefix(row.What, "cuda") { // a call of a busy machine's takes its time
			continue
		}
		all += row.Total
		shares[row.What] += row.Total
	}
	for what := range shares {
		shares[what] /= all
	}
	return shares
}

// share sums the shares of those whose text has a word, without the time in which the thread had no processor: the test's machine
// may be busy.
func share(shares map[string]float64, words ...string) (sum float64) {
	rest := 1.0
	for what, s := range shares {
		if strings.HasPrefix(what, "(ready to run") && words[0] != "(ready to run" {
			rest -= s
			continue
		}
		for _, word := range words {
			if strings.Contains(what, word) {
				sum += s
				break
			}
		}
	}
	return sum / rest
}

// TestOwners plants a cause between launches and looks for it among the owners of the GPU's idle time.
func TestOwners(t *testing.T) {
	t.Parallel()
	all := pythontest.All(t)
	if len(all) == 0 {
		t.Skip("no Python here")
	}
	python := all[len(all)-1].Path
	for _, c := range []struct {
		cause string
		owner []string
		least float64
	}{
		{"sleep", []string{"gaps.py:25 sleep, sleeps in "}, 0.95},
		{"lock", []string{" wait_for_lock, waits for a lock"}, 0.95},
		{"pipe", []string{"gaps.py:50 read_pipe, blocked in read on a pipe"}, 0.95},
		{"busy", []string{" busy"}, 0.95},
		{"starved", []string{"(ready to run"}, 0.4},
		{"faults", []string{" fault"}, 0.95},
	} {
		t.Run(c.cause, func(t *testing.T) {
			shares := owners(t, python, c.cause)
			if got := share(shares, c.owner...); got < c.least {
				t.Errorf("%.3f of the time, not %.3f: %v", got, c.least, shares)
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		if shares := owners(t, python, "sleep", "--sample", "off"); share(shares, "(outside of CUDA calls)") < 0.9 {
			t.Errorf("%v", shares)
		}
	})
}
