package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/diff"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// TestDiffIsDocumented holds docs/diff.md against the JSON, the overall figures and the examples
// of conditions.
func TestDiffIsDocumented(t *testing.T) {
	t.Parallel()
	text := readRepository(t, "docs/diff.md")
	figures := section(t, text, "### Overall figures")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(diff.Vocabulary().Figures)), firstCells(figures)); diff != "" {
		t.Errorf("overall figures (-code +docs/diff.md):\n%s", diff)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"cudatrace", "diff", gpuLog, gpuLog, "--format", "json", "--fail-on", "kernel_count > 1M"}, &stdout, &stderr); code != 2 {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	stdout.Reset()
	if code := run([]string{"cudatrace", "diff", gpuLog, gpuLog, "--format", "json", "--fail-on", "kernel_count > 1000000"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var all map[string]any
	must.Do(t, json.Unmarshal(stdout.Bytes(), &all))
	members, _, _ := strings.Cut(section(t, text, "## The JSON"), "\n### ")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(all)), firstCells(members)); diff != "" {
		t.Errorf("members (-JSON +docs/diff.md):\n%s", diff)
	}
	for _, name := range []string{"conditions", "overall"} {
		got := slices.Sorted(maps.Keys(all[name].([]any)[0].(map[string]any)))
		if diff := cmp.Diff(got, firstCells(section(t, text, "### `"+name+"`"))); diff != "" {
			t.Errorf("%s (-JSON +docs/diff.md):\n%s", name, diff)
		}
	}
	rows := section(t, text, "### Rows")
	for key := range all["kernels"].([]any)[0].(map[string]any) {
		plain := key
		for _, side := range []string{"base_", "new_", "q_"} {
			if !strings.Contains(rows, "`"+key+"`") {
				plain = strings.TrimPrefix(plain, side)
			}
		}
		if !strings.Contains(rows, "`"+plain+"`") {
			t.Errorf("docs/diff.md does not explain the key %s of rows", key)
		}
	}
}

// section is the text below a heading.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("there is no %s", heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	for n := len(level); n > 1; n-- {
		rest, _, _ = strings.Cut(rest, "\n"+strings.Repeat("#", n)+" ")
	}
	return rest
}

// The conditions in docs/diff.md are right.
func TestDiffExamples(t *testing.T) {
	t.Parallel()
	text := readRepository(t, "docs/diff.md")
	checked := 0
	for _, heading := range []string{"## Conditions", "### Budgets"} {
		_, block, _ := strings.Cut(section(t, text, heading), "```\n")
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "  ") // behind it stands what it means
			if line == "" || line[0] == '#' {
				continue
			}
			checked++
			if _, err := diff.ParseCondition(line, diff.Vocabulary()); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d conditions", checked)
	}
}

// TestDiffOfPipes compares what can be read only once, as bash's <(cudatrace stats LOG --format json) and <(zstd -dc LOG.zst)
// give it.
func TestDiffOfPipes(t *testing.T) {
	t.Parallel()
	document, _ := succeed(t, "stats", gpuLog, "--format", "json")
	log := must.Get(os.ReadFile(gpuLog))(t)
	pipe := func(content []byte) string {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		go func() {
			_, _ = w.Write(content) // who does not read all of it fails
			_ = w.Close()
		}()
		return fmt.Sprintf("/dev/fd/%d", r.Fd())
	}
	json := []byte(document)
	for _, args := range [][]string{
		{pipe(json), pipe(json)}, {"--base", pipe(json), "--base", gpuLog, pipe(json), pipe(json)}, {pipe(log), pipe(json)}, {gpuLog, pipe(log)},
		{gpuLog, gpuLog, "--budget", pipe([]byte("kernel_count > 1000000\n"))},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"cudatrace", "diff", "--significance", "none"}, args...), &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "nothing differs") {
			t.Errorf("%q: exit code %d: %s%s", args, code, &stdout, &stderr)
		}
	}
}

