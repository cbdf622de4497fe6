package probe

import (
	"errors"
	"io"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/probe/cudalib"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Launches are probed at the driver, which those that the runtime refuses never reach. A
// launchState says whether the launches of a process's runtimes are probed, too. Where they are,
// those that fail are recorded.
type launchState uint8

const (
	launchesUntried launchState = iota // no launch has reached the driver yet: probed
	launchesWork                       // one has: not probed
	launchesRefused                    // the runtime has refused one: probed
)

// ProbeLaunches is called for a process in which the runtime has refused a launch. From now on
// refused launches are recorded.
func (p *Prober) ProbeLaunches(pid int) error { return p.processes.probeLaunches(pid, launchesRefused) }

// RetryLaunches is called for a process that runs a new program, whose launches may be refused like
// those of any other: the probes are as before the first launch.
func (p *Prober) RetryLaunches(pid int) error { return p.processes.probeLaunches(pid, launchesUntried) }

// ReleaseLaunches is called for a process in which a launch has reached the driver: it removes
// the probes from the runtime's launches, unless the runtime has refused one. It does not wait
// for the probes to be gone.
func (p *Prober) ReleaseLaunches(pid int) { p.processes.releaseLaunches(pid) }

func (ps *processes) probeLaunches(pid int, state launchState) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	proc := ps.byPID[pid]
	if proc == nil {
		return nil
	}
	proc.launches = state
	mappings, err := procfs.CodeFiles(pid)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mappings {
		file := proc.files[m.File]
		if file != nil && file.library.Side == cudaapi.Runtime && file.launches == nil {
			errs = append(errs, ps.openLaunches(pid, m, file))
		}
	}
	return errors.Join(errs...)
}

func (ps *processes) openLaunches(pid int, m procfs.Mapping, file *probedFile) error {
	l, err := ps.finder.Open(pid, m)
	if err != nil || l == nil {
		return err
	}
	defer l.Close()
	file.launches, err = ps.attacher.attachLaunches(l, pid)
	return err
}

// attachLaunches probes the launches of a runtime.
func (a *attacher) attachLaunches(l *cudalib.File, pid int) (io.Closer, error) {
	return a.attachFunctions(l, inTableOrder(l.Functions, a.table.Launch), pid, &probedFile{})
}

func (ps *processes) releaseLaunches(pid int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	proc := ps.byPID[pid]
	if proc == nil || proc.launches != launchesUntried {
		return
	}
	proc.launches = launchesWork
	for _, file := range proc.files {
		if file.launches != nil {
			ps.background.close(file.launches)
			file.launches = nil
		}
	}
}

// tryLaunches says whether launches of any process are probed at the runtime until one reaches the driver. It
// does not wait for processes that are being probed.
func (ps *processes) tryLaunches() bool {
	if !ps.mu.TryLock() {
		return true
	}
	defer ps.mu.Unlock()
	for _, proc := range ps.byPID {
		if proc.launches != launchesUntried {
			continue
		}
		for _, file := range proc.files {
			if file.launches != nil {
				return true
			}
		}
	}
	return false
}
