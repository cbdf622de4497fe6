package diff

import (
	"maps"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
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
