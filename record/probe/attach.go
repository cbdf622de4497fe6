package probe

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// An Attachment says what is probed in a process.
type Attachment struct {
	PID       int
	Libraries []Library // in the order of the process's mappings; empty when it has no CUDA library yet
}

// Has says whether a side of the API is there.
func (a Attachment) Has(side cudaapi.Library) bool {
	return slices.ContainsFunc(a.Libraries, func(l Library) bool { return l.Side == side })
}

// A process is one that is being probed.
type process struct {
	files map[fileID]*probedFile
	order []fileID
}

// A probedFile holds the links of a library. Those on functions that are probed only
// for want of a runtime are apart, as they go when one appears.
type probedFile struct {
	library  Library
	links    []io.Closer
	fallback []io.Closer
}

// Attach probes the CUDA libraries that a process has mapped by now, in that process
// alone. Called again, it adds what the process has mapped since. A function that a
// library lacks is passed over.
//
// The returned Attachment is right also when there is an error: the error then says
// what could not be probed.
func (p *Prober) Attach(pid int) (Attachment, error) {
	p.attached.Lock()
	defer p.attached.Unlock()
	if err := checkNamespace(pid); err != nil {
		return Attachment{PID: pid}, err
	}
	mappings, err := readMappings(pid)
	if err != nil {
		return Attachment{PID: pid}, err
	}
	if err := p.maps.Targets.Put(uint32(pid), uint32(1)); err != nil {
		return Attachment{PID: pid}, fmt.Errorf("too many processes are being recorded: %w", err)
	}
	proc := p.processes[pid]
	if proc == nil {
		proc = &process{files: map[fileID]*probedFile{}}
		p.processes[pid] = proc
	}
	err = p.attachAll(pid, proc, mappings)
	return proc.attachment(pid), err
}

func (p *Prober) attachAll(pid int, proc *process, mappings []mapping) error {
	var errs []error
	var libraries []*openLibrary
	hasRuntime := false
	for _, m := range mappings {
		l, err := p.libraryOf(pid, m)
		errs = append(errs, err)
		if l != nil {
			defer l.file.Close()
			libraries = append(libraries, l)
			hasRuntime = hasRuntime || l.side == cudaapi.Runtime
		}
	}
	for _, file := range proc.files {
		file.library.New = false
	}
	for _, l := range libraries {
		errs = append(errs, p.attachLibrary(pid, proc, l, hasRuntime))
	}
	return errors.Join(errs...)
}

// attachLibrary probes a library that is new, and drops the fallback probes of a
// known one when there is a runtime now.
func (p *Prober) attachLibrary(pid int, proc *process, l *openLibrary, hasRuntime bool) error {
	if known := proc.files[l.id]; known != nil {
		if hasRuntime {
			return known.dropFallback()
		}
		return nil
	}
	file := &probedFile{library: Library{Path: l.path, Side: l.side, New: true}}
	own := p.choose(l, func(f *cudaapi.Function) bool { return !f.Fallback })
	links, err := p.attachFunctions(l, own, pid, file)
	file.links = links
	if !hasRuntime && err == nil {
		instead := p.choose(l, func(f *cudaapi.Function) bool { return f.Fallback })
		file.fallback, err = p.attachFunctions(l, instead, pid, file)
	}
	if err != nil {
		return errors.Join(p.attachError(l.path, err), closeAll(file.links), closeAll(file.fallback))
	}
	proc.files[l.id] = file
	proc.order = append(proc.order, l.id)
	return nil
}

// attachFunctions probes functions of a library, all at once if the kernel takes
// them so, else one by one to find those that it can't probe.
func (p *Prober) attachFunctions(l *openLibrary, functions []*cudaapi.Function, pid int, file *probedFile) ([]io.Closer, error) {
	if len(functions) == 0 {
		return nil, nil
	}
	sites := make([]site, len(functions))
	for i, f := range functions {
		sites[i] = site{cookie: uint64(f.ID), offset: l.symbols[f.Name]}
	}
	links, err := p.attachSites(l.attachPath(), sites, pid)
	if err == nil {
		file.library.Functions = append(file.library.Functions, functions...)
		return links, nil
	}
	if fatal(err) {
		return nil, err
	}
	return p.attachSingly(l, functions, sites, pid, file)
}

