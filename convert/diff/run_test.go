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

// What is no JSON of stats is refused, with the reason.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	const logs = `"logs": [{"name": "a", "complete": true}]`
	for json, want := range map[string]string{
		``:                               "EOF",
		`[]`:                             "[ in the place of {",
		`{}`:                             `it has no "logs"`,
		`{"version": 1}`:                 `it has no "logs"`,
		`{"version": 2, ` + logs + `}`:   "its version is 2, not 1",
		`{"version": "x", ` + logs:       "cannot unmarshal",
		`{` + logs + `, "kernels": {}}`:  "{ in the place of [",
		`{` + logs + `, "kernels": [5]}`: "cannot unmarshal",
		`{` + logs + `, "kernels": [{}`:  "EOF",
		`{` + logs + `, "kernels": [], "left_out": {"kernels": 3}}`:                    "it lacks rows of kernels: write it without --top",
		`{` + logs + `, "kernels": [` + strings.Repeat(`{},`, 20_000) + `{}], "x": 1}`: "kernels has more than 20,000 rows",
	} {
		_, err := NewReader(allReports()).Read(strings.NewReader(json), "x.json")
		if err == nil || !strings.HasPrefix(err.Error(), "x.json is no JSON of 'cudatrace stats': ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", json, err, want)
		}
	}
	for _, json := range []string{`{` + logs + `}`, `{` + logs + `, "unknown": [{"a": [1, {"b": 2}]}], "unfreed": [], "left_out": {"unfreed": 3, "calls": 5}}`} {
		if _, err := NewReader(allReports()).Read(strings.NewReader(json), "x.json"); err != nil {
			t.Errorf("%s: %v", json, err)
		}
	}
}

// Any JSON is read or refused, and what was read is compared.
func FuzzRead(f *testing.F) {
	f.Add(document(f, logtest.Steps{Seed: 1}))
	f.Add(`{"version": 1, "logs": [{"name": "a", "gpus": null}], "kernels": [{"name": null, "count": -1, "total_ns": 1e308}, {"name": 5, "x": []}]}`)
	good := readRun(f, "good", document(f, logtest.Steps{Seed: 2}))
	f.Fuzz(func(t *testing.T, json string) {
		r, err := NewReader(allReports()).Read(strings.NewReader(json), "fuzzed")
		if err != nil {
			return
		}
		d := Compare([]*Run{good}, []*Run{r}, rule)
		d.Gate(conditionsOf(t, "kernel_time > 5ms", "kernel:*:median > +10%", "calls:cuda* > 0"), false)
	})
}

// The NVTX ranges of steps are one row, whatever their numbers.
func TestNumberedRanges(t *testing.T) {
	t.Parallel()
	r := readRun(t, "run", `{"version": 1, "logs": [], "nvtx": [
		{"name": "step 7", "domain": null, "kind": "range", "count": 1, "total_ns": 50},
		{"name": "step 8", "domain": null, "kind": "range", "count": 2, "total_ns": 60}]}`)
	got := map[string][2]float64{}
	for key, row := range r.reports["nvtx"].rows {
		got[row.label] = [2]float64{r.reports["nvtx"].value(key, "count"), r.reports["nvtx"].value(key, "total_ns")}
	}
	if want := map[string][2]float64{"step": {3, 110}}; !maps.Equal(got, want) {
		t.Errorf("the rows are %v, want %v", got, want)
	}
}

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
		CUDANS: all[0].CUDANS, PeakDevice: all[0].PeakDevice, Ended: all[0].Ended}}
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
