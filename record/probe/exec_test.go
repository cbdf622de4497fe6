package probe

import (
	"errors"
	"testing"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/probe/uprobe"
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
		"rescan": func(t *testing.T, p *Prober, target *target, late bool) {
			if _, err := p.Rescan(target.pid); errors.Is(err, ErrBare) != late || err != nil && !late {
				t.Errorf("calls may be missing: %v; said: %v", late, err)
			}
		},
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, m uprobe.Mode) {
				p, target := open(t, Options{Mode: m, Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "driver")
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

// Where the runtime's launches are no longer probed, another thread's exec does not change that.
func TestLaunchesAfterExec(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "shared")
	attach(t, p, target)
	if !p.processes.tryLaunches() {
		t.Fatal("the runtime's launches are not probed at first")
	}
	p.ReleaseLaunches(target.pid)
	target.execs("again-by-thread")
	if _, err := p.Rescan(target.pid); !errors.Is(err, ErrBare) {
		t.Error(err)
	}
	for _, file := range p.processes.byPID[target.pid].files {
		if file.launches != nil {
			t.Errorf("launches are probed at the runtime again: %+v", file.library)
		}
	}
}
