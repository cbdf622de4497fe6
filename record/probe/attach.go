package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/procfs"
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
	files   map[procfs.FileID]*probedFile
	order   []procfs.FileID
	watches map[procfs.FileID][]io.Closer // on CUPTI itself
	// seen is the files mapped at the last look, false for those that could not be
	// examined.
	seen map[procfs.FileID]bool
	code codeSize
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
	mappings, err := procfs.CodeFiles(pid)
	if err != nil {
		return Attachment{PID: pid}, err
	}
	if err := p.releaseEnded(); err != nil {
		return Attachment{PID: pid}, err
	}
	p.calibrating.CompareAndSwap(uint32(pid), 0) // the number is another process's now
	proc := p.processes[pid]
	if proc == nil {
		if err := p.maps.Targets.Put(uint32(pid), uint32(0)); err != nil {
			return Attachment{PID: pid}, fmt.Errorf("too many processes are being recorded: %w", err)
		}
		if err := p.noteEnd(pid); err != nil {
			return Attachment{PID: pid}, errors.Join(err, p.maps.Targets.Delete(uint32(pid)))
		}
		proc = &process{files: map[procfs.FileID]*probedFile{}, watches: map[procfs.FileID][]io.Closer{}}
		p.processes[pid] = proc
	}
	p.prepareLibc(pid, mappings)
	proc.forgetFailures()
	for _, file := range proc.files {
		file.library.New = false
	}
	err = p.attachAll(pid, proc, proc.unseen(mappings))
	return proc.attachment(pid), err
}

// attachAll probes what there is to probe in files that are new.
func (p *Prober) attachAll(pid int, proc *process, fresh []procfs.Mapping) error {
	var errs []error
	var libraries []*openLibrary
	hasRuntime := proc.hasRuntime()
	for _, m := range fresh {
		l, err := p.libraryOf(pid, m)
		errs = append(errs, err)
		proc.seen[m.File] = err == nil
		if l != nil {
			defer l.file.Close()
			libraries = append(libraries, l)
			hasRuntime = hasRuntime || l.symbols != nil && l.side == cudaapi.Runtime
		}
	}
	for _, l := range libraries {
		err := errors.Join(p.attachWatch(pid, proc, l), p.attachLibrary(pid, proc, l, hasRuntime))
		errs = append(errs, err)
		proc.seen[l.id] = err == nil
	}
	if hasRuntime {
		for _, file := range proc.files {
			errs = append(errs, file.dropFallback())
		}
	}
	return errors.Join(errs...)
}

func (proc *process) hasRuntime() bool {
	for _, file := range proc.files {
		if file.library.Side == cudaapi.Runtime {
			return true
		}
	}
	return false
}

// attachLibrary probes a library, if it is one and new.
func (p *Prober) attachLibrary(pid int, proc *process, l *openLibrary, hasRuntime bool) error {
	if l.symbols == nil || proc.files[l.id] != nil {
		return nil
	}
	file := &probedFile{library: Library{Path: l.path, Side: l.side, New: true}}
	own := p.withinLimit(p.choose(l, func(f *cudaapi.Function) bool { return !f.Fallback }), file)
	links, err := p.attachFunctions(l, own, pid, file)
	file.links = links
	if !hasRuntime && err == nil {
		instead := p.withinLimit(p.choose(l, func(f *cudaapi.Function) bool { return f.Fallback }), file)
		file.fallback, err = p.attachFunctions(l, instead, pid, file)
	}
	if err != nil {
		return errors.Join(p.attachError(l.path, err), inOrder(file.links).Close(), inOrder(file.fallback).Close())
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
		sites[i] = site{cookie: p.cookie(uint32(f.ID)), offset: l.symbols[f.Name]}
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
	err := inOrder(file.fallback).Close()
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
