package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// TestStatsIsDocumented holds docs/stats.md against the JSON: what its sections say of the reports' rows is made from them.
func TestStatsIsDocumented(t *testing.T) {
	t.Parallel()
	data := must.Get(os.ReadFile(filepath.Join(root, "docs", "stats.md")))(t)
	text := string(data)
	before, _, _ := strings.Cut(text, "\n### `")
	_, logs, _ := strings.Cut(before, "### The logs")
	for key := range statsJSON(t)["logs"].([]any)[0].(map[string]any) {
		if !strings.Contains(logs, "`"+key+"`") {
			t.Errorf("docs/stats.md does not explain the key %s of a log", key)
		}
	}
	_, table, _ := strings.Cut(before, "\n## The JSON")
	table, _, _ = strings.Cut(table, "\n### ")
	members := append(firstCells(table), stats.Names()...)
	slices.Sort(members)
	if diff := cmp.Diff(members, jsonMembers(t)); diff != "" {
		t.Errorf("members (-docs/stats.md +JSON):\n%s", diff)
	}
}

// jsonMembers are the members of the JSON of a log, sorted.
func jsonMembers(t *testing.T) (names []string) {
	t.Helper()
	for name := range statsJSON(t) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// statsJSON is the JSON of a log.
func statsJSON(t *testing.T, options ...string) map[string]any {
	t.Helper()
	var all map[string]any
	must.Do(t, json.Unmarshal([]byte(statsOf(t, append(options, "--format", "json")...)), &all))
	return all
}

// statsOf is what the command prints about a recording on a real GPU.
func statsOf(t *testing.T, options ...string) string {
	t.Helper()
	stdout, _ := succeed(t, append([]string{"stats", gpuLog}, options...)...)
	return stdout
}

// No line of text is longer than a terminal without a width, but for a command to paste.
func TestStatsWidth(t *testing.T) {
	t.Parallel()
	for i, log := range []string{gpuLog, filepath.Join(filepath.Dir(gpuLog), "train.cudatrace")} {
		stdout, _ := succeed(t, "stats", log, "--report", "all", "--top", "0")
		for line := range strings.Lines(stdout) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && !strings.HasPrefix(line, "     show ") {
				t.Errorf("log %d: %d characters: %s", i, n, line)
			}
		}
	}
}

// A folder of CSV has a file for each report, and replaces one of an earlier run.
func TestStatsCSVFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "reports")
	for _, reports := range []string{"waits", "kernels,copies"} {
		if got := statsOf(t, "--format", "csv", "--report", reports, "-o", folder); got != "" {
			t.Errorf("printed: %s", got)
		}
	}
	names := must.Get(filepath.Glob(filepath.Join(folder, "*")))(t)
	if len(names) != 2 || filepath.Base(names[0]) != "copies.csv" || filepath.Base(names[1]) != "kernels.csv" {
		t.Fatalf("files %q", names)
	}
	got, want := string(must.Get(os.ReadFile(names[1]))(t)), statsOf(t, "--format", "csv", "--report", "kernels")
	if got != want {
		t.Errorf("kernels.csv has %q, want %q", got, want)
	}
}

// What the options choose and order.
func TestStatsOptions(t *testing.T) {
	t.Parallel()
	names := func(options ...string) (list []string) {
		for _, row := range statsJSON(t, options...)["kernels"].([]any) {
			list = append(list, row.(map[string]any)["name"].(string))
		}
		return list
	}
	for options, want := range map[string][]string{
		"":                         {"reduce::blockSum", "axpy<float>", "addOne"},
		"--top 1":                  {"reduce::blockSum"},
		"--sort name":              {"addOne", "axpy<float>", "reduce::blockSum"},
		"--sort queue_median":      {"axpy<float>", "addOne", "reduce::blockSum"},
		"--sort queue_median_ns":   {"axpy<float>", "addOne", "reduce::blockSum"},
		"--name *axpy*":            {"axpy<float>"},
		"--min-duration 1500ns":    {"reduce::blockSum"},
		"--report kernels,waits":   {"reduce::blockSum", "axpy<float>", "addOne"},
		"--sort name --top 2":      {"addOne", "axpy<float>"},
		"--report kernels --top 0": {"reduce::blockSum", "axpy<float>", "addOne"},
	} {
		goldentest.Same(t, want, names(strings.Fields(options)...), "%s", options)
	}
	left := statsJSON(t, "--top", "1", "--report", "kernels")["left_out"].(map[string]any)
	goldentest.Same(t, map[string]any{"kernels": 2.0}, left, "left out")
	if got := statsOf(t, "--report", "kernels", "--format", "csv", "--top", "1"); !regexp.MustCompile(`^name,count,total_ns,[^\n]*\nreduce::blockSum,59,95872,[^\n]*\n$`).MatchString(got) {
		t.Errorf("CSV: %s", got)
	}
	if got := statsOf(t, "--report", "kernels", "--format", "markdown", "--top", "1"); !strings.Contains(got, "| `reduce::blockSum` | 59 | 95.9 µs |") ||
		!strings.Contains(got, "2 more rows are not shown") ||
		!strings.Contains(got, "start-up: 3 kernels, 4.19 µs more (--with-startup counts them)") {
		t.Errorf("Markdown: %s", got)
	}
}

