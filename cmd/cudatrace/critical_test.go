package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

// A path goes from a kernel to the one before the record of the event that its stream waited for, however long ago that was. Without the calls
// that record events that is not known.
func TestPathByEvents(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{nil, {"--no-probe", "*EventRecord*"}} {
		r := recordProgram(t, append(options, sim("events"), "-n", "20")...)
		var stdout, stderr bytes.Buffer
		if code := run([]string{"cudatrace", "stats", "--report", "critical_path", "--format", "json", r.base + ".cudatrace"}, &stdout, &stderr); code != 0 {
			t.Fatalf("exit code %d: %s", code, &stderr)
		}
		var all struct {
			Rows []struct {
				Name, Kind string
				Count      uint64
			} `json:"critical_path"`
		}
		if err := json.Unmarshal(stdout.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
		kernels := make(map[string]uint64)
		for _, r := range all.Rows {
			if r.Kind == "kernel" {
				kernels[r.Name] += r.Count
			}
		}
		want := uint64(0)
		if options == nil {
			want = kernels["consume"] // a thread that was late for a round did not wait for it
		}
		if kernels["consume"] == 0 || kernels["produce"] != want || kernels["other"] != 0 {
			t.Errorf("%q: on the path are %v, want %d × produce", options, kernels, want)
		}
	}
}
