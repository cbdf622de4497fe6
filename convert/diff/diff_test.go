package diff_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/diff"
	"github.com/cudatrace/cudatrace/convert/diff/condition"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// rule is the usual one.
var rule = diff.Rule{Rate: 0.01, MinChange: 0.05}

// runOf returns a run of the program of logtest.
func runOf(t testing.TB, s logtest.Steps) *diff.Run {
	t.Helper()
	return read(t, fmt.Sprint("run ", s.Seed), document(t, s))
}

// document is the JSON of a run's statistics.
func document(t testing.TB, s logtest.Steps) string {
	t.Helper()
	sink := stats.New()
	log := convert.Log{Name: "log", Open: logtest.InMemory(logtest.WriteSteps(t, s))}
	all, err := convert.Timeline([]convert.Log{log}, convert.Options{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	info := []diff.Log{{Name: "log", Complete: all[0].Complete, GPUs: all[0].GPUs, Driver: all[0].Driver, Calls: all[0].Recorded.Calls,
		GPU: all[0].Recorded.GPU, Waits: all[0].Recorded.Waits, CUDANS: float64(all[0].CUDANS), PeakDevice: float64(all[0].PeakDevice)}}
	head := []table.Member{{Name: "version", Value: 1}, {Name: "logs", Value: info}, {Name: "functions", Value: all[0].Recorded.Functions}}
	if err := table.WriteJSON(&out, head, sink.Tables(stats.Facts{})); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func read(t testing.TB, name, json string) *diff.Run {
	t.Helper()
	var all []string
	for report := range diff.Vocabulary().Reports {
		all = append(all, report)
	}
	r, err := diff.Read(strings.NewReader(json), name, all)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runsOf returns n runs.
func runsOf(t testing.TB, n int, s logtest.Steps) (all []*diff.Run) {
	t.Helper()
	for range n {
		s.Seed++
		all = append(all, runOf(t, s))
	}
	return all
}

// words are the rows that differ: "kernels step<2> slower".
func words(d *diff.Diff) (list []string) {
	for _, s := range d.Sections {
		for _, r := range s.Rows[:s.Differ] {
			list = append(list, fmt.Sprintf("%s %s %s", s.Report, r.Name, strings.Join(r.Verdicts, ", ")))
		}
	}
	return list
}

func condition1(t testing.TB, text string) *condition.Condition {
	t.Helper()
	c, err := condition.Parse(text, diff.Vocabulary())
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func TestScratch(t *testing.T) {
	base := runsOf(t, 5, logtest.Steps{Seed: 100, Noise: 0.02})
	for name, s := range map[string]logtest.Steps{"same": {}, "longer": {Longer: 0.1}, "malloc": {Malloc: true}, "wait": {Wait: true}} {
		s.Noise = 0.02
		for _, n := range []int{1, 5} {
			s.Seed = 1000
			d := diff.Compare(base[:n], runsOf(t, n, s), rule)
			t.Log(name, n, d.Problems, words(d))
			for _, text := range []string{"kernel_time > +1%", "calls:cudaMalloc > +0", "calls:cudaFreeAsync > 0", "peak_memory > 2MiB", "gpu_busy < 80%", "kernel:step*:median > +8%"} {
				for _, o := range d.Gate([]*condition.Condition{condition1(t, text)}, false) {
					t.Log("  ", text, o.State, o.Why, o.Holds, o.Cases[:min(1, len(o.Cases))])
				}
			}
		}
	}
}