// A report without rows says why.
func TestStatsReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sum       convert.Summary
		gpu, call string
	}{
		{convert.Summary{}, "", "callers were not recorded"},
		{convert.Summary{ProcessList: []convert.ProcessInfo{{CUPTI: "no libcupti"}}, Callers: &convert.Callers{}}, "GPU work was not recorded: no libcupti", ""},
		{convert.Summary{ProcessList: []convert.ProcessInfo{{}}, Callers: &convert.Callers{}}, "GPU work was not recorded", ""},
		{convert.Summary{ProcessList: []convert.ProcessInfo{{CUPTI: "on"}, {CUPTI: "no libcupti"}}, Callers: &convert.Callers{}}, "", ""},
		{convert.Summary{ProcessList: []convert.ProcessInfo{{}}, Kernels: 1, Callers: &convert.Callers{}}, "", ""},
	} {
		if f := statsFacts(make([]convert.Log, 1), []convert.Summary{c.sum}); f.GPU != c.gpu || f.Callers != c.call || f.Filtered {
			t.Errorf("%+v: %+v", c.sum, f)
		}
	}
	filtered := statsJSON(t, "--stream", "7")["reasons"].(map[string]any)
	if got, want := filtered["kernels"], "no kernels in the part that the filter selects"; got != want {
		t.Errorf("with a filter: %v, want %q", got, want)
	}
	reasons := statsJSON(t)["reasons"].(map[string]any)
	for report, want := range map[string]string{"callers": "callers were not recorded", "errors": "no failed calls", "nvtx": "no NVTX ranges or marks"} {
		if reasons[report] != want {
			t.Errorf("%s: %v, want %q", report, reasons[report], want)
		}
	}
}

// Of several ranks the tables have the reports of ranks, and standard error says which ranks are missing or end early.
func TestStatsOfRanks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name string, o logtest.Ranks) (paths []string) {
		for _, l := range logtest.WriteRanks(t, o) {
			if l.Rank == 2 {
				continue
			}
			path := filepath.Join(folder, fmt.Sprintf("%s%d.cudatrace", name, l.Rank))
			must.Do(t, os.WriteFile(path, l.Data, 0o600))
			paths = append(paths, path)
		}
		return paths
	}
	paths := write("rank", logtest.Ranks{Hosts: 2, PerHost: 2, Steps: 30, WallOff: 1e6, WallError: 2e6, Straggler: 1, Late: 4e6, NVTX: true, Run: "r1", Ends: map[int]int{3: 10}})
	old := write("old", logtest.Ranks{Hosts: 1, PerHost: 2, Steps: 30, WallOff: 1e6, WallError: 2e6, Straggler: -1, Run: "r0", Seed: 5})
	command := func(options ...string) (stdout, stderr string, code int) {
		var out, errs bytes.Buffer
		code = run(append(append([]string{"cudatrace", "stats"}, append(paths, old...)...), options...), &out, &errs)
		return out.String(), errs.String(), code
	}
	text, said, code := command("--step", "step")
	if code != exitFailure { // the log of rank 3 is cut off
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"\ncollectives: ", "\nranks: ", "steps on 3 ranks (from NVTX)", "rank 1 is 4.1 ms late"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "late_collectives: ") {
		t.Errorf("details that were not asked for: %s", text)
	}
	for _, want := range []string{"cudatrace: rank 2 of 4 is not among the logs\n", "before the others: rank 3\n", "/old0.cudatrace is of another run, r0: the others are of r1\n", "rank3.cudatrace is not complete: "} {
		if !strings.Contains(said, want) {
			t.Errorf("standard error lacks %q:\n%s", want, said)
		}
	}
	if _, said, _ = command("--ranks", "0-1"); strings.Contains(said, "not among") {
		t.Errorf("with a filter: %s", said)
	}
	if all := statsOf(t); strings.Contains(all, "collectives") || strings.Contains(all, "\nranks: ") {
		t.Errorf("without ranks:\n%s", all)
	}
	if got := run([]string{"cudatrace", "stats", gpuLog, "--step", "@d"}, io.Discard, io.Discard); got != exitUsage {
		t.Errorf("a step without a name: exit code %d", got)
	}
}

