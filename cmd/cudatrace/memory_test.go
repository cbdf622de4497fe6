package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// What programs allocate is counted from their calls, to the byte. Where calls cannot tell, the summary and info say why.
func TestAllocatedMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		peak   uint64   // of device memory
		uses   []string // rows of the report: use, peak, allocations, frees, not freed, bytes of all allocations
		reason string
	}{
		"many":       {[]string{sim("many")}, 3 * 16384, []string{"device 49152 3 3 0 49152", "pinned 16384 1 1 0 16384"}, ""},
		"static":     {[]string{sim("many-static")}, 3 * 16384, []string{"device 49152 3 3 0 49152", "pinned 16384 1 1 0 16384"}, ""},
		"driver":     {[]string{sim("driveronly")}, 4096, []string{"device 4096 1 1 0 4096"}, ""},
		"the last":   {[]string{"--last", "1h", sim("vectoradd")}, 600000, []string{"device 600000 3 3 0 600000"}, ""},
		"all calls":  {[]string{"--api", "all", sim("vectoradd")}, 600000, []string{"device 600000 3 3 0 600000"}, ""},
		"no probes":  {[]string{"--calls", "cupti", sim("vectoradd")}, 0, nil, "not recorded: calls are not probed, and CUPTI's own records of allocations crash programs"},
		"left out":   {[]string{"--no-probe", "cuMemFree_v2", sim("vectoradd")}, 0, nil, "not recorded: cuMemFree_v2 is not probed"},
		"launches":   {[]string{"--api", "minimal", sim("vectoradd")}, 0, nil, "not recorded: cuMemAlloc_v2 and 22 other functions that allocate or free are not probed"},
		"every kind": {[]string{sim("functions")}, 4 << 20, []string{"device 4194304 14 14 0 4208836", "managed 4096 1 1 0 4096", "pinned 8192 1 1 0 8192"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := recordShared(t, c.args...)
			if r.PeakDevice != c.peak || r.NoMemory != c.reason {
				t.Errorf("a peak of %d bytes, want %d; %q, want %q", r.PeakDevice, c.peak, r.NoMemory, c.reason)
			}
			if !strings.Contains(r.stderr, cmp.Or(c.reason, "peak memory ")) {
				t.Errorf("the summary does not speak of memory:\n%s", r.stderr)
			}
			out := printedStats(t, r.base+".cudatrace", "--report", "memory", "--format", "json")
			var reports struct {
				Memory []struct {
					Name               string
					Peak               uint64 `json:"peak_bytes"`
					Allocations, Frees uint64
					Left               uint64 `json:"not_freed"`
					Bytes              uint64 `json:"allocated_bytes"`
					Unmatched          uint64 `json:"unmatched_frees"`
					Replaced           uint64
				}
			}
			if err := json.Unmarshal([]byte(out), &reports); err != nil {
				t.Fatal(err)
			}
			var uses []string
			for _, m := range reports.Memory {
				uses = append(uses, fmt.Sprint(m.Name, " ", m.Peak, " ", m.Allocations, " ", m.Frees, " ", m.Left, " ", m.Bytes))
				if m.Unmatched+m.Replaced > 0 {
					t.Errorf("%s: %d frees of what was not allocated, %d are missing", m.Name, m.Unmatched, m.Replaced)
				}
			}
			slices.Sort(uses)
			if diff := gocmp.Diff(c.uses, uses); diff != "" {
				t.Errorf("memory (-want +got):\n%s", diff)
			}
		})
	}
}
