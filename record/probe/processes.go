package probe

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/probe/cudalib"
	"github.com/cudatrace/cudatrace/record/probe/eventstore"
	"github.com/cudatrace/cudatrace/record/probe/exits"
	"github.com/cudatrace/cudatrace/record/probe/recipe"
	"github.com/cudatrace/cudatrace/record/probe/uprobe"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// processes is the table of probed processes.
type processes struct {
	targets    *ebpf.Map // the processes that the eBPF program records
	exits      *exits.Watcher
	finder     cudalib.Finder
	attacher   attacher
	background backgroundCloser
	callers    *eventstore.Callers

	mu       sync.Mutex
	byPID    map[int]*process
	replaced []uint32 // see takeReplaced
}

func newProcesses(program *loadedProgram, table *recipe.Table, x *exits.Watcher, c *eventstore.Callers) *processes {
	return &processes{
		targets: program.maps.targets, exits: x, callers: c, byPID: map[int]*process{},
		attacher: attacher{mode: program.mode, programs: program.calls, list: program.list, table: table},
	}
}

// Attach probes the CUDA libraries that a process has mapped by now, in that process alone. A
// second call adds the libraries that the process has mapped since. It skips functions that a
// library lacks.
//
// If some functions or libraries cannot be probed, the error says so, and the Attachment lists
// the others.
func (p *Prober) Attach(pid int) (Attachment, error) {
	p.events.decoder.Heed(uint32(pid))
	return p.processes.attach(pid)
}

func (ps *processes) attach(pid int) (Attachment, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if _, err := ps.renew(pid); err != nil {
		return Attachment{PID: pid}, err
	}
	mappings, err := procfs.CodeFiles(pid)
	if err != nil {
		return Attachment{PID: pid}, err
	}
	if err := ps.releaseEnded(); err != nil {
		return Attachment{PID: pid}, err
	}
	proc, err := ps.target(pid)
	if err != nil {
		return Attachment{PID: pid}, err
	}
	ps.exits.PrepareLibc(pid, mappings)
	proc.forgetFailures()
	for _, file := range proc.files {
		file.library.New = false
	}
	err = errors.Join(ps.probe(pid, proc, proc.newFiles(mappings)), ps.retryLaunches(pid, proc, mappings))
	return proc.attachment(pid), err
}

// target makes the eBPF program record a process.
func (ps *processes) target(pid int) (*process, error) {
	if proc := ps.byPID[pid]; proc != nil {
		return proc, nil
	}
	place, err := ps.callers.Begin(uint32(pid))
	if err == nil {
		err = ps.targets.Put(uint32(pid), bpf.ProbesTarget{Place: place})
	}
	if err != nil {
		ps.callers.End(uint32(pid))
		return nil, fmt.Errorf("too many processes are being recorded: %w", err)
	}
	if err := ps.exits.Begin(pid); err != nil {
		return nil, errors.Join(err, ps.forget(pid))
	}
	ps.byPID[pid] = newProcess()
	return ps.byPID[pid], nil
}

// probe probes the CUDA libraries among newly mapped files.
func (ps *processes) probe(pid int, proc *process, files []procfs.Mapping) error {
	var libraries []*cudalib.File
	launched, _, err := ps.hasLaunched(pid)
	errs := []error{err}
	hasRuntime := proc.hasRuntime()
	for _, m := range files {
		l, err := ps.finder.Open(pid, m)
		errs = append(errs, err)
		proc.looked[m.File] = err == nil
		if l != nil {
			defer l.Close()
			libraries = append(libraries, l)
			hasRuntime = hasRuntime || l.Functions != nil && l.Side == cudaapi.Runtime
		}
	}
	for _, l := range libraries {
		err := errors.Join(ps.attacher.attachLinker(pid, proc, l), ps.attacher.attachClients(pid, proc, l),
			ps.attacher.attachRanges(pid, proc, l), ps.attacher.attachLibrary(pid, proc, l, hasRuntime, launched))
		errs = append(errs, err)
		proc.looked[l.ID] = err == nil
	}
	if hasRuntime {
		for _, file := range proc.files {
			errs = append(errs, file.dropFallback())
		}
	}
	return errors.Join(errs...)
}

// has says whether a process is being probed.
func (ps *processes) has(pid int) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byPID[pid] != nil
}

// detachAll removes the probes from every process.
func (ps *processes) detachAll() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.detach(ps.known()...)
}

// forgetEnded removes the probes from processes that have ended, to make room for others.
func (ps *processes) forgetEnded() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.releaseEnded()
}

func (ps *processes) releaseEnded() error {
	ended := slices.DeleteFunc(ps.known(), func(pid int) bool { return !ps.exits.Ended(pid) })
	if len(ended) == 0 {
		return nil
	}
	return ps.detach(ended...)
}

// known lists the processes that are probed or watched.
func (ps *processes) known() []int {
	return slices.AppendSeq(ps.exits.Watched(), maps.Keys(ps.byPID))
}

// detach removes the probes from processes, all at the same time. It does not wait for the
// probes of ended processes: none of their code can run.
func (ps *processes) detach(pids ...int) error {
	var errs []error
	var live, dead []io.Closer
	for _, pid := range pids {
		probes, err := ps.release(pid)
		errs = append(errs, err)
		if ps.exits.Ended(pid) {
			dead = append(dead, probes...)
		} else {
			live = append(live, probes...)
		}
	}
	if len(dead) > 0 {
		ps.background.close(dead...)
	}
	return errors.Join(append(errs, uprobe.CloseTogether(live))...)
}

// release removes a process from all tables and returns its probes.
func (ps *processes) release(pid int) ([]io.Closer, error) {
	var probes []io.Closer
	libc, err := ps.exits.Unwatch(pid)
	if libc != nil {
		probes = append(probes, libc)
	}
	proc := ps.byPID[pid]
	if proc == nil {
		return probes, err
	}
	delete(ps.byPID, pid)
	return append(probes, proc.probes()...), errors.Join(err, ps.forget(pid))
}

// forget ends the recording of a process by the eBPF program.
func (ps *processes) forget(pid int) error {
	err := ps.targets.Delete(uint32(pid))
	ps.callers.End(uint32(pid))
	return err
}
