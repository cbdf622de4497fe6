package cudaapi

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// The table equals the list of what a real CUPTI answered.
func TestRuntimeCallbacks(t *testing.T) {
	text := must.Get(os.ReadFile("../../testdata/sim/api/runtime_names.def"))(t)
	lines := regexp.MustCompile(`(?m)^N\((\d+), "(.*?)(?:_v\d{4,})?"\)$`).FindAllStringSubmatch(string(text), -1)
	for _, m := range lines {
		id := must.Get(strconv.ParseUint(m[1], 10, 32))(t)
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
