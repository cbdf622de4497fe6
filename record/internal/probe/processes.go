package probe

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Attach probes the CUDA libraries that a process has mapped by now, in that process alone. A
// second call adds the libraries that the process has mapped since. It skips functions that a
// library lacks.
//
// If some functions or libraries cannot be probed, the error says so, and the Attachment lists
// the others.
func (p *Prober) Attach(pid int) (Attachment, error) { return p.attach(pid, false) }

// AttachSparing is Attach for a process whose calls of Options.Spared somebody else records: these functions have the
// probes that are left of them, also in libraries that the process maps later, until Complete.
func (p *Prober) AttachSparing(pid int) (Attachment, error) { return p.attach(pid, true) }

// Examine reads the files that a process has mapped, so that Attach finds them read. Attach returns the errors.
func (p *Prober) Examine(pid int) {
	mappings, err := procfs.CodeFiles(pid)
	if err != nil || p.options.probesNothing() {
		return
	}
	for _, m := range mappings {
		if l, err := p.finder.open(pid, m); err == nil && l != nil {
			l.Close()
		}
	}
}

func (p *Prober) attach(pid int, sparing bool) (Attachment, error) {
	p.events.decoder.heed(uint32(pid))
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.renew(pid); err != nil {
		return Attachment{PID: pid}, err
	}
	if err := p.releaseEnded(); err != nil {
		return Attachment{PID: pid}, err
	}
	proc, err := p.target(pid)
	if err != nil {
		return Attachment{PID: pid}, err
	}
	if p.options.probesNothing() {
		return proc.attachment(pid), nil
	}
	mappings, err := procfs.CodeFiles(pid)
	if err != nil {
		return Attachment{PID: pid}, err
	}
	p.exits.prepareLibc(pid, mappings)
	proc.spares = proc.spares || sparing
	proc.forgetFailures()
	for _, file := range proc.files {
		file.library.New = false
	}
	err = errors.Join(p.probe(pid, proc, proc.newFiles(mappings)), p.retryLaunches(pid, proc, mappings))
	return proc.attachment(pid), err
}

// target makes the eBPF program record a process.
func (p *Prober) target(pid int) (*probedProcess, error) {
	if proc := p.byPID[pid]; proc != nil {
		return proc, nil
	}
	place, err := p.callers.begin(uint32(pid))
	if err == nil {
		err = p.program.maps.targets.Put(uint32(pid), bpf.ProbesTarget{Place: place})
	}
	if err != nil {
		p.callers.end(uint32(pid))
		return nil, fmt.Errorf("too many processes are being recorded: %w", err)
	}
	if err := p.exits.awaitEnd(pid); err != nil {
		return nil, errors.Join(err, p.forget(pid))
	}
	p.byPID[pid] = newProcess()
	return p.byPID[pid], nil
}

// probe probes the CUDA libraries among newly mapped files.
func (p *Prober) probe(pid int, proc *probedProcess, files []procfs.Mapping) error {
	var libraries []*libraryFile
	launched, _, err := p.hasLaunched(pid)
	errs := []error{err}
	hasRuntime := proc.hasRuntime()
	for _, m := range files {
		l, err := p.finder.open(pid, m)
		errs = append(errs, err)
		proc.looked[m.File] = err == nil
		if l != nil {
			defer l.Close()
			libraries = append(libraries, l)
			hasRuntime = hasRuntime || l.functions != nil && l.side == cudaapi.Runtime
		}
	}
	for _, l := range libraries {
		err := p.attachOthers(pid, proc, l)
		if !p.options.OnlyOfFiles {
			err = errors.Join(err, p.attachLibrary(pid, proc, l, hasRuntime, launched))
		}
		errs = append(errs, err)
		proc.looked[l.id] = err == nil
	}
	for _, m := range files {
		p.attachFunctionsOf(pid, proc, m)
	}
	if hasRuntime {
		for _, file := range proc.files {
			errs = append(errs, file.dropFallback())
		}
	}
	return errors.Join(errs...)
}

// has reports whether a process is being probed.
func (p *Prober) has(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byPID[pid] != nil
}

// detachAll removes the probes from every process.
func (p *Prober) detachAll() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.detach(p.known()...)
}

// releaseEnded removes the probes from processes that have ended, to make room for others.
func (p *Prober) releaseEnded() error {
	ended := slices.DeleteFunc(p.known(), func(pid int) bool { return !p.exits.ended(pid) })
	if len(ended) == 0 {
		return nil
	}
	return p.detach(ended...)
}

// known lists the processes that are probed or watched.
func (p *Prober) known() []int {
	return slices.AppendSeq(p.exits.watched(), maps.Keys(p.byPID))
}

// detach removes the probes from processes, all at the same time. It does not wait for the
// probes of ended processes: none of their code can run, so they go in any order.
func (p *Prober) detach(pids ...int) error {
	var errs []error
	var live, dead []io.Closer
	for _, pid := range pids {
		probes, err := p.release(pid)
		errs = append(errs, err)
		if p.exits.ended(pid) {
			dead = append(dead, singly(probes)...)
		} else {
			live = append(live, probes...)
		}
	}
	if len(dead) > 0 {
		p.background.close(dead...)
	}
	return errors.Join(append(errs, closeTogether(live))...)
}

// release removes a process from all tables and returns its probes.
func (p *Prober) release(pid int) ([]io.Closer, error) {
	var probes []io.Closer
	libc, err := p.exits.unwatch(pid)
	if libc != nil {
		probes = append(probes, libc)
	}
	proc := p.byPID[pid]
	if proc == nil {
		return probes, err
	}
	delete(p.byPID, pid)
	return append(probes, proc.probes()...), errors.Join(err, p.forget(pid))
}

// forget ends the recording of a process by the eBPF program.
func (p *Prober) forget(pid int) error {
	err := p.program.maps.targets.Delete(uint32(pid))
	p.callers.end(uint32(pid))
	return err
}