func (p *Prober) attachSingly(l *openLibrary, functions []*cudaapi.Function, sites []site, pid int, file *probedFile) ([]io.Closer, error) {
	var links []io.Closer
	var lastErr error
	for i, f := range functions {
		one, err := p.attachSites(l.attachPath(), sites[i:i+1], pid)
		if err != nil {
			lastErr = err
			file.library.Refused = append(file.library.Refused, fmt.Sprintf("%s (%v)", f.Name, err))
			continue
		}
		links = append(links, one...)
		file.library.Functions = append(file.library.Functions, f)
	}
	if len(links) == 0 {
		return nil, lastErr
	}
	return links, nil
}

// fatal errors concern the process or our rights, not a single function.
func fatal(err error) bool {
	return isPermission(err) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENOMEM)
}

func (p *Prober) attachError(path string, err error) error {
	switch {
	case isPermission(err):
		return &PermissionError{Missing: missingCapabilities(), cause: err}
	case errors.Is(err, syscall.ESRCH), errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the process has ended before probes were on %s: %w", path, os.ErrNotExist)
	}
	return fmt.Errorf("no probes on %s: %w", path, err)
}

func (file *probedFile) dropFallback() error {
	if file.fallback == nil {
		return nil
	}
	err := closeAll(file.fallback)
	file.fallback = nil
	file.library.New = true
	file.library.Functions = slices.DeleteFunc(file.library.Functions, func(f *cudaapi.Function) bool { return f.Fallback })
	return err
}

func (proc *process) attachment(pid int) Attachment {
	a := Attachment{PID: pid}
	for _, id := range proc.order {
		l := proc.files[id].library
		l.Functions = slices.Clone(l.Functions)
		a.Libraries = append(a.Libraries, l)
	}
	return a
}

// Detach removes the probes from a process. Calls that are open then are delivered
// by Unfinished.
func (p *Prober) Detach(pid int) error {
	p.attached.Lock()
	defer p.attached.Unlock()
	return p.detach(pid)
}

func (p *Prober) detachAll() error {
	p.attached.Lock()
	defer p.attached.Unlock()
	return p.detach(slices.Collect(maps.Keys(p.processes))...)
}

// detach closes the links of all libraries at once, as for each the kernel waits
// until no CPU runs a probe any more, and the waits can overlap.
func (p *Prober) detach(pids ...int) error {
	var errs []error
	var closing sync.WaitGroup
	results := make(chan error)
	for _, pid := range pids {
		proc := p.processes[pid]
		if proc == nil {
			continue
		}
		delete(p.processes, pid)
		errs = append(errs, p.maps.Targets.Delete(uint32(pid)))
		for _, file := range proc.files {
			closing.Go(func() { results <- errors.Join(closeAll(file.links), closeAll(file.fallback)) })
		}
	}
	go func() { closing.Wait(); close(results) }()
	for err := range results {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func closeAll(links []io.Closer) error {
	var err error
	for _, l := range links {
		err = errors.Join(err, l.Close())
	}
	return err
}

func statOf(info os.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// checkNamespace refuses a process whose ids the recorder would not recognise: inside
// a PID namespace of its own the recorder can translate its own namespace's ids only.
func checkNamespace(pid int) error {
	_, _, nested := ownPIDNamespace()
	if !nested {
		return nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return processError(pid, err)
	}
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok && len(strings.Fields(ids)) > 1 {
			return fmt.Errorf("process %d is in a container of its own inside this one: run cudatrace on the host or in that container", pid)
		}
	}
	return nil
}
