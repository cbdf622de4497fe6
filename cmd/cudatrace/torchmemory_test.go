package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
	"github.com/cudatrace/cudatrace/record/recordtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A torchEvent is what testdata/python/torchmemory.py says of a block: address, bytes, what was allocated and reserved,
// device, line, whether there was no memory.
type torchEvent [7]int64

// torchTruth is what testdata/python/torchmemory.py says.
type torchTruth struct {
	Events     []torchEvent
	Peak, Held [][2]int64 // line and bytes, largest first
	PID        uint32
}

// recordTorch records the memory of PyTorch, and what else is named, in a program of testdata/python.
func recordTorch(t *testing.T, base, with, program string, args ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	pythons := pythontest.All(t)
	if len(pythons) == 0 {
		t.Skip("no Python here")
	}
	cmd := pythonCommand("cudatrace", append([]string{"record", "--pytorch", with + ",memory", "--sample", "off",
		"--no-convert", "-o", base, pythons[len(pythons)-1].Path, "testdata/python/" + program}, args...)...)
	cmd.Env = append(cmd.Env, "SIM_C10_BYTES=200000000")
	out := must.Run(t, cmd)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", out)
		}
	})
}

// recordTorchMemory records testdata/python/torchmemory.py.
func recordTorchMemory(t *testing.T) (base string, truth torchTruth) {
	t.Helper()
	dir := t.TempDir()
	base, said := filepath.Join(dir, "run"), filepath.Join(dir, "truth.json")
	recordTorch(t, base, "off", "torchmemory.py", said)
	text := must.Get(os.ReadFile(said))(t)
	must.Do(t, json.Unmarshal(text, &truth))
	return base, truth
}

// torchEvents reads the blocks of a log in the order of time. The line is that of the second frame: the first one is
// the function through which the program asks.
func torchEvents(t *testing.T, path string, pid uint32) (all []torchEvent) {
	t.Helper()
	lines, stacks := map[uint32]uint32{}, map[uint32]tracelog.PythonStack{}
	var blocks []tracelog.TorchMemory
	recordtest.Each(t, recordtest.Open(t, path), func(r tracelog.Record) {
		switch r := r.(type) {
		case *tracelog.PythonFrame:
			lines[r.ID] = r.Line
		case *tracelog.PythonStack:
			stacks[r.ID] = *r
		case *tracelog.TorchMemory:
			if r.PID != pid {
				t.Errorf("a block of process %d, not %d", r.PID, pid)
			}
			blocks = append(blocks, *r)
		case *tracelog.Lost:
			t.Error("something was lost")
		}
	})
	slices.SortStableFunc(blocks, func(a, b tracelog.TorchMemory) int { return int(int64(a.Time - b.Time)) })
	for _, m := range blocks {
		line := lines[stacks[stacks[m.Python].Parent].Frame]
		all = append(all, torchEvent{int64(m.Address), m.Bytes, int64(m.Allocated), int64(m.Reserved), int64(m.Device),
			int64(line), int64(m.Flags)})
	}
	return all
}