// Collectives that were not put together: the reason names logs that are damaged.
func TestStatsBrokenRanks(t *testing.T) {
	t.Parallel()
	pair := make([]string, 2)
	for i := range pair {
		data := must.Get(os.ReadFile(fmt.Sprintf("../../testdata/gpu/logs/nccl-rank%d.cudatrace", i)))(t)
		pair[i] = filepath.Join(t.TempDir(), fmt.Sprintf("rank%d.cudatrace", i))
		if i == 1 {
			data = data[:len(data)/3]
		}
		must.Do(t, os.WriteFile(pair[i], data, 0o644))
	}
	var stdout, stderr bytes.Buffer
	run([]string{"cudatrace", "stats", pair[0], pair[1], "--name", "*AllReduce*", "--report", "collectives", "--format", "json"}, &stdout, &stderr)
	got := stdout.String()
	want := "no collectives of NCCL that several ranks of the logs run together: rank 0 alone has any; a filter selects a part of the logs; " + pair[1] + " is damaged"
	if !strings.Contains(got, want) {
		t.Errorf("%s\nlacks %q", got, want)
	}
}

// A folder stands for its logs, and --wide and COLUMNS decide what has room.
func TestStatsWide(t *testing.T) {
	folder := filepath.Join(filepath.Dir(gpuLog), "conditional")
	output := func(words ...string) string {
		stdout, _ := succeed(t, append([]string{"stats", folder, "--report", "kernels,devices"}, words...)...)
		return stdout
	}
	if text := output(); strings.Contains(text, "occupancy") || !strings.Contains(text, "  384  ") {
		t.Errorf("without a width, of 384 kernels:\n%s", text)
	}
	if text := output("--wide"); !strings.Contains(text, "  occupancy\n") {
		t.Errorf("--wide:\n%s", text)
	}
	t.Setenv("COLUMNS", "60")
	for line := range strings.Lines(output()) {
		if len([]rune(line)) > 61 {
			t.Errorf("COLUMNS=60: %q", line)
		}
	}
}

// The query of each finding runs, and shows rows of the reports that it names.
func TestQueriesOfFindings(t *testing.T) {
	t.Parallel()
	logs := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join("..", "..", "testdata", "gpu", "logs", name+".cudatrace"))
		}
		return paths
	}
	output := func(words ...string) string {
		stdout, _ := succeed(t, append([]string{"stats"}, words...)...)
		return stdout
	}
	for _, paths := range [][]string{logs("train"), logs("nccl-rank0", "nccl-rank1")} {
		var all struct {
			Findings []struct{ Name, Query string }
		}
		must.Do(t, json.Unmarshal([]byte(output(append(slices.Clone(paths), "--format", "json")...)), &all))
		if len(all.Findings) < 2 {
			t.Fatalf("findings %v", all.Findings)
		}
		for _, f := range all.Findings {
			words := strings.Fields(f.Query)
			text := output(words[2:]...)
			for _, report := range strings.Split(words[3+len(paths)], ",") {
				if !strings.Contains(text, report+": ") || strings.Contains(text, report+": no ") {
					t.Errorf("%s: %s\n%s", f.Name, f.Query, text)
				}
			}
		}
	}
}
