package probe

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// launchesOnly is a choice of functions that leaves out those that are probed for
// what they do.
func launchesOnly(t *testing.T) []*cudaapi.Function {
	t.Helper()
	f := cudaapi.ByName("cuLaunchKernel")
	if f == nil {
		t.Fatal("cuLaunchKernel is not in the table")
	}
	return []*cudaapi.Function{f}
}

func TestCaptureRange(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Functions: launchesOnly(t), CaptureRange: true}), startTarget(t, "driver")
	attach(t, p, target)
	target.run("range", 10)
	target.run("range", 10)
	r := finish(t, p)
	if len(r.calls) != 40 {
		t.Errorf("%d calls, want the 20 in each range and none of the calls that bound it", len(r.calls))
	}
}

// Each process has its own range. The calls that bound it are outside, the driver's
// within the runtime's.
func TestCaptureRangeOfProcesses(t *testing.T) {
	t.Parallel()
	p, a, b := open(t, Options{CaptureRange: true}), startTarget(t, "shared"), startTarget(t, "driver")
	attach(t, p, a)
	attach(t, p, b)
	a.run("runtime-range", 10)
	b.run("launches", 5)
	r := finish(t, p)
	names := map[string]int{}
	for _, c := range r.calls {
		names[functionOf(c).Name]++
		if c.PID != uint32(a.pid) || c.Flags != 0 {
			t.Errorf("call %+v", c)
		}
	}
	if diff := gocmp.Diff(map[string]int{"cuLaunchKernel": 20}, names); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestPause(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p, target := open(t, Options{mode: m, Paused: true}), startTarget(t, "driver")
		attach(t, p, target)
		target.run("launches", 1)
		for _, step := range []struct {
			change func() error
			n      int
		}{{p.Resume, 10}, {p.Pause, 100}, {p.Resume, 1000}} {
			must.Do(t, step.change())
			target.run("launches", step.n)
		}
		if r := finish(t, p); len(r.calls) != 1010 || len(r.threads) != 1 {
			t.Errorf("%d calls, want 1010, of threads %+v", len(r.calls), r.threads)
		}
	})
}

// A call is recorded when it begins while recording is on, whatever is on when it ends.
func TestPauseInsideOfCalls(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p, target := open(t, Options{mode: m}), startTarget(t, "driver")
		attach(t, p, target)
		for i, change := range []func() error{p.Pause, p.Resume, p.Pause} {
			target.begin("asks", 100+i)
			if line := target.line(); line != "inside" {
				t.Fatal(line)
			}
			must.Do(t, change())
			target.begin("", 0) // what the call waits for
			if line := target.line(); line != "done" {
				t.Fatal(line)
			}
			target.run("jumps", 3)
		}
		r := finish(t, p)
		var grids []uint64
		for _, c := range r.named("cuLaunchKernel") {
			if c.Args[1] >= 100 {
				grids = append(grids, c.Args[1])
				if c.Flags != 0 || c.Dur == 0 {
					t.Errorf("call %+v", c)
				}
			}
		}
		slices.Sort(grids) // calls may arrive in any order
		if diff := gocmp.Diff([]uint64{100, 102}, grids); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if n := r.count("cuLaunchKernel", tracelog.CallNoReturn); n != 3 {
			t.Errorf("%d calls left by longjmp while recording, want 3", n)
		}
	})
}

// An open call that is not wanted is not delivered at the end either.
func TestPausedUnfinished(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		p, target := open(t, Options{Paused: true, CaptureRange: true, Symbols: true}), startTarget(t, "driver")
		attach(t, p, target)
		target.run("waiting", 3)
		if killed {
			target.kill()
		}
		if r := finish(t, p); len(r.calls)+len(r.threads) != 0 {
			t.Errorf("%+v %+v", r.calls, r.threads)
		}
	}
}

// Names come with the handles, also while recording is paused, and calls only when
// they were asked for.
func TestSymbols(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p, target := open(t, Options{mode: m, Functions: launchesOnly(t), Symbols: true, Paused: true}), startTarget(t, "driver")
		attach(t, p, target)
		for _, length := range []int{1, 511, 512, 4095, 4096, 8192} {
			target.run("symbols", length)
			r := &recorder{}
			if err := p.Drain(r); len(r.calls) != 0 || err != nil {
				t.Fatalf("calls that were not asked for: %+v (%v)", r.calls, err)
			}
			want := []tracelog.Symbol{
				{Handle: 0x10000 + '_', Name: "_Z3addPi"},
				{Handle: 0x10000 + '_' + 1000, Of: 0x10000 + '_'},
				{Handle: 0x20000 + 'x', Name: strings.Repeat("x", min(length, bpf.MaxName-1))},
			}
			slices.SortFunc(r.symbols, func(a, b tracelog.Symbol) int { return cmp.Compare(a.Time, b.Time) })
			for i := range r.symbols {
				if r.symbols[i].PID != uint32(target.pid) || r.symbols[i].Time == 0 {
					t.Errorf("symbol %+v", r.symbols[i])
				}
				r.symbols[i].PID, r.symbols[i].Time = 0, 0
			}
			if diff := gocmp.Diff(want, r.symbols); diff != "" {
				t.Errorf("length %d (-want +got):\n%s", length, diff)
			}
		}
		if n, err := p.CutNames(); n != 2 || err != nil {
			t.Errorf("%d names were cut, want 2 (%v)", n, err)
		}
	})
}

// What names a kernel is recorded as a call too when it is asked for.
func TestSymbolCalls(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Symbols: true}), startTarget(t, "driver")
	attach(t, p, target)
	target.run("symbols", 9)
	r := finish(t, p)
	if len(r.symbols) != 3 || r.count("cuModuleGetFunction", 0) != 3 || r.count("cuKernelGetFunction", 0) != 1 {
		t.Errorf("%d symbols, calls %+v", len(r.symbols), r.calls)
	}
	for _, c := range r.named("cuModuleGetFunction") {
		if c.Ret != 0 && c.Args[0] != 0 {
			t.Errorf("a failed call made a handle: %+v", c)
		}
	}
}

// TestCUPTIClient sees who registers with a CUPTI that is mapped when Attach is called.
func TestCUPTIClient(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var requests []uint64
	p := open(t, Options{Functions: launchesOnly(t), OnCUPTIClient: func(_ uint32, request, _ uint64) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, request)
	}})
	target := startTarget(t, "driver")
	attach(t, p, target)
	target.run("registers", 100) // maps the library
	attach(t, p, target)
	attach(t, p, target) // again: nothing new
	target.run("registers", 200)
	finish(t, p)
	mu.Lock()
	defer mu.Unlock()
	if len(requests) != 1 || requests[0] != 200 {
		t.Errorf("registrations %v, want [200]", requests)
	}
}
