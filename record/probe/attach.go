package probe

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/probe/cudalib"
	"github.com/cudatrace/cudatrace/record/probe/recipe"
	"github.com/cudatrace/cudatrace/record/probe/uprobe"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// An attacher probes the functions of a table in libraries.
type attacher struct {
	mode     uprobe.Mode
	programs uprobe.Programs
	list     *ebpf.Program
	table    *recipe.Table
	clients  bool // also probe the function by which clients register with CUPTI
	ranges   bool // also probe the injected library's functions for NVTX ranges
}

// attachLibrary probes a library of the runtime or the driver, unless it is probed already.
func (a *attacher) attachLibrary(pid int, proc *process, l *cudalib.File, hasRuntime, launched bool) error {
	if l.Functions == nil || proc.files[l.ID] != nil {
		return nil
	}
	file := &probedFile{library: Library{Path: l.Path, Side: l.Side, New: true}}
	var err error
	file.probes, err = a.attachFunctions(l, a.choose(l, file, false), pid, file)
	if !hasRuntime && err == nil {
		file.fallback, err = a.attachFunctions(l, a.choose(l, file, true), pid, file)
	}
	if l.Side == cudaapi.Runtime && !launched && err == nil {
		file.launches, err = a.attachLaunches(l, pid)
	}
	if err != nil {
		return errors.Join(uprobe.AttachError(l.Path, err), uprobe.InOrder(file.all()).Close())
	}
	proc.files[l.ID] = file
	proc.order = append(proc.order, l.ID)
	return nil
}

// choose picks the functions to probe in a library, one per address: some functions have
// several names. With fallback it picks the functions that are probed only in a process without
// a runtime.
func (a *attacher) choose(l *cudalib.File, file *probedFile, fallback bool) []*cudaapi.Function {
	taken := map[uint64]bool{}
	var chosen []*cudaapi.Function
	for _, f := range inTableOrder(l.Functions, a.table.Function) {
		offset := l.Functions[f.Name]
		if f.Fallback == fallback && !taken[offset] {
			taken[offset] = true
			chosen = append(chosen, f)
		}
	}
	if a.mode == uprobe.Single {
		return withinLimit(chosen, &file.library)
	}
	return chosen
}

// inTableOrder lists the functions that a library defines and the table has.
func inTableOrder(defined map[string]uint64, table func(name string) *cudaapi.Function) []*cudaapi.Function {
	var found []*cudaapi.Function
	for name := range defined {
		if f := table(name); f != nil {
			found = append(found, f)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].ID < found[j].ID })
	return found
}

// attachFunctions probes functions of a library, all at once. If the kernel refuses that, it
// probes them one by one, to find those that cannot be probed. It returns nil if there are no
// functions.
func (a *attacher) attachFunctions(l *cudalib.File, functions []*cudaapi.Function, pid int, file *probedFile) (io.Closer, error) {
	if len(functions) == 0 {
		return nil, nil
	}
	sites := make([]uprobe.Site, len(functions))
	for i, f := range functions {
		sites[i] = uprobe.Site{Cookie: a.table.Cookie(uint32(f.ID)), Offset: l.Functions[f.Name]}
	}
	probes, err := a.attach(l, sites, pid)
	if err == nil {
		file.library.Functions = append(file.library.Functions, functions...)
		return probes, nil
	}
	if uprobe.Fatal(err) {
		return nil, err
	}
	return a.attachSingly(l, functions, sites, pid, file)
}

func (a *attacher) attachSingly(l *cudalib.File, functions []*cudaapi.Function, sites []uprobe.Site, pid int, file *probedFile) (io.Closer, error) {
	var probes uprobe.InOrder
	var lastErr error
	for i, f := range functions {
		one, err := a.attach(l, sites[i:i+1], pid)
		if err != nil {
			lastErr = err
			file.library.Refused = append(file.library.Refused, fmt.Sprintf("%s (%v)", f.Name, err))
			continue
		}
		probes = append(probes, one)
		file.library.Functions = append(file.library.Functions, f)
	}
	if len(probes) == 0 {
		return nil, lastErr
	}
	return probes, nil
}

// attach probes sites in the file that was examined, even if the file's path leads to another
// file by now.
func (a *attacher) attach(l *cudalib.File, sites []uprobe.Site, pid int) (io.Closer, error) {
	return uprobe.Attach(a.mode, a.programs, procfs.OpenFile(l.File), sites, pid)
}

// attachLinker probes the function of the dynamic linker that tells of changes to its list of libraries, if the file
// has it and it is not probed already.
func (a *attacher) attachLinker(pid int, proc *process, l *cudalib.File) error {
	if l.ListChanges == 0 || proc.linkers[l.ID] != nil {
		return nil
	}
	site := uprobe.Site{Offset: l.ListChanges, Cookie: l.List}
	probes, err := uprobe.AttachEntries(a.mode, a.list, procfs.OpenFile(l.File), []uprobe.Site{site}, pid)
	if err != nil {
		return uprobe.AttachError(l.Path, err)
	}
	proc.linkers[l.ID] = probes
	return nil
}

// attachClients probes the function by which clients register with CUPTI, if the file has it
// and it is not probed already.
func (a *attacher) attachClients(pid int, proc *process, l *cudalib.File) error {
	if l.Registration == 0 || !a.clients || proc.clients[l.ID] != nil {
		return nil
	}
	probes, err := a.attach(l, []uprobe.Site{{Cookie: a.table.Cookie(recipe.CUPTIClient), Offset: l.Registration}}, pid)
	if err != nil {
		return uprobe.AttachError(l.Path, err)
	}
	proc.clients[l.ID] = probes
	return nil
}

// attachRanges probes the functions by which the injected library begins and ends recording, if the
// file has them and they are not probed already.
func (a *attacher) attachRanges(pid int, proc *process, l *cudalib.File) error {
	if l.RangeBegins == 0 || l.RangeEnds == 0 || !a.ranges || proc.ranges[l.ID] != nil {
		return nil
	}
	probes, err := a.attach(l, []uprobe.Site{
		{Cookie: a.table.Cookie(recipe.RangeBegins), Offset: l.RangeBegins},
		{Cookie: a.table.Cookie(recipe.RangeEnds), Offset: l.RangeEnds},
	}, pid)
	if err != nil {
		return uprobe.AttachError(l.Path, err)
	}
	proc.ranges[l.ID] = probes
	return nil
}
