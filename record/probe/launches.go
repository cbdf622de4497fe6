package probe

import (
	"errors"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// ProbeLaunches probes the launches of the runtimes that an attached process has mapped, too.
// Launches are probed at the driver, which those that the runtime refuses never reach.
func (p *Prober) ProbeLaunches(pid int) error { return p.processes.probeLaunches(pid) }

func (ps *processes) probeLaunches(pid int) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	proc := ps.byPID[pid]
	if proc == nil {
		return nil
	}
	mappings, err := procfs.CodeFiles(pid)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mappings {
		file := proc.files[m.File]
		if file != nil && file.library.Side == cudaapi.Runtime && file.launches == nil {
			errs = append(errs, ps.attachLaunches(pid, m, file))
		}
	}
	return errors.Join(errs...)
}

func (ps *processes) attachLaunches(pid int, m procfs.Mapping, file *probedFile) error {
	l, err := ps.finder.Open(pid, m)
	if err != nil || l == nil {
		return err
	}
	defer l.Close()
	launches := inTableOrder(l.Functions, ps.attacher.table.Launch)
	file.launches, err = ps.attacher.attachFunctions(l, launches, pid, file)
	return err
}
