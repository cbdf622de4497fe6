// Package loader loads parts of the embedded eBPF object into the running kernel. Input: names of
// programs and maps. Output: the loaded programs and maps.
package loader

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/probe/kerneltypes"
)

// A Part is the part of the object to load.
type Part struct {
	// Programs are the names of the programs to load. An older kernel rejects programs of kinds
	// that it does not know.
	Programs []string
	// Maps are the names of the maps to make; nil for all.
	Maps []string
	// Shared are existing maps to use, by name.
	Shared map[string]*ebpf.Map
	// Configure, if not nil, sets the sizes of maps and the program's constants.
	Configure func(*ebpf.CollectionSpec) error
}

// Load loads a part, fitted to the running kernel and to this process's PID namespace.
func Load(p Part) (*ebpf.Collection, error) {
	spec, err := bpf.LoadProbes()
	if err != nil {
		return nil, fmt.Errorf("reading the embedded eBPF object: %w", err)
	}
	p.cut(spec)
	setVersion(spec)
	if p.Configure != nil {
		if err := p.Configure(spec); err != nil {
			return nil, fmt.Errorf("setting up the embedded eBPF object: %w", err)
		}
	}
	if err := setNamespace(spec); err != nil {
		return nil, fmt.Errorf("setting up the embedded eBPF object: %w", err)
	}
	options, err := kerneltypes.Relocate(spec)
	if err != nil {
		return nil, err
	}
	options.MapReplacements = p.Shared
	return ebpf.NewCollectionWithOptions(spec, options)
}

// cut removes the programs and maps that are not wanted. It keeps the constants, which are in
// maps whose names begin with a dot.
func (p Part) cut(spec *ebpf.CollectionSpec) {
	for name := range spec.Programs {
		if !slices.Contains(p.Programs, name) {
			delete(spec.Programs, name)
		}
	}
	for name := range spec.Maps {
		if p.Maps != nil && !slices.Contains(p.Maps, name) && !strings.HasPrefix(name, ".") {
			delete(spec.Maps, name)
		}
	}
}

// setVersion says for which kernel the programs are. Otherwise the library would look into this
// process's memory, which a process with file capabilities must not read.
func setVersion(spec *ebpf.CollectionSpec) {
	for _, p := range spec.Programs {
		p.KernelVersion = host.KernelVersion()
	}
}

// initialPIDNamespace is the inode number of the initial PID namespace.
const initialPIDNamespace = 0xEFFFFFFC

// setNamespace makes the program translate the kernel's IDs into those of this process's PID
// namespace, unless that is the initial one.
func setNamespace(spec *ebpf.CollectionSpec) error {
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &st); err != nil || st.Ino == initialPIDNamespace {
		return nil // without /proc no process can be attached to anyway
	}
	if err := spec.Variables[bpf.ProbesVarPidnsDev].Set(st.Dev); err != nil {
		return err
	}
	return spec.Variables[bpf.ProbesVarPidnsIno].Set(st.Ino)
}
