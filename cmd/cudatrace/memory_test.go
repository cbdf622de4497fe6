package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
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
		"many":      {[]string{sim("many")}, 3 * 16384, []string{"device 49152 3 3 0 49152", "pinned 16384 1 1 0 16384"}, ""},
		"static":    {[]string{sim("many-static")}, 3 * 16384, []string{"device 49152 3 3 0 49152", "pinned 16384 1 1 0 16384"}, ""},
		"driver":    {[]string{sim("driveronly")}, 4096, []string{"device 4096 1 1 0 4096"}, ""},
		"the last":  {[]string{"--last", "1h", sim("vectoradd")}, 600000, []string{"device 600000 3 3 0 600000"}, ""},
		"all calls": {[]string{"--api", "all", sim("vectoradd")}, 600000, []string{"device 600000 3 3 0 600000"}, ""},
		"no rights": {[]string{"--calls", "cupti", sim("vectoradd")}, 600000, []string{"device 600000 3 3 0 600000"}, ""},
		"driver's":  {[]string{"--calls", "cupti", sim("driveronly")}, 4096, []string{"device 4096 1 1 0 4096"}, ""},
		"patchelf": {[]string{"--calls", "cupti", "env", "LD_LIBRARY_PATH=" + sim("../lib-moved"), sim("vectoradd")},
			600000, []string{"device 600000 3 3 0 600000"}, ""},
		"its last":   {[]string{"--calls", "cupti", "--last", "1h", sim("vectoradd")}, 600000, []string{"device 600000 3 3 0 600000"}, ""},
		"any kind":   {[]string{"--calls", "cupti", sim("functions")}, 4 << 20, []string{"device 4194304 14 14 0 4208836", "managed 4096 1 1 0 4096", "pinned 8192 1 1 0 8192"}, ""},
		"unwanted":   {[]string{"--calls", "cupti", "--memory", "none", sim("vectoradd")}, 0, nil, "not recorded: calls are not probed, and --memory none leaves CUPTI's callbacks out"},
		"no GPU":     {[]string{"--calls", "cupti", "--gpu", "none", sim("vectoradd")}, 600000, []string{"device 600000 3 3 0 600000"}, ""},
		"no calls":   {[]string{"--calls", "none", sim("vectoradd")}, 0, nil, "not recorded: calls are not recorded"},
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
			if !strings.Contains(r.stderr, cmp.Or(c.reason, "peak memory")) {
				t.Errorf("the summary does not speak of memory:\n%s", r.stderr)
			}
			if diff := gocmp.Diff(c.uses, usesOf(t, r)); diff != "" {
				t.Errorf("memory (-want +got):\n%s", diff)
			}
		})
	}
}

// usesOf returns the rows of the report of memory: use, peak, allocations, frees, not freed, bytes of all allocations.
func usesOf(t *testing.T, r recording) (uses []string) {
	t.Helper()
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
	must.Do(t, json.Unmarshal([]byte(out), &reports))
	for _, m := range reports.Memory {
		uses = append(uses, fmt.Sprint(m.Name, " ", m.Peak, " ", m.Allocations, " ", m.Frees, " ", m.Left, " ", m.Bytes))
		if m.Unmatched+m.Replaced > 0 {
			t.Errorf("%s: %d frees of what was not allocated, %d are missing", m.Name, m.Unmatched, m.Replaced)
		}
	}
	slices.Sort(uses)
	return uses
}

// A program says what it has allocated, on several threads and GPUs and in two processes, and what it has not freed. All
// sources have all of it, to the byte, and where it was allocated.
func TestAllocationsOfAllSources(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"arrays", "mixed"}, {"vmm", "devices", "ipc"}} {
		for source, options := range map[string][]string{"uprobe": {"--calls", "uprobe"}, "callbacks": {"--calls", "cupti"}} {
			t.Run(strings.Join(append(args, source), " "), func(t *testing.T) {
				t.Parallel()
				r := recordProgram(t, slices.Concat([]string{"--no-convert"}, options,
					[]string{"env", "CUDASIM_DEVICES=2", sim("allocations")}, args)...)
				var want []string
				ordered, bytes, peak := uint64(0), uint64(0), uint64(0)
				for line := range strings.Lines(r.stdout) {
					var use string
					var n [5]uint64
					const truth = "truth %s peak=%d allocations=%d frees=%d left=%d bytes=%d"
					if _, err := fmt.Sscanf(line, truth, &use, &n[0], &n[1], &n[2], &n[3], &n[4]); err == nil {
						want = append(want, fmt.Sprint(use, " ", n[0], " ", n[1], " ", n[2], " ", n[3], " ", n[4]))
						peak = max(peak, n[0])
						continue
					}
					if _, err := fmt.Sscanf(line, "ordered allocations=%d bytes=%d", &ordered, &bytes); err != nil {
						t.Fatalf("%q: %v", line, err)
					}
				}
				rows := 3
				if slices.Contains(args, "vmm") {
					rows = 5 // and of the second GPU and the second process
				}
				if len(want) != rows || ordered == 0 {
					t.Fatalf("it says %q", r.stdout)
				}
				want[0] = withMore(t, want[0], ordered, bytes)
				slices.Sort(want)
				if diff := gocmp.Diff(want, usesOf(t, r)); diff != "" {
					t.Errorf("memory (-want +got):\n%s", diff)
				}
				if r.PeakDevice != peak {
					t.Errorf("a peak of %d bytes, want %d", r.PeakDevice, peak)
				}
				holders := printedStats(t, r.base+".cudatrace", "--report", "memory_holders", "--format", "csv")
				if n := strings.Count(holders, ",allocations,,"); n != rows || strings.Count(holders, "\n") != rows+1 {
					t.Errorf("holders of other libraries, or of none:\n%s", holders)
				}
				room := printedStats(t, r.base+".cudatrace", "--report", "out_of_memory", "--format", "csv")
				if !strings.Contains(room, ",allocations,,3145728,1,") || !strings.Contains(room, ",false,") ||
					strings.Count(room, "\n") != 2 {
					t.Errorf("held when there was no memory:\n%s", room)
				}
				left := printedStats(t, r.base+".cudatrace", "--report", "unfreed", "--format", "csv")
				if !strings.Contains(left, ",3145728,") || !strings.Contains(left, ",131072,") || strings.Count(left, "\n") != 3 {
					t.Errorf("not freed:\n%s", left)
				}
			})
		}
	}
}

// withMore adds allocations that are freed, and were the only ones at their time, to a row of usesOf.
func withMore(t *testing.T, row string, n, bytes uint64) string {
	t.Helper()
	var use string
	var of [5]uint64
	must.Get(fmt.Sscan(row, &use, &of[0], &of[1], &of[2], &of[3], &of[4]))(t)
	return fmt.Sprint(use, " ", of[0], " ", of[1]+n, " ", of[2]+n, " ", of[3], " ", of[4]+bytes)
}