// TestDiffBesidePipes finds a pipe to which nobody writes: in a folder and by a pattern it is skipped, and where it is named,
// Ctrl-C ends the waiting.
func TestDiffBesidePipes(t *testing.T) {
	t.Parallel()
	dir, empty := t.TempDir(), t.TempDir()
	log := must.Get(os.ReadFile(gpuLog))(t)
	pipe, only := filepath.Join(dir, "pipe.cudatrace"), filepath.Join(empty, "only.json")
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(dir, "a.cudatrace"), log, 0o600), syscall.Mkfifo(pipe, 0o600), syscall.Mkfifo(only, 0o600)))
	ctx, end := context.WithTimeout(t.Context(), time.Minute) // which decides only how long a test that fails takes
	defer end()
	for word, want := range map[string]struct {
		code int
		says string
	}{
		dir:                      {0, "cudatrace: " + pipe + " is skipped: it is not a regular file, and nobody named it\n"},
		filepath.Join(dir, "*"):  {0, "cudatrace: " + pipe + " is skipped: it is not a regular file, and nobody named it\n"},
		filepath.Join(dir, "p*"): {1, "no file matches"},
		empty:                    {1, only + " is skipped"},
	} {
		cmd := exec.CommandContext(ctx, "cudatrace", "diff", word, gpuLog)
		out, err := cmd.CombinedOutput()
		if code := exitStatusOf(cmd.ProcessState); code != want.code || !strings.Contains(string(out), want.says) {
			t.Errorf("%s: exit code %d, %v\n%s", word, code, err, out)
		}
	}
	for _, args := range [][]string{{pipe, gpuLog}, {gpuLog, gpuLog, "--budget", pipe}} {
		cmd := exec.CommandContext(ctx, "cudatrace", append([]string{"diff"}, args...)...)
		must.Do(t, cmd.Start())
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // once it is open for reading
		if err == nil {
			err = cmd.Process.Signal(os.Interrupt)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGINT {
			t.Errorf("%q: after Ctrl-C it ends with %v", args, cmd.ProcessState)
		}
		w.Close()
	}
}

// TestSameProgram: two recordings of the same program differ in nothing in 99 of 100 tries, one
// recording a side (in what can be told then) and, if there are enough, five a side by turns. CUDATRACE_RECORDINGS is
// the number of recordings.
func TestSameProgram(t *testing.T) {
	t.Parallel()
	recordings := 2
	if text := os.Getenv("CUDATRACE_RECORDINGS"); text != "" {
		n := must.Get(strconv.Atoi(text))(t)
		recordings = n
	}
	folder := t.TempDir()
	var files []string
	for i := range recordings {
		base := filepath.Join(folder, fmt.Sprint(i))
		must.Run(t, exec.Command("cudatrace", "record", "-q", "--no-convert", "-o", base, sim("launchloop"), "-n", "1500", "-k", "8"))
		files = append(files, base+".cudatrace")
	}
	for _, runs := range []int{1, 5} {
		tries, wrong := 0, 0
		for first := 0; first+2*runs <= len(files); first += 2 {
			var args []string
			for i, name := range files[first : first+2*runs] {
				if i%2 == 0 {
					args = append(args, "--base", name)
				} else {
					args = append(args, name)
				}
			}
			stdout, _ := succeed(t, append([]string{"diff"}, args...)...)
			if tries++; strings.Contains(stdout, " first: ") {
				wrong++
				t.Logf("%d recordings a side: %s", runs, stdout)
			}
		}
		t.Logf("%d recordings a side: %d of %d tries differ", runs, wrong, tries)
		if wrong > tries/100 {
			t.Errorf("%d recordings a side: %d of %d tries differ", runs, wrong, tries)
		}
	}
}

