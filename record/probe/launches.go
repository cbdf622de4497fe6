package probe

import (
	"errors"
	"fmt"
	"io"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Launches are probed at the driver, which a launch that the runtime refuses may never reach. So the launches of a
// process's runtimes are probed as well, and recorded where they fail, until the first launch of its program reaches
// the driver. The eBPF program decides: it records a refused launch that began before that moment, and no later one.
// The probes go soon afterwards.

// attachLaunches probes the launches of a runtime.
func (p *Prober) attachLaunches(l *libraryFile, pid int) (io.Closer, error) {
	return p.attachFunctions(l, inTableOrder(l.functions, p.table.launches), pid, &probedFile{})
}

// hasLaunched returns whether a launch of a process's program has reached the driver, and the number of the runtime's
// launches that are open and began before that.
func (p *Prober) hasLaunched(pid int) (launched bool, open uint32, err error) {
	var t bpf.ProbesTarget
	if err := p.program.maps.targets.Lookup(uint32(pid), &t); err != nil {
		return false, 0, fmt.Errorf("the launches of process %d are not known: %w", pid, err)
	}
	return t.Launched != 0, t.Trying, nil
}

// retryLaunches probes the launches of the runtimes that a process's program before had mapped, too, and whose
// launches are not probed any more.
func (p *Prober) retryLaunches(pid int, proc *process, mappings []procfs.Mapping) error {
	launched, _, err := p.hasLaunched(pid)
	if err != nil || launched {
		return err
	}
	var errs []error
	for _, m := range mappings {
		file := proc.files[m.File]
		if file != nil && file.library.Side == cudaapi.Runtime && file.launches == nil {
			errs = append(errs, p.openLaunches(pid, m, file))
		}
	}
	return errors.Join(errs...)
}

func (p *Prober) openLaunches(pid int, m procfs.Mapping, file *probedFile) error {
	l, err := p.finder.open(pid, m)
	if err != nil || l == nil {
		return err
	}
	defer l.Close()
	file.launches, err = p.attachLaunches(l, pid)
	return err
}

// releaseLaunches removes the probes on the runtime's launches from processes that have launched. It does not wait
// for the probes to be gone, nor for processes that are being probed. awaited reports whether some process may not
// have launched yet.
func (p *Prober) releaseLaunches() (awaited bool) {
	if !p.mu.TryLock() {
		return true
	}
	defer p.mu.Unlock()
	for pid, proc := range p.byPID {
		probes := proc.launchProbes()
		if len(probes) == 0 {
			continue
		}
		if launched, open, err := p.hasLaunched(pid); err != nil || !launched || open > 0 {
			awaited = true
			continue
		}
		p.background.close(probes...)
		for _, file := range proc.files {
			file.launches = nil
		}
	}
	return awaited
}

// launchProbes lists the probes on the launches of a process's runtimes.
func (proc *process) launchProbes() (probes []io.Closer) {
	for _, file := range proc.files {
		if file.launches != nil {
			probes = append(probes, file.launches)
		}
	}
	return probes
}
