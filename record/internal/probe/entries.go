package probe

import (
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// An EntryProgram is a program of another eBPF object than the prober's that runs at entries of functions.
type EntryProgram struct {
	*ebpf.Collection // with the object's maps
	program          siteProgram
}

// An Entry is a function's entry in a file, with the cookie for the program.
type Entry struct{ Offset, Cookie uint64 }

// LoadEntries loads an object with one program for entries in two forms: uprobe_multi, and uprobe for kernels that
// cannot attach the former.
func LoadEntries(spec *ebpf.CollectionSpec, multi, single string) (*EntryProgram, error) {
	setVersion(spec)
	if err := setNamespace(spec); err != nil {
		return nil, fmt.Errorf("setting up the embedded eBPF object: %w", err)
	}
	kernel, err := openKernelTypes()
	if err != nil {
		return nil, err
	}
	defer kernel.release()
	kernelTypes, err := kernel.reduce(spec.Types)
	if err != nil {
		return nil, err
	}
	load := func(mode attachMode, name, other string) (*EntryProgram, error) {
		form := spec.Copy()
		delete(form.Programs, other)
		c, err := ebpf.NewCollectionWithOptions(form,
			ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{KernelTypes: kernelTypes.Copy()}})
		if err != nil {
			return nil, err
		}
		e := &EntryProgram{c, siteProgram{c.Programs[name], mode}}
		if err := checkMode(mode, e.program.Program); err != nil {
			c.Close()
			return nil, err
		}
		return e, nil
	}
	e, err := load(modeMulti, multi, single)
	if err == nil {
		return e, nil
	}
	if e, err = load(modeSingle, single, multi); err != nil {
		return nil, loadError(modeSingle, err)
	}
	return e, nil
}

// Attach probes entries in a file of a process until the result is closed.
func (e *EntryProgram) Attach(file *os.File, pid int, entries []Entry) (io.Closer, error) {
	sites := make([]probeSite, len(entries))
	for i, at := range entries {
		sites[i] = probeSite{offset: at.Offset, cookie: at.Cookie}
	}
	probes, err := attachHere(e.program, procfs.OpenFile(file), sites, pid)
	if err != nil {
		return nil, attachError(file.Name(), err)
	}
	return probes, nil
}
