package main

import (
	"io"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// TestSummaryWords: the time is that of CUDA, beside all; failed calls are named; one thing is not
// many.
func TestSummaryWords(t *testing.T) {
	t.Parallel()
	s := convert.Summary{
		Kernels: 1, Copies: 1, Memsets: 1, StreamCount: 1, Calls: 1234, ThreadCount: 1, Failed: 7,
		CUDANS: 36_400_000, DurationNS: 709_900_000, Complete: true,
		Errors: map[string]uint64{"a: x": 1, "b: x": 2, "c: x": 1000, "d: x": 1, "e: x": 1, "f: x": 1, "g: x": 1},
	}
	if got, want := headline(s), "1 kernel, 1 copy, 1 memset on 1 stream, 1,234 calls on 1 thread in 36.4 ms of CUDA, 709.9 ms in all"; got != want {
		t.Errorf("headline %q, want %q", got, want)
	}
	if got, want := outcome(s), "nothing lost, 7 calls failed"; got != want {
		t.Errorf("outcome %q, want %q", got, want)
	}
	if got, want := failures(s), "c: x (1,000 calls), b: x (2 calls), a: x (1 call), d: x (1 call), e: x (1 call), and 2 other errors"; got != want {
		t.Errorf("failures %q, want %q", got, want)
	}
	s.Errors = map[string]uint64{"cudaMalloc: cudaErrorMemoryAllocation": 1}
	if got, want := failures(s), "cudaMalloc: cudaErrorMemoryAllocation (1 call)"; got != want {
		t.Errorf("failures %q, want %q", got, want)
	}
}

// TestRemedies: a remedy names a value that is larger than the one that the recording had.
func TestRemedies(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		"":                                  "raise --memory-limit (256M)",
		"--calls cupti --memory-limit 1M":   "raise --memory-limit (4M)",
		"--memory-limit 512M --run x":       "raise --memory-limit (2G)",
		"--memory-limit":                    "raise --memory-limit (256M)",
		"--memory-limit 1T --call-buffer 1": "raise --memory-limit (1T)",
	} {
		got := remedies(convert.Summary{Options: options, Lost: map[string]uint64{tracelog.LostCUPTIBuffer: 1}})
		if len(got) != 1 || !strings.HasSuffix(got[0], want) {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}

// A trace that the UI does not load is said to be one, with a command that helps.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	if got := tooLarge(convert.UISlices, "a.cudatrace"); got != "" {
		t.Errorf("what the UI takes: %s", got)
	}
	const want = "4,000,001 slices are more than Perfetto's UI takes, about 4,000,000: 'cudatrace convert a.cudatrace --max-slices 4M' keeps the newest, --split 20M makes several traces"
	if got := tooLarge(convert.UISlices+1, "a.cudatrace"); got != want {
		t.Errorf("one more: %s", got)
	}
	var out strings.Builder
	printSummary(console.New(io.Discard, &out), convert.Summary{Slices: 5_000_000}, [][]string{{"GPU busy", "all \x1b the time"}}, []madeFile{{path: "a.pftrace"}, {path: "a.cudatrace"}})
	if !strings.Contains(out.String(), "\n  GPU busy   all \\u001b the time\n") || !strings.Contains(out.String(), "\n  size: 5,000,000 slices are more") || !strings.Contains(out.String(), "convert a.cudatrace ") || !strings.Contains(out.String(), ", 5,000,000 slices ") {
		t.Errorf("the summary of a recording:\n%s", out.String())
	}
}

// TestCostOfPart has logs that lack calls that were recorded: their cost is the least.
func TestCostOfPart(t *testing.T) {
	const whole = "about 2.0 ms for 4,000 probed calls, 1.0 ms in CUPTI"
	const part = "at least 2.0 ms for 4,000 probed calls in the log, 1.0 ms in CUPTI"
	for want, list := range map[string][]convert.Summary{
		whole: {{}, {Lost: map[string]uint64{tracelog.LostStrings: 1}}},
		part:  {{Damaged: true}, {Last: &convert.Last{}}, {Lost: map[string]uint64{tracelog.LostLogWrite: 1}}, {Lost: map[string]uint64{tracelog.LostCallBuffer: 1}}},
	} {
		for _, s := range list {
			s.ProbesNS, s.Pairs, s.OverheadNS = 2_000_000, 4_000, 1_000_000
			if got := cost(s); got != want {
				t.Errorf("%+v: %s", s, got)
			}
		}
	}
	if got := cost(convert.Summary{Damaged: true}); got != "" {
		t.Errorf("of an empty log: %s", got)
	}
}

// TestDiedOfWholeGraphs has processes that ended by SIGSEGV, and by something else, with and without records of whole graphs.
func TestDiedOfWholeGraphs(t *testing.T) {
	const segv = "signal 11 (SIGSEGV), core dumped"
	for _, c := range []struct {
		options, ended string
		want           int
	}{
		{"--graphs whole", segv, 1},
		{"--calls cupti --graphs whole --gpu all", segv, 1},
		{"--graphs nodes", segv, 0},
		{"", segv, 0},
		{"--graphs whole", "signal 6 (SIGABRT)", 0},
		{"--graphs whole", "exit code 11", 0},
	} {
		s := convert.Summary{Options: c.options, ProcessList: []convert.ProcessInfo{{}, {Ended: c.ended}}}
		if got := remedies(s); len(got) != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
