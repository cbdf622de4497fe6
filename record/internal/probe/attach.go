package probe

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// attachLibrary probes a library of the runtime or the driver, unless it is probed already.
func (p *Prober) attachLibrary(pid int, proc *probedProcess, l *libraryFile, hasRuntime, launched bool) error {
	if l.functions == nil || proc.files[l.id] != nil {
		return nil
	}
	file := &probedFile{library: Library{Path: l.path, Side: l.side, New: true}}
	spared, chosen := p.divide(p.choose(l, file, false))
	var err error
	file.probes, err = p.attachFunctions(l, chosen, pid, file)
	switch {
	case err != nil || len(spared) == 0:
	case !proc.spares:
		file.spared, err = p.attachFunctions(l, spared, pid, file)
	default:
		file.entries, err = p.attachLeft(l, spared, pid, file)
		if !launched && err == nil {
			file.signs, err = p.attachSigns(l, pid)
		}
	}
	if !hasRuntime && err == nil {
		file.fallback, err = p.attachFunctions(l, p.choose(l, file, true), pid, file)
	}
	if l.side == cudaapi.Runtime && !launched && err == nil {
		file.launches, err = p.attachLaunches(l, pid)
	}
	if err != nil {
		return errors.Join(attachError(l.path, err), closeInOrder(file.all()).Close())
	}
	proc.files[l.id] = file
	proc.order = append(proc.order, l.id)
	return nil
}

// choose picks the functions to probe in a library, one per address: some functions have
// several names. With fallback it picks the functions that are probed only in a process without
// a runtime.
func (p *Prober) choose(l *libraryFile, file *probedFile, fallback bool) []*cudaapi.Function {
	taken := map[uint64]bool{}
	var chosen []*cudaapi.Function
	for _, f := range inTableOrder(l.functions, p.table.names) {
		offset := l.functions[f.Name]
		if f.Fallback == fallback && !taken[offset] {
			taken[offset] = true
			chosen = append(chosen, f)
		}
	}
	if p.program.mode == modeSingle {
		return withinLimit(chosen, &file.library)
	}
	return chosen
}

// divide separates Options.Spared from the other functions.
func (p *Prober) divide(functions []*cudaapi.Function) (spared, others []*cudaapi.Function) {
	for _, f := range functions {
		if slices.ContainsFunc(p.options.Spared, func(s *cudaapi.Function) bool { return s.ID == f.ID }) {
			spared = append(spared, f)
		} else {
			others = append(others, f)
		}
	}
	return spared, others
}

// attachLeft probes the entries of those of Options.Spared whose arguments nobody else records. Without them the calls
// are recorded all the same.
func (p *Prober) attachLeft(l *libraryFile, spared []*cudaapi.Function, pid int, file *probedFile) (io.Closer, error) {
	var sites []probeSite
	var names []string
	for _, f := range spared {
		if f.Sources().Left == cudaapi.EntryProbe {
			site := p.site(l, uint32(f.ID), l.functions[f.Name])
			site.cookie |= bpf.CookieAlone
			sites, names = append(sites, site), append(names, f.Name)
		}
	}
	entries, err := p.attachAlone(l, sites, pid)
	if err != nil && !isFatal(err) {
		file.library.Refused = append(file.library.Refused, fmt.Sprintf("%s (%v)", strings.Join(names, ", "), err))
		return nil, nil
	}
	return entries, err
}

// inTableOrder lists the functions of a table that a library defines.
func inTableOrder(defined map[string]uint64, bySymbol map[string]*cudaapi.Function) []*cudaapi.Function {
	var found []*cudaapi.Function
	for symbol := range defined {
		if f := bySymbol[symbol]; f != nil {
			found = append(found, f)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].ID < found[j].ID })
	return found
}

// attachFunctions probes functions of a library, as far as the kernel can. It returns nil if there are no functions.
func (p *Prober) attachFunctions(l *libraryFile, functions []*cudaapi.Function, pid int, file *probedFile) (io.Closer,
	error) {
	if len(functions) == 0 {
		return nil, nil
	}
	sites := make([]probeSite, len(functions))
	for i, f := range functions {
		sites[i] = p.site(l, uint32(f.ID), l.functions[f.Name])
		// The runtime's launches, which are probed until the first one has reached the driver, keep no return probe: the
		// injected library looks up their stacks.
		if f.Sources().End == cudaapi.ByReturnProbe && p.table.launches[f.Name] == nil {
			sites[i].returns = nil
		}
	}
	return attachPossible(len(functions), func(from, to int) (io.Closer, error) {
		probes, err := p.attachSites(l, sites[from:to], pid)
		if err == nil {
			file.library.Functions = append(file.library.Functions, functions[from:to]...)
		}
		return probes, err
	}, func(i int, err error) {
		file.library.Refused = append(file.library.Refused, fmt.Sprintf("%s (%v)", functions[i].Name, err))
	})
}

// attachPossible probes n functions, all at once. If the kernel refuses that, it probes them one by one, to find those
// that cannot be probed, and returns an error if none can.
func attachPossible(n int, attach func(from, to int) (io.Closer, error), refused func(i int, err error)) (io.Closer,
	error) {
	all, err := attach(0, n)
	if err == nil || isFatal(err) {
		return all, err
	}
	var probes closeInOrder
	for i := range n {
		one, failed := attach(i, i+1)
		if failed != nil {
			err = failed
			refused(i, err)
			continue
		}
		probes = append(probes, one)
	}
	if len(probes) == 0 {
		return nil, err
	}
	return probes, nil
}

// site is the place of a function of CUDA in a file.
func (p *Prober) site(l *libraryFile, function uint32, offset uint64) probeSite {
	return probeSite{cookie: p.table.cookie(function), offset: offset, returns: l.returns[offset]}
}

// attachSites probes sites in the file that was examined, even if the file's path leads to another
// file by now.
func (p *Prober) attachSites(l *libraryFile, sites []probeSite, pid int) (io.Closer, error) {
	return attachCalls(p.program.calls, procfs.OpenFile(l.File), sites, pid)
}

// attachOthers probes what a file has beside CUDA's functions, unless it is probed already: the function of the dynamic
// linker that tells of changes to its list of libraries, the one by which clients register with CUPTI, and those by which
// the injected library begins and ends recording.
func (p *Prober) attachOthers(pid int, proc *probedProcess, l *libraryFile) error {
	if proc.others[l.id] != nil {
		return nil
	}
	program, sites := p.program.calls, []probeSite(nil)
	switch {
	case l.listChanges != 0:
		program, sites = p.program.list, []probeSite{{offset: l.listChanges, cookie: l.list}}
	case p.options.OnlyOfFiles:
	case l.registration != 0 && p.options.OnCUPTIClient != nil:
		sites = []probeSite{p.site(l, clientFunction, l.registration)}
	case l.rangeBegins != 0 && l.rangeEnds != 0 && p.options.CaptureNVTX:
		sites = []probeSite{p.site(l, rangeBeginsFunction, l.rangeBegins), p.site(l, rangeEndsFunction, l.rangeEnds)}
	}
	if len(sites) == 0 {
		return nil
	}
	attach := attachCalls
	if l.listChanges != 0 {
		attach = attachHere
	}
	probes, err := attach(program, procfs.OpenFile(l.File), sites, pid)
	if err != nil {
		return attachError(l.path, err)
	}
	proc.others[l.id] = probes
	return nil
}
