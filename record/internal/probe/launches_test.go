package probe

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// refusedLaunches lists the refused launches that were recorded by their shared memory, a number of their own.
func (r *recorder) refusedLaunches() []string {
	var all []string
	for _, c := range r.byEntry() {
		if functionOf(c).Name == "cudaLaunchKernel" {
			all = append(all, fmt.Sprintf("%d: error %d", args(c)["shared"], c.Ret))
		}
	}
	return all
}

// A launch that the runtime refuses is recorded if it began before the first launch of the program reached the driver,
// however late it ends and however long the runtime's launches are probed. So it is with the next program.
func TestRefusedLaunches(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"again", "again-by-thread"} {
		p, target := open(t, Options{Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "shared")
		attach(t, p, target)
		for range 2 {
			target.run("refused", 3)
			target.run("hold", 7)
			if !p.releaseLaunches() {
				t.Error("no launch is waited for before the first one")
			}
			target.run("launches", 1)
			if !p.releaseLaunches() {
				t.Error("the probes go while a launch is open that began before")
			}
			target.run("refused", 100)
			target.run("release", 0)
			if p.releaseLaunches() {
				t.Error("a launch is waited for when it has reached the driver")
			}
			target.run("refused", 100)
			target.execs(again)
			attach(t, p, target)
		}
		r := finish(t, p)
		one := []string{"0: error 98", "1: error 98", "2: error 98", "7: error 98"}
		goldentest.Same(t, append(one, one...), r.refusedLaunches(), "%s: refused launches", again)
	}
}

// A launch that is not recorded reaches the driver, too.
func TestRefusedLaunchesOutsideRange(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Functions: cudaapi.Functions(cudaapi.Minimal), CaptureRange: true}), startTarget(t, "shared")
	attach(t, p, target)
	target.run("begins", 0)
	target.run("refused", 2)
	target.run("ends", 0)
	target.run("launches", 1)
	if p.releaseLaunches() {
		t.Error("a launch is waited for although one has reached the driver")
	}
	target.run("begins", 0)
	target.run("refused", 5)
	r := finish(t, p)
	if diff := cmp.Diff([]string{"0: error 98", "1: error 98"}, r.refusedLaunches()); diff != "" || len(r.calls) != 2 {
		t.Errorf("%d calls; refused launches (-want +got):\n%s", len(r.calls), diff)
	}
}

// Of launches of graphs the entry is recorded, until whole calls are. No launch is missing when these take over, and
// where both are recorded, the entry comes first.
func TestEntriesLeft(t *testing.T) {
	t.Parallel()
	for try := range 20 {
		entries, whole := completeGraphs(t)
		t.Logf("%d entries, %d whole calls", entries, whole)
		if entries > 3 && whole > 0 {
			return
		}
		t.Logf("try %d: the program launched nothing before or nothing after", try)
	}
	t.Error("no call was in progress while all were probed")
}

// completeGraphs probes launches of graphs in full while a program makes them: it returns how many have their entry alone.
func completeGraphs(t *testing.T) (entries, whole int) {
	t.Helper()
	functions := cudaapi.Functions(cudaapi.Minimal)
	p, target := open(t, Options{Functions: functions, Spared: functions}), startTarget(t, "shared")
	must.Get(p.AttachSparing(target.pid))(t)
	target.run("graphs", 3)
	const most = 20_000
	target.begin("graphs", most)
	time.Sleep(20 * time.Millisecond)
	must.Do(t, p.Complete(target.pid))
	for line := ""; line != "done"; {
		line = target.line()
	}
	r := finish(t, p)
	next := uint64(0)
	for i, c := range r.byEntry() {
		switch {
		case c.Flags == tracelog.CallEntry && c.Dur == 0:
			entries++
		case c.Flags == 0 && c.Dur > 0:
			whole++
		default:
			t.Fatalf("launch %d has flags %d and %d ns", i, c.Flags, c.Dur)
		}
		if i < 3 {
			if c.Args[0] != uint64(i) || c.Flags != tracelog.CallEntry {
				t.Errorf("launch %d of graph %d has flags %d", i, c.Args[0], c.Flags)
			}
			continue
		}
		if c.Args[0] != next {
			t.Fatalf("launch %d instead of %d", c.Args[0], next)
		}
		next++
	}
	if next != most {
		t.Errorf("%d launches", next)
	}
	return entries, whole
}

// Functions that are spared have no probes until they are asked for, those that look up handles among them, and the runtime's
// launches are released all the same: their failures are recorded before the first launch reaches the driver.
func TestSpared(t *testing.T) {
	t.Parallel()
	functions := cudaapi.Functions(cudaapi.Minimal)
	spared := append(slices.Clone(functions), cudaapi.ByName("cuKernelGetFunction"))
	p, target := open(t, Options{Functions: functions, Spared: spared, Symbols: true}), startTarget(t, "shared")
	must.Get(p.AttachSparing(target.pid))(t)
	target.run("symbols", 1)
	target.run("refused", 3)
	if !p.releaseLaunches() {
		t.Error("no launch is waited for before the first one")
	}
	target.run("launches", 10)
	if p.releaseLaunches() {
		t.Error("a launch is waited for when it has reached the driver")
	}
	must.Do(t, p.Complete(target.pid))
	target.run("symbols", 1)
	target.run("launches", 4)
	r := finish(t, p)
	var handles []uint64
	for _, s := range r.symbols {
		handles = append(handles, s.Of)
	}
	if want := []uint64{0, 0, 0, 0x10000 + '_', 0}; !slices.Equal(handles, want) {
		t.Errorf("symbols of handles %#x, want %#x", handles, want)
	}
	launches := 0
	for _, c := range r.calls {
		if functionOf(c).Name == "cuLaunchKernel" {
			launches++
		}
	}
	if refused := r.refusedLaunches(); launches != 4 || len(refused) != 3 {
		t.Errorf("%d launches, refused %q", launches, refused)
	}
}
