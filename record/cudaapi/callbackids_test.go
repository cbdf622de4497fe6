package cudaapi

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// The table equals the list of what a real CUPTI answered.
func TestRuntimeCallbacks(t *testing.T) {
	text, err := os.ReadFile("../../testdata/sim/api/runtime_names.def")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^N\((\d+), "(.*?)(?:_v\d{4,})?"\)$`).FindAllStringSubmatch(string(text), -1)
	for _, m := range lines {
		id, err := strconv.ParseUint(m[1], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		want := m[2]
		if id == 0 { // "INVALID"
			want = ""
		}
		if got := RuntimeCallback(uint32(id)); got != want {
			t.Errorf("id %d is %q, want %q", id, got, want)
		}
	}
	if len(lines) != len(runtimeCallbacks) || RuntimeCallback(uint32(len(lines))) != "" || RuntimeCallback(1<<31) != "" {
		t.Errorf("%d ids, the list has %d", len(runtimeCallbacks), len(lines))
	}
	for name, want := range map[string]bool{"cudaMemcpy_ptds": true, "cudaLaunchKernel": true, "cudaLaunch_kernel": false, "": false, "cuLaunchKernel": false} {
		if IsRuntimeName(name) != want {
			t.Errorf("%q is a name of the runtime: %v", name, !want)
		}
	}
}
