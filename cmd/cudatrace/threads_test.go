package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/pythontest"
)

// owners records testdata/python/gaps.py and returns shares of the time in which the GPU was idle and the launching thread was in no
// CUDA call, by what it did, as the report of idle times has it.
func owners(t *testing.T, python, cause, rounds string, options ...string) map[string]float64 {
	t.Helper()
	shares, _ := ownersOf(t, filepath.Join(t.TempDir(), "run"), python, cause, rounds, options...)
	return shares
}

// ownersOf is owners for a file. It returns what the program printed, too.
func ownersOf(t *testing.T, base, python, cause, rounds string, options ...string) (shares map[string]float64, printed string) {
	t.Helper()
	args := append(append([]string{"record", "-q", "--no-convert", "-o", base}, options...), python, "testdata/python/gaps.py", cause, rounds)
	text, err := pythonCommand("cudatrace", args...).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	out := printedStats(t, base+".cudatrace", "--format", "json", "--report", "idle")
	var said struct {
		Idle []struct {
			Name, What string
			Total      float64 `json:"total_ns"`
		}
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
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

// share sums the shares of those whose text has a word.
func share(shares map[string]float64, word string) (sum float64) {
	for what, s := range shares {
		if strings.Contains(what, word) {
			sum += s
		}
	}
	return sum
}

const readyToRun = "(ready to run"

// TestOwners plants a cause between launches and looks for it among the owners of the GPU's idle time. The test's machine may be busy:
// the time in which the thread had no processor does not count, except where that is the cause; nor does the smaller part in which the
// recorder had none, and says that it does not know.
func TestOwners(t *testing.T) {
	all := pythontest.All(t)
	if len(all) == 0 {
		t.Skip("no Python here")
	}
	python := all[len(all)-1].Path
	for _, c := range []struct {
		cause, rounds, owner string
		least                float64
		more                 string // among the owners, too
		leastMore            float64
	}{
		{"sleep", "8", "gaps.py:27 sleep, sleeps in ", 0.95, "", 0},
		{"busy", "8", " busy", 0.95, "", 0},
		{"faults", "12", " fault", 0.95, " fault, in page faults", 0.4},
	} {
		t.Run(c.cause, func(t *testing.T) {
			shares := owners(t, python, c.cause, c.rounds)
			unknown := share(shares, "(blocked, reason unknown)") + share(shares, "(on CPU, code unknown)") +
				share(shares, "(on CPU, Python line unknown)")
			rest := 1 - share(shares, readyToRun) - unknown
			if unknown > rest {
				t.Errorf("more is unknown than known: %v", shares)
			}
			if got, more := share(shares, c.owner)/rest, share(shares, c.more)/rest; got < c.least || more < c.leastMore {
				t.Errorf("%.3f of the time, not %.3f, and %.3f, not %.3f: %v", got, c.least, more, c.leastMore, shares)
			}
		})
	}
	// Shares that the program measures, too.
	for _, c := range []struct {
		cause, rounds string
		told          int // which of the numbers that the program prints
		owner         string
	}{
		{"starved", "8", 0, readyToRun},
		{"calls", "24", 1, ", in system calls"},
	} {
		t.Run("share of "+c.cause, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "run")
			shares, said := ownersOf(t, base, python, c.cause, c.rounds, "--sample", "1000")
			var told [2]float64
			if _, err := fmt.Sscan(said, &told[0], &told[1]); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			if got := share(shares, c.owner); math.Abs(got-told[c.told]) > 0.05 {
				t.Errorf("%.3f of the time, the program says %.3f: %v", got, told[c.told], shares)
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		if shares := owners(t, python, "sleep", "8", "--sample", "off"); share(shares, "(outside of CUDA calls)") < 0.9 {
			t.Errorf("%v", shares)
		}
	})
}