// TestTorchMemory compares a log, and what people see of PyTorch's memory, with what the simulated allocator of PyTorch
// did: the blocks, the counters of the trace, the lines that held memory at the peak and when there was none, and the
// finding.
func TestTorchMemory(t *testing.T) {
	t.Parallel()
	base, truth := recordTorchMemory(t)
	if diff := cmp.Diff(truth.Events, torchEvents(t, base+".cudatrace", truth.PID)); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	tr := (&recording{base: base}).trace(t)
	for i, name := range []string{"allocated", "reserved"} {
		var want, got []any
		for _, e := range truth.Events {
			if e[4] == 0 && (len(want) == 0 || want[len(want)-1] != float64(e[2+i])) {
				want = append(want, float64(e[2+i]))
			}
		}
		for _, r := range tr.Query(`select value from counter c join process_counter_track t on c.track_id = t.id
			where t.name = 'PyTorch ` + name + ` (GPU 0)' order by ts`) {
			if len(got) == 0 || got[len(got)-1] != r["value"] {
				got = append(got, r["value"])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	out, _ := succeed(t, "stats", "--format", "json", "--report", "torch_memory,findings", base+".cudatrace")
	var said struct {
		Rows []struct {
			Name    string `json:"name"`
			GPU     int    `json:"gpu"`
			Peak    int64  `json:"peak_bytes"`
			Failure *int64 `json:"failure_bytes"`
		} `json:"torch_memory"`
		Findings []struct{ Name, Title string } `json:"findings"`
	}
	must.Do(t, json.Unmarshal([]byte(out), &said))
	var peak, held [][2]int64
	for _, r := range said.Rows {
		_, after, _ := strings.Cut(r.Name, "torchmemory.py:")
		line, _, _ := strings.Cut(after, " ")
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			t.Fatalf("line %q", r.Name)
		}
		if r.GPU == 0 && r.Peak > 0 {
			peak = append(peak, [2]int64{n, r.Peak})
		}
		if r.GPU == 0 && r.Failure != nil && *r.Failure > 0 {
			held = append(held, [2]int64{n, *r.Failure})
		}
	}
	if diff := cmp.Diff([][][2]int64{truth.Peak, truth.Held}, [][][2]int64{peak, held}); diff != "" {
		t.Errorf("lines at the peak, and at the failure (-want +got):\n%s", diff)
	}
	want := fmt.Sprintf("PyTorch had no memory for 10.0 MiB at torchmemory.py:%d <module>",
		truth.Events[len(truth.Events)-1][5])
	if len(said.Findings) == 0 || said.Findings[0].Name != "pytorch_out_of_memory" || said.Findings[0].Title != want {
		t.Errorf("findings %v, want %q", said.Findings, want)
	}
}

// TestTorchMemoryLost stops the recorder while the allocator hands out more blocks than the kernel's buffer has room for:
// those that are not recorded are counted.
func TestTorchMemoryLost(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "run")
	recordTorch(t, base, "off", "torchburst.py")
	recorded, lost := uint64(0), uint64(0)
	recordtest.Each(t, recordtest.Open(t, base+".cudatrace"), func(r tracelog.Record) {
		switch r := r.(type) {
		case *tracelog.TorchMemory:
			recorded++
		case *tracelog.Lost:
			if lost += r.Count; r.Cause != tracelog.LostTorchMemory {
				t.Errorf("lost %+v", r)
			}
		}
	})
	if lost == 0 || recorded+lost != 60000 {
		t.Errorf("%d blocks recorded, %d lost", recorded, lost)
	}
}

// TestTorchMemoryHash has a code object change what tells it from others: at most the block before that has no line.
func TestTorchMemoryHash(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "run")
	recordTorch(t, base, "off", "torchhash.py")
	blocks, lines := recordtest.Of[tracelog.TorchMemory](t, recordtest.Open(t, base+".cudatrace")), 0
	for _, b := range blocks {
		if b.Python != 0 {
			lines++
		}
	}
	if len(blocks) != 10 || lines < 9 {
		t.Errorf("%d blocks, %d with a line", len(blocks), lines)
	}
}

// TestTorchMemoryOperators compares the operators of blocks, and the report, with those in which the program asked for
// them, on several threads.
func TestTorchMemoryOperators(t *testing.T) {
	t.Parallel()
	base, said := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "truth.json")
	recordTorch(t, base, "spans", "torchoperators.py", "200", said)
	var truth [][3]any
	if text, err := os.ReadFile(said); err != nil || json.Unmarshal(text, &truth) != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var want, got []string
	blocks := make(map[string]float64)
	for _, b := range truth {
		names := []string{}
		for _, name := range b[2].([]any) {
			names = append(names, name.(string))
		}
		want = append(want, fmt.Sprintf("%#x %v %s", int64(b[0].(float64)), b[1], strings.Join(names, " <- ")))
		if name := append(names, "")[0]; b[1].(float64) > 0 {
			blocks[name]++
		}
	}
	rows, _ := succeed(t, "convert", base+".cudatrace", "--format", "ndjson", "-o", "-")
	for line := range strings.Lines(rows) {
		var r struct {
			Table, Address string
			Bytes          int64
			Stack          string `json:"operator_stack"`
		}
		must.Do(t, json.Unmarshal([]byte(line), &r))
		if r.Table == "torch_memory" {
			got = append(got, fmt.Sprintf("%s %d %s", r.Address, r.Bytes, r.Stack))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	var report struct {
		Rows []struct {
			Operator string  `json:"operator"`
			Count    float64 `json:"count"`
		} `json:"torch_memory"`
	}
	out, _ := succeed(t, "stats", "--format", "json", "--report", "torch_memory", base+".cudatrace")
	must.Do(t, json.Unmarshal([]byte(out), &report))
	shown := make(map[string]float64)
	for _, r := range report.Rows {
		shown[r.Operator] += r.Count
	}
	if diff := cmp.Diff(blocks, shown); diff != "" {
		t.Errorf("blocks of operators (-want +got):\n%s", diff)
	}
}
