package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Nobody reads that nothing was lost beside a log that is not complete.
func TestLostRow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		convert.Summary
		want string
	}{
		{convert.Summary{Complete: true}, "nothing"},
		{convert.Summary{Complete: false}, "nothing was counted, but records may be missing"},
		{convert.Summary{Lost: map[string]uint64{"a": 1<<64 - 1, "b": 5}}, "18,446,744,073,709,551,615 records: " + lostByCause(map[string]uint64{"a": 1<<64 - 1, "b": 5})},
	} {
		if got := lostRow(c.Summary); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// What is wrong with a log is red, and colour changes nothing of the text.
func TestInfoColor(t *testing.T) {
	t.Parallel()
	path := logOfText(t, "end time=100 complete=0 reason=\"the program was killed\"\n")
	text := func(color string) string {
		var stdout, stderr bytes.Buffer
		run([]string{"cudatrace", "info", path, "--color", color}, &stdout, &stderr)
		return stdout.String()
	}
	plain, colored := text("never"), text("always")
	if !strings.Contains(colored, string(console.Bad)+"no\x1b[0m\n") || strings.Contains(plain, "\x1b") {
		t.Errorf("the log is not complete: it says\n%q\nand\n%q", colored, plain)
	}
	if got := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(colored, ""); got != plain {
		t.Errorf("with colour the text is\n%s\nwithout it\n%s", got, plain)
	}
}

// The text sums up a communicator of NCCL over all processes.
func TestInfoCommunicators(t *testing.T) {
	t.Parallel()
	path := logOfText(t, `
nccl_call pid=1 tid=1 name=ncclAllReduce time=10 known=0x3 communicator=0xa00000001 bytes=1048576
nccl_call pid=2 tid=2 name=ncclAllReduce time=20 known=0x3 communicator=0xa00000001 bytes=1048576
nccl_call pid=1 tid=1 name=ncclCommDestroy time=70 known=0x5 communicator=0xa00000001 ranks=8
nccl_call pid=2 tid=2 name=ncclCommDestroy time=70 known=0x5 communicator=0xa00000001 ranks=8 rank=1
nccl_call pid=1 tid=1 name=ncclSend time=80 known=0x3 communicator=0xb00000001 bytes=1
nccl_call pid=1 tid=1 name=ncclCommDestroy time=90 known=0x5 communicator=0xb00000001 ranks=2 rank=1
nccl_call pid=3 tid=3 name=ncclReduce time=90 known=0x2 bytes=5
end time=100 complete=1
`)
	stdout, _ := succeed(t, "info", path)
	var got []string
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "NCCL ") {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
	}
	want := []string{
		"NCCL communicator 0xa00000001 (ranks 0-1 of 8): 2 calls, 2.0 MiB",
		"NCCL communicator 0xb00000001 (rank 1 of 2): 1 call, 1 B",
		"NCCL communicator not known: 1 call, 5 B",
	}
	goldentest.Same(t, want, got, "rows")
}

// Long names of functions and errors are values: the first column stays narrow, whatever a log has.
func TestInfoLongNames(t *testing.T) {
	t.Parallel()
	const function = "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"
	s := convert.Summary{Functions: map[string]uint64{function: 1200, "cuInit": 1}, Errors: map[string]uint64{function + ": cudaErrorInvalidDeviceFunction": 7},
		Variables: map[string]string{"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}}
	for i := range maxCountRows + 3 {
		s.Errors[fmt.Sprint("cuInit: ", i)] = 1
	}
	text := ""
	for _, row := range infoRows(s) {
		if len(row[0]) > len("CUPTI's own time") {
			t.Errorf("the label %q is long", row[0])
		}
		text += strings.Join(row, "|") + "\n"
	}
	for _, want := range []string{"|1,200 × " + function + "\n|    1 × cuInit\n", "failed|7 × " + function + ": cuda", "failed|4 more, which", "|TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The text has the main figures of a sampled GPU, with their source, and says who else used it.
func TestInfoMetrics(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join(root, "convert", "testdata", "metrics.log.txt")))(t)
	log := must.Get(logtest.Assembled(string(text)))(t)
	path := filepath.Join(t.TempDir(), "log.cudatrace")
	must.Do(t, os.WriteFile(path, log, 0o644))
	stdout, _ := succeed(t, "info", path)
	var got []string
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "GPU 0 ") {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
	}
	want := []string{
		"GPU 0 SM active mean 81.5 %, median 96.6 %, p95 97.5 % (PM sampling)",
		"GPU 0 Power mean 633 W, median 602 W, p95 700 W (NVML)",
		"GPU 0 clocks lowered power cap for 0.3 ms of 0.3 ms",
		"GPU 0 used by process 99 (python3), too: the values are those of the whole GPU",
	}
	goldentest.Same(t, want, got, "rows")
}

// TestInfoIsDocumented holds docs/info.md against the JSON of a log: both have the same
// fields, and the same causes of loss.
func TestInfoIsDocumented(t *testing.T) {
	t.Parallel()
	stdout, _ := succeed(t, "info", gpuLog, "--format", "json")
	var info map[string]any
	must.Do(t, json.Unmarshal([]byte(stdout), &info))
	text := must.Get(os.ReadFile(filepath.Join(root, "docs", "info.md")))(t)
	fields, causes, _ := strings.Cut(string(text), "Causes in `lost`")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(info)), firstCells(fields)); diff != "" {
		t.Errorf("fields (-JSON +docs/info.md):\n%s", diff)
	}
	want := slices.Clone(tracelog.LostCauses)
	slices.Sort(want)
	if diff := cmp.Diff(want, firstCells(causes)); diff != "" {
		t.Errorf("causes (-code +docs/info.md):\n%s", diff)
	}
}

// firstCells are the names in the first column of a table, or before the colons of a list, sorted.
func firstCells(text string) (names []string) {
	name := regexp.MustCompile("`(\\w+)`")
	for line := range strings.Lines(text) {
		first, _, listed := strings.Cut(line, ": ")
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			first, listed = cells[1], true
		} else if !strings.HasPrefix(line, "- `") {
			continue
		}
		if listed {
			for _, m := range name.FindAllStringSubmatch(first, -1) {
				names = append(names, m[1])
			}
		}
	}
	slices.Sort(names)
	return names
}
