// Package difftest makes runs for tests of comparisons.
//
// Input: descriptions of runs of the program of logtest. Output: runs, and the JSON of their
// statistics.
package difftest

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

// Document returns the JSON of a run's statistics.
func Document(t testing.TB, s logtest.Steps) string {
	t.Helper()
	sink := stats.New()
	all, err := convert.Timeline([]convert.Log{{Name: "log", Open: logtest.InMemory(logtest.WriteSteps(t, s))}}, convert.Options{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	how := all[0].Recorded
	info := []stats.Log{{Name: "log", Complete: all[0].Complete, GPUs: all[0].GPUs, Driver: all[0].Driver, Calls: how.Calls, GPU: how.GPU, Waits: how.Waits,
		CUDANS: all[0].CUDANS, PeakDevice: all[0].PeakDevice}}
	head := []table.Member{{Name: "version", Value: 1}, {Name: "logs", Value: info}, {Name: "functions", Value: how.Functions}}
	var out bytes.Buffer
	if err := table.WriteJSON(&out, head, sink.Tables(stats.Facts{})); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Reports are the names of all reports.
func Reports() (names []string) {
	for name := range diff.Vocabulary().Reports {
		names = append(names, name)
	}
	return names
}

// Read reads a run from the JSON of its statistics.
func Read(t testing.TB, name, json string) *diff.Run {
	t.Helper()
	r, err := diff.NewReader(Reports()).Read(strings.NewReader(json), name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Runs returns n runs.
func Runs(t testing.TB, n int, s logtest.Steps) (all []*diff.Run) {
	t.Helper()
	for range n {
		s.Seed++
		all = append(all, Read(t, fmt.Sprint("run ", s.Seed), Document(t, s)))
	}
	return all
}

// Conditions reads conditions.
func Conditions(t testing.TB, texts ...string) (all []*condition.Condition) {
	t.Helper()
	for _, text := range texts {
		c, err := condition.Parse(text, diff.Vocabulary())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, c)
	}
	return all
}
