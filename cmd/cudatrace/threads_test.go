package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/pythontest"
)

// owners records testdata/python/gaps.py and returns shares of the time in which the GPU was idle and the launching thread was in no
// CUDA call, by what it did, as the report of idle times has it.
func owners(t *testing.T, python, cause string, options ...string) map[string]float64 {
	t.Helper()
	shares, _ := ownersOf(t, filepath.Join(t.TempDir(), "run"), python, cause, "20", options...)
	return shares
}

// ownersOf is owners for a number of rounds. It returns what the program printed, too.
func ownersOf(t *testing.T, base, python, cause, rounds string, options ...string) (shares map[string]float64, printed string) {
	t.Helper()
	args := append(append([]string{"record", "-q", "--no-convert", "-o", base}, options...), python, "testdata/python/gaps.py", cause, rounds)
	text, err := pythonCommand("cudatrace", args...).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
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
	shares = map[string]float64{}
	all := 0.0
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
	return shares, string(text)
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

// TestOwners plants a cause between launches and looks for it among the owners of the GPU's idle time. It runs beside no other test of the
// package: on a busy machine the cause is another.
func TestOwners(t *testing.T) {
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
		{"sleep", []string{"gaps.py:26 sleep, sleeps in "}, 0.95},
		{"lock", []string{" wait_for_lock, waits for a lock"}, 0.95},
		{"pipe", []string{"gaps.py:51 read_pipe, blocked in read on a pipe"}, 0.95},
		{"busy", []string{" busy"}, 0.95},
		{"faults", []string{" fault"}, 0.95},
	} {
		t.Run(c.cause, func(t *testing.T) {
			shares := owners(t, python, c.cause)
			if got := share(shares, c.owner...); got < c.least {
				t.Errorf("%.3f of the time, not %.3f: %v", got, c.least, shares)
			}
		})
	}
	// Shares that the kernel tells the program, too.
	for _, c := range []struct {
		cause string
		told  int // which of the numbers that the program prints
		owner []string
	}{
		{"starved", 0, []string{"(ready to run"}},
		{"faults", 1, []string{", in page faults", ", in system calls"}},
	} {
		t.Run("share of "+c.cause, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "run")
			shares, said := ownersOf(t, base, python, c.cause, "60", "--sample", "1000")
			var told [2]float64
			if _, err := fmt.Sscan(said, &told[0], &told[1]); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			got := 0.0
			for what, s := range shares {
				if slices.ContainsFunc(c.owner, func(word string) bool { return strings.Contains(what, word) }) {
					got += s
				}
			}
			if off := got - told[c.told]; off > 0.05 || off < -0.05 {
				t.Errorf("%.3f of the time, the kernel says %.3f: %v", got, told[c.told], shares)
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		if shares := owners(t, python, "sleep", "--sample", "off"); share(shares, "(outside of CUDA calls)") < 0.9 {
			t.Errorf("%v", shares)
		}
	})
}
