package probe

import (
	"testing"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/must"
)

// execs makes the target run its program again, by the thread that runs a scenario or by another.
func (t *target) execs(scenario string) {
	t.tb.Helper()
	t.begin(scenario, 0)
	if line := t.line(); line != "ready" {
		t.tb.Fatal(line)
	}
}

// A process that runs another program keeps its probes, whichever thread makes it do so, and each call is
// recorded once.
func TestExec(t *testing.T) {
	looks := map[string]func(t *testing.T, p *Prober, target *target, late bool){
		"attach": func(t *testing.T, p *Prober, target *target, _ bool) { attach(t, p, target) },
		"rescan": func(t *testing.T, p *Prober, target *target, bare bool) {
			starting.RLock()
			defer starting.RUnlock()
			if e, err := p.Renew(target.pid); err != nil || e.Bare != bare || e.Time == 0 {
				t.Errorf("seen: %+v, %v; want bare: %v", e, err, bare)
			}
			if e, err := p.Renew(target.pid); err != nil || e.Time != 0 {
				t.Errorf("seen again: %+v, %v", e, err)
			}
			rescan(t, p, target, bare)
		},
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, m attachMode) {
				p, target := open(t, Options{mode: m, Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "driver")
				attach(t, p, target)
				target.run("launches", 3)
				for range 2 {
					target.execs("again-by-thread")
					look(t, p, target, true)
					target.run("launches", 50)
					target.execs("again")
					look(t, p, target, false)
					target.run("launches", 700)
				}
				r := finish(t, p)
				if n := len(r.calls); n != 1503 {
					t.Errorf("%d calls of 1503", n)
				}
			})
		})
	}
}

// A thread that made calls and then runs a program leaves no slot behind, as often as it happens.
func TestSlotsAfterExec(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "driver")
	for range 4 {
		attach(t, p, target)
		target.run("launches", 2)
		target.begin("again-by-thread", 3)
		if line := target.line(); line != "ready" {
			t.Fatal(line)
		}
	}
	attach(t, p, target)
	r := &recorder{}
	must.Do(t, p.events.drain(r))
	must.Do(t, p.events.deliverOpenCalls(isReplaced(p.takeReplaced()), p.program.maps.threads, r))
	if threads := p.events.store.threads(); len(threads) > 1 || len(r.calls) != 20 {
		t.Errorf("slots of threads %v, want that of the first alone; %d calls of 20", threads, len(r.calls))
	}
}

// The range that is recorded ends with the program that began it.
func TestCaptureRangeAfterExec(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"again", "again-by-thread"} {
		p, target := open(t, Options{Functions: launchesOnly(t), CaptureRange: true}), startTarget(t, "driver")
		attach(t, p, target)
		target.run("begins", 7)
		target.execs(again)
		attach(t, p, target)
		target.run("launches", 100)
		target.run("range", 10)
		if r := finish(t, p); len(r.calls) != 27 {
			t.Errorf("%s: %d calls, want the 7 before the exec and the 20 in the range after it", again, len(r.calls))
		}
	}
}
