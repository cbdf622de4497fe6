package record

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/probe"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// refusals says which processes have their launches recorded at the runtime, too: the driver never
// sees a launch that the runtime refuses. So it is until a launch of the process reaches the driver, and
// again from the first refused launch on that is noticed.
type refusals struct {
	report *report
	prober *probe.Prober // nil where CUPTI records calls

	programs atomic.Uint32 // programs that have begun
	mu       sync.Mutex
	began    map[uint32]uint64 // when the program of a process did, ns, by PID
	working  map[uint32]bool   // processes in which a launch has reached the driver, by PID
	refusing map[uint32]bool   // processes in which the runtime has refused a launch, by PID
}

func newRefusals(r *report) *refusals {
	return &refusals{report: r, began: map[uint32]uint64{}, working: map[uint32]bool{}, refusing: map[uint32]bool{}}
}

// begin is called when a process runs a new program, after its libraries were probed.
func (r *refusals) begin(pid uint32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.working[pid] || r.refusing[pid]
	delete(r.working, pid)
	delete(r.refusing, pid)
	r.began[pid] = host.Monotonic()
	r.programs.Add(1)
	if !known || r.prober == nil {
		return nil
	}
	return r.prober.RetryLaunches(int(pid))
}

// reached is called for a launch that has reached the driver. It returns false for one of the program
// before. The log's lock is held.
func (r *refusals) reached(c *tracelog.Call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Enter < r.began[c.PID] {
		return false
	}
	if !r.working[c.PID] {
		r.working[c.PID] = true
		go r.prober.ReleaseLaunches(int(c.PID))
	}
	return true
}

// probe is called for a driver call that failed in a launch of the runtime, where calls are probed.
func (r *refusals) probe(pid uint32, launch string) {
	r.record(pid, launch, func() error { return r.prober.ProbeLaunches(int(pid)) })
}

// record has refused launches of a process recorded from its first one on: the runtime refuses those of
// the same kernel that follow without asking the driver.
func (r *refusals) record(pid uint32, launch string, start func() error) {
	r.mu.Lock()
	known, missing := r.refusing[pid], r.working[pid] || r.prober == nil
	r.refusing[pid] = true
	r.mu.Unlock()
	if known {
		return
	}
	text := fmt.Sprintf("process %d: the runtime refused a launch (%s); ", pid, launch)
	switch err := start(); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		r.report.miss(pid, fmt.Sprintf("%sfurther ones are not recorded: %v", text, err))
	case missing:
		r.report.miss(pid, text+"further ones until now may be missing, from now on they are recorded")
	}
}

// driverLaunches are the functions of the driver that launch one kernel.
var driverLaunches = func() map[cudaapi.ID]bool {
	found := map[cudaapi.ID]bool{}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		if f.Library == cudaapi.Driver && cudaapi.TraitsOf(f.Name).Launches {
			found[f.ID] = true
		}
	}
	return found
}()
