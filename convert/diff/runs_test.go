package diff

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/must"
)

// document returns the JSON of a run's statistics.
func document(t testing.TB, s logtest.Steps) string {
	t.Helper()
	sink := stats.New()
	all, err := convert.Timeline([]convert.Log{{Name: "log", Open: logtest.InMemory(logtest.WriteSteps(t, s))}}, convert.Options{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	how := all[0].Recorded
	info := []stats.Log{{Name: "log", Complete: all[0].Complete, GPUs: all[0].GPUs, Driver: all[0].Driver, Calls: how.Calls, GPU: how.GPU,
		CUDANS: all[0].CUDANS, PeakDevice: all[0].PeakDevice}}
	head := []table.Member{{Name: "version", Value: 1}, {Name: "logs", Value: info}, {Name: "functions", Value: how.Functions}}
	var out bytes.Buffer
	must.Do(t, table.WriteJSON(&out, head, sink.Tables(stats.Facts{})))
	return out.String()
}

// allReports are the names of all reports.
var allReports = sync.OnceValue(func() []string { return slices.Collect(maps.Keys(Vocabulary().Reports)) })

// readRun reads a run from the JSON of its statistics.
func readRun(t testing.TB, name, json string) *Run {
	t.Helper()
	r := must.Get(NewReader(allReports()).Read(strings.NewReader(json), name))(t)
	return r
}

// runsOf returns n runs.
func runsOf(t testing.TB, n int, s logtest.Steps) (all []*Run) {
	t.Helper()
	for range n {
		s.Seed++
		all = append(all, readRun(t, fmt.Sprint("run ", s.Seed), document(t, s)))
	}
	return all
}

// conditionsOf reads conditions.
func conditionsOf(t testing.TB, texts ...string) (all []*Condition) {
	t.Helper()
	for _, text := range texts {
		c, err := ParseCondition(text, Vocabulary())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, c)
	}
	return all
}