// writeRanks writes the logs of the ranks of a run into a folder.
func writeRanks(t *testing.T, folder, prefix string, o logtest.Ranks) {
	t.Helper()
	o.Hosts, o.PerHost, o.WallOff, o.WallError, o.Steps, o.Even = 2, 4, 1e6, 2e6, 40, true
	if o.Late == 0 {
		o.Straggler = -1
	}
	for _, l := range logtest.WriteRanks(t, o) {
		must.Do(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-rank%d.cudatrace", prefix, l.Rank)), l.Data, 0o644))
	}
}

// The logs of the ranks of a run are one run: ranks are compared with each other, and a straggler of one side is named.
func TestDiffOfRanks(t *testing.T) {
	t.Parallel()
	base, now := t.TempDir(), t.TempDir()
	writeRanks(t, base, "a", logtest.Ranks{Seed: 1, Run: "a"})
	writeRanks(t, base, "b", logtest.Ranks{Seed: 2, Run: "b"})
	writeRanks(t, now, "c", logtest.Ranks{Seed: 3, Straggler: 5, Late: 8e6}) // names no run
	print := func(args ...string) string {
		stdout, _ := succeed(t, append([]string{"diff"}, args...)...)
		return stdout
	}
	text := print(base, filepath.Join(now, "c-*"), "--significance", "none")
	for _, want := range []string{"BASE: 2 runs in 16 logs (", "NEW: 1 run in 8 logs (", "warning: NEW has a straggler that BASE has not: rank 5 computes "} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	var all struct {
		Base, New []string
		Problems  []struct{ Kind, Text string }
		Ranks     []map[string]any
	}
	must.Do(t, json.Unmarshal([]byte(print(base, now, "--significance", "none", "--format", "json")), &all))
	if len(all.Base) != 16 || len(all.New) != 8 || len(all.Ranks) != 8 || len(all.Problems) != 1 || all.Problems[0].Kind != "straggler" {
		t.Fatalf("%+v", all)
	}
	first := all.Ranks[0]
	if was, is := first["base_awaited_ns"].(float64), first["new_awaited_ns"].(float64); first["name"] != "rank 5" || is < was+7*80*8e6*0.9 || !strings.Contains(first["verdict"].(string), "others wait longer") {
		t.Errorf("%v", first)
	}
	if back := print(now, base); !strings.Contains(back, "warning: BASE has a straggler that NEW has not: rank 5 computes ") {
		t.Errorf("exchanged:\n%s", back)
	}
	if one := print(base, filepath.Join(now, "c-rank3.cudatrace")); strings.Contains(one, "straggler") {
		t.Errorf("one rank has nobody to wait for:\n%s", one)
	}
}

// A rank that comes late into collectives beside longer kernels costs nothing: neither diff, nor the summary of a recording,
// nor the tables name it, as stats does not. One that costs something has the saving of stats in the summary.
func TestWaitsBesideKernels(t *testing.T) {
	t.Parallel()
	const hidden, straggler = "../../testdata/savings/sim/hidden-", "../../testdata/savings/sim/straggler-with.cudatrace"
	if text, _ := succeed(t, "diff", hidden+"without.cudatrace", hidden+"with.cudatrace"); strings.Contains(text, "straggler") {
		t.Errorf("diff names a straggler:\n%s", text)
	}
	if rows, _ := succeed(t, "convert", hidden+"with.cudatrace", "--format", "ndjson", "-o", "-"); strings.Contains(rows, "straggling") {
		t.Error("the table of findings has a straggler")
	}
	if text := summaryOf(t, hidden+"with.cudatrace"); strings.Contains(text, " late") {
		t.Errorf("the summary names a late rank:\n%s", text)
	}
	if text := summaryOf(t, straggler); !strings.Contains(text, "sleeps in clock_nanosleep; saves 118.5 ms") {
		t.Errorf("the summary lacks the saving:\n%s", text)
	}
}

// Where the steps of a run take longer, that is said before all other differences: of one run a side without a verdict.
func TestDiffStepTimeFirst(t *testing.T) {
	t.Parallel()
	logs := gpuLogs([]string{"ranks/straggler-rank3", "ranks/loader-rank3"})
	for significance, how := range map[string]string{"1%": "significance unknown", "none": "slower"} {
		stdout, _ := succeed(t, append([]string{"diff", "--significance", significance}, logs...)...)
		_, behind, _ := strings.Cut(stdout, "\n")
		if line, _, _ := strings.Cut(behind, "\n"); line != "step time: 7.50 ms → 11.2 ms (+49.3 %), "+how {
			t.Errorf("%s: %q", significance, line)
		}
	}
}

// A gate fails for 60 % more kernel time, although each of the hundred numbered NVTX ranges varies; one run a side has no verdict on times.
func TestDiffNoisyRanges(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run([]string{"cudatrace", "diff", "testdata/gate/base*.json", "testdata/gate/slower*.json", "--fail-on", "kernel_time > +5%"}, &stdout, &stderr); code != exitHolds {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
	stdout.Reset()
	logs := gpuLogs([]string{"ranks/straggler-rank0", "ranks/straggler-rank3"})
	if code := run(append([]string{"cudatrace", "diff"}, logs...), &stdout, &stderr); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text := stdout.String(); strings.Contains(text, "beyond") || !strings.Contains(text, "one run a side: significance of times unknown") {
		t.Error(text)
	}
}
