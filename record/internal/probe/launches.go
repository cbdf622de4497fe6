package probe

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Launches are probed at the driver, which a launch that the runtime refuses may never reach. So the launches of a
// process's runtimes are probed as well, and recorded where they fail, until the first launch of its program reaches
// the driver. The eBPF program decides: it records a refused launch that began before that moment, and no later one.
// The probes go soon afterwards.

// attachLaunches probes the launches of a runtime. Return probes would hide who calls from CUPTI's callback, so that
// functions whose return instructions are not known are left out where others are: __cudaLaunchKernel jumps to one of
// these.
func (p *Prober) attachLaunches(l *libraryFile, pid int) (io.Closer, error) {
	launches := inTableOrder(l.functions, p.table.launches)
	known := slices.DeleteFunc(slices.Clone(launches), func(f *cudaapi.Function) bool {
		return len(l.returns[l.functions[f.Name]]) == 0
	})
	if len(known) > 0 {
		launches = known
	}
	return p.attachFunctions(l, launches, pid, &probedFile{})
}

// attachSigns probes the launches of the driver where their calls are not recorded. It probes their return
// instructions, since at their entries the return probes of others, for other processes, would hide who calls.
func (p *Prober) attachSigns(l *libraryFile, pid int) (io.Closer, error) {
	var sites []probeSite
	for _, f := range inTableOrder(l.functions, p.table.names) {
		if launchesAtDriver(f) {
			at := l.returns[l.functions[f.Name]]
			if len(at) == 0 {
				at = []uint64{l.functions[f.Name]}
			}
			for _, offset := range at {
				sites = append(sites, p.site(l, signFunction, offset))
			}
		}
	}
	return p.attachAlone(l, sites, pid)
}

// attachAlone runs the program for calls at sites that have no probe for an end. It returns nil if there are none.
func (p *Prober) attachAlone(l *libraryFile, sites []probeSite, pid int) (io.Closer, error) {
	if len(sites) == 0 {
		return nil, nil
	}
	return attachHere(p.program.calls, procfs.OpenFile(l.File), sites, pid)
}

// Complete probes the functions that AttachSparing has spared. The probes that were left of them go last, so that no
// call has none.
func (p *Prober) Complete(pid int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	proc := p.byPID[pid]
	if proc == nil || !proc.spares {
		return nil
	}
	proc.spares = false
	mappings, err := procfs.CodeFiles(pid)
	errs := []error{err}
	for _, m := range mappings {
		if file := proc.files[m.File]; file != nil && file.library.Side == cudaapi.Driver && file.spared == nil {
			errs = append(errs, p.reopen(pid, m, func(l *libraryFile) (err error) {
				spared, _ := p.divide(p.choose(l, file, false))
				file.spared, err = p.attachFunctions(l, spared, pid, file)
				if err == nil && file.entries != nil {
					p.background.close(file.entries)
					file.entries = nil
				}
				return err
			}))
		}
	}
	return errors.Join(errs...)
}

// reopen adds probes to a library that has some.
func (p *Prober) reopen(pid int, m procfs.Mapping, attach func(*libraryFile) error) error {
	l, err := p.finder.open(pid, m)
	if err != nil || l == nil {
		return err
	}
	defer l.Close()
	return attach(l)
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

// retryLaunches probes the launches of the runtimes, and of the driver where they are spared, that a process's program
// before had mapped, too, and whose launches are not probed any more.
func (p *Prober) retryLaunches(pid int, proc *probedProcess, mappings []procfs.Mapping) error {
	launched, _, err := p.hasLaunched(pid)
	if err != nil || launched {
		return err
	}
	var errs []error
	for _, m := range mappings {
		switch file := proc.files[m.File]; {
		case file == nil:
		case file.library.Side == cudaapi.Runtime && file.launches == nil:
			errs = append(errs, p.reopen(pid, m, func(l *libraryFile) (err error) {
				file.launches, err = p.attachLaunches(l, pid)
				return err
			}))
		case file.library.Side == cudaapi.Driver && proc.spares && file.signs == nil && len(p.options.Spared) > 0:
			errs = append(errs, p.reopen(pid, m, func(l *libraryFile) (err error) {
				file.signs, err = p.attachSigns(l, pid)
				return err
			}))
		}
	}
	return errors.Join(errs...)
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
			file.launches, file.signs = nil, nil
		}
	}
	return awaited
}

// launchProbes lists the probes of a process that wait for its first launch.
func (proc *probedProcess) launchProbes() (probes []io.Closer) {
	for _, file := range proc.files {
		for _, probe := range []io.Closer{file.launches, file.signs} {
			if probe != nil {
				probes = append(probes, probe)
			}
		}
	}
	return probes
}
