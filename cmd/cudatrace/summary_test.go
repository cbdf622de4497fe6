package main

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/collective"
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
	of := func(slices uint64, f convert.Filter) string {
		s := convert.Summary{Slices: slices, DurationNS: 150e9, CUDANS: 60e9, AfterNS: 30e9} // and as long before
		return tooLarge([]convert.Summary{s}, f, "a.cudatrace")
	}
	if got := of(convert.UISlices, convert.Filter{}); got != "" {
		t.Errorf("what the UI takes: %s", got)
	}
	const want = "5,000,000 slices are more than Perfetto's UI takes, about 4,000,000; "
	for text, f := range map[string]convert.Filter{
		"to keep the newest: cudatrace convert a.cudatrace --from 'last 78s'":              {Last: time.Minute},
		"choose a shorter time (--from, --to), or only what takes longer (--min-duration)": {To: time.Minute},
	} {
		if got := of(5_000_000, f); got != want+text {
			t.Errorf("more, %+v: %s", f, got)
		}
	}
	var out strings.Builder
	printSummary(console.New(io.Discard, &out), convert.Summary{Slices: 5_000_000}, firstLook{Busy: "3 %", Finding: "slow \x1b", Try: "faster"}, []madeFile{{path: "a.pftrace"}, {path: "a.cudatrace"}})
	if !strings.Contains(out.String(), "\n  GPU busy: 3 %\n  look first: slow \\u001b\n  try: faster\n") || !strings.Contains(out.String(), "\n  size: 5,000,000 slices are more") || !strings.Contains(out.String(), "convert a.cudatrace ") || !strings.Contains(out.String(), ", 5,000,000 slices\n") {
		t.Errorf("the summary of a recording:\n%s", out.String())
	}
}

// TestRemediesNameOptions: what a loss advises can be done.
func TestRemediesNameOptions(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, f := range recordFlags() {
		if f.(cli.VisibleFlag).IsVisible() {
			known["--"+f.Names()[0]] = true
		}
	}
	for cause, remedy := range remedyOf {
		for _, option := range regexp.MustCompile("--[a-z-]+").FindAllString(remedy, -1) {
			if !known[option] {
				t.Errorf("%s: record has no %s", cause, option)
			}
		}
	}
}

// What a conversion says of the collectives in its trace.
func TestCollectivesWords(t *testing.T) {
	t.Parallel()
	if got, want := collectives(&collective.Shown{Communicators: 1, Collectives: 2}, true), "2 collectives of NCCL in 1 communicator: in the part that is shown ranks waited for the last one 0 times"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for want, f := range map[string]*collective.Shown{
		"": nil,
		"1 collective of NCCL in 1 communicator: ranks waited for the last one 1 time": {Communicators: 1, Collectives: 1, Waits: 1},
		"1,200 collectives of NCCL in 3 communicators: ranks waited for the last one 3,000 times, of which 1 has no arrow: the clocks of their hosts may be wrong by more than the wait": {
			Communicators: 3, Collectives: 1200, Waits: 3000, Doubtful: 1},
		"9,000 collectives of NCCL in 1 communicator: ranks waited for the last one 0 times; the oldest 5,000 collectives are without arrows: they are too many": {
			Communicators: 1, Collectives: 9000, Untold: 5000},
		"4 kernels send and receive, and have no arrows: nothing tells which belong together":                                                                               {Sends: 4},
		"1 collective of NCCL in 1 communicator: ranks waited for the last one 1 time; 1 kernel sends and receives, and has no arrows: nothing tells which belong together": {Communicators: 1, Collectives: 1, Waits: 1, Sends: 1},
	} {
		if got := collectives(f, false); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}
