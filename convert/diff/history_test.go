package diff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// history simulates runs of commits, with the times of each as factors.
func history(seed uint64, each int, factors ...float64) (runs []*Run) {
	r := rand.New(rand.NewPCG(seed, 2))
	for i, f := range factors {
		for k := range each {
			run := simulatedRun(each*i+k, func(int) float64 { return f * (1 + 0.01*r.NormFloat64()) })
			run.Logs[0].Revision = fmt.Sprint("commit", i)
			runs = append(runs, run)
		}
	}
	r.Shuffle(len(runs), func(a, b int) { runs[a], runs[b] = runs[b], runs[a] })
	return runs
}

// The first commit that is slower is found, wherever it is, and none where there are too few runs or nothing changed.
func TestByRevision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		each    int
		factors []float64
		want    string
	}{
		{"one run a commit", 1, []float64{1, 1, 1, 1, 1, 1, 1.15, 1.15, 1.15, 1.15, 1.15, 1.15}, "12 runs of 12 commits; the first that is beyond noise: commit6 (kernel_time "},
		{"two runs a commit", 2, []float64{1, 1, 1.1, 1.1, 1.1}, "10 runs of 5 commits; the first that is beyond noise: commit2 (kernel_time "},
		{"the first of two", 4, []float64{1, 1.1, 1.1, 1.5, 1.5}, "20 runs of 5 commits; the first that is beyond noise: commit1 (kernel_time "},
		{"too few runs before", 1, []float64{1, 1, 1, 1.3, 1.3, 1.3, 1.3, 1.3}, "8 runs of 8 commits: nothing changed as far as these tell"},
		{"nothing", 2, []float64{1, 1, 1, 1, 1, 1, 1, 1}, "16 runs of 8 commits: nothing changed as far as these tell"},
	} {
		h, err := ByRevision(history(1, c.each, c.factors...), rule)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := h.WriteText(&text, 120); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text.String(), c.want) {
			t.Errorf("%s: want %s:\n%s", c.name, c.want, &text)
		}
	}
	wrong := 0
	for seed := range uint64(100) {
		if h, _ := ByRevision(history(seed, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), rule); len(h.changes) > 0 {
			wrong++
		}
	}
	if wrong > 3 {
		t.Errorf("%d of 100 histories without a change have one", wrong)
	}
	if _, err := ByRevision(runsWithout(), rule); err == nil || !strings.Contains(err.Error(), "does not say of which commit it is") {
		t.Errorf("runs without a commit: %v", err)
	}
}

func runsWithout() []*Run {
	runs := history(1, 1, 1, 1)
	runs[1].Logs[0].Revision = ""
	return runs
}
