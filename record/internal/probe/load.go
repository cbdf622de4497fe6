package probe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/host"
)

// A loadedProgram is the eBPF program of a mode in the kernel, with all of its maps except
// those of the event store.
type loadedProgram struct {
	mode       attachMode
	calls      siteProgram // nil where none are probed
	functions  siteProgram // of any library; nil where none are asked for
	list       siteProgram // at changes of the dynamic linker's list of libraries; nil where nothing is probed
	threadExit *ebpf.Program
	exec       *ebpf.Program
	maps       bpfMaps
}

type bpfMaps struct {
	names, threads, targets, recipes, losses, paused, ends, watches *ebpf.Map
}

// load tries the modes that o allows and keeps the first that the kernel accepts. The program
// writes its events to the store.
func load(o Options, l storeLayout, store *eventStore) (*loadedProgram, error) {
	var firstErr error
	for _, m := range o.candidates() {
		program, err := loadMode(m, o, l, store)
		if err == nil {
			return program, nil
		}
		if firstErr == nil || isPermission(err) {
			firstErr = err
		}
	}
	return nil, loadError(o.mode, firstErr)
}

// programNames are the names of the programs of a mode.
type programNames struct{ calls, functions, list string }

func (m attachMode) programs() programNames {
	if m == modeMulti {
		return programNames{bpf.ProbesProgCallMulti, bpf.ProbesProgFunctionMulti, bpf.ProbesProgListMulti}
	}
	return programNames{bpf.ProbesProgCallSingle, bpf.ProbesProgFunctionSingle, bpf.ProbesProgListSingle}
}

// wanted lists the programs to load beside that of the list.
func (n programNames) wanted(o *Options) []string {
	wanted := []string{bpf.ProbesProgThreadExit, bpf.ProbesProgProcessExec}
	if !o.OnlyOfFiles {
		wanted = append(wanted, n.calls)
	}
	if len(o.OfFiles) > 0 {
		wanted = append(wanted, n.functions)
	}
	return wanted
}

func loadMode(m attachMode, o Options, l storeLayout, store *eventStore) (*loadedProgram, error) {
	names, part := m.programs(), objectPart{
		shared: store.shared(),
		configure: func(spec *ebpf.CollectionSpec) error {
			for _, name := range treeMaps {
				delete(spec.Maps, name)
			}
			return configure(spec, o, l)
		},
	}
	if !o.probesNothing() {
		part.programs = []string{names.list}
	}
	c, err := loadPart(part)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	list := siteProgram{c.Programs[names.list], m}
	if list.Program != nil {
		if err := checkMode(m, list.Program); err != nil {
			return nil, err
		}
		warmUp(list)
	}
	maps.Copy(part.shared, c.Maps)
	programs, err := part.loadTogether(names.wanted(&o))
	if err != nil {
		return nil, err
	}
	c.DetachProgram(names.list)
	program := &loadedProgram{
		mode: m, list: list,
		calls:      siteProgram{programs[names.calls], m},
		functions:  siteProgram{programs[names.functions], m},
		threadExit: programs[bpf.ProbesProgThreadExit],
		exec:       programs[bpf.ProbesProgProcessExec],
	}
	program.maps = bpfMaps{
		names: c.DetachMap(bpf.ProbesMapNames), threads: c.DetachMap(bpf.ProbesMapThreads),
		targets: c.DetachMap(bpf.ProbesMapTargets), recipes: c.DetachMap(bpf.ProbesMapRecipes),
		losses: c.DetachMap(bpf.ProbesMapLosses), paused: c.DetachMap(bpf.ProbesMapPaused),
		ends: c.DetachMap(bpf.ProbesMapEnds), watches: c.DetachMap(bpf.ProbesMapWatches),
	}
	return program, nil
}

// configure sets the sizes of maps and the program's constants.
func configure(spec *ebpf.CollectionSpec, o Options, l storeLayout) error {
	for name, entries := range map[string]uint32{
		bpf.ProbesMapChunks: l.Chunks, bpf.ProbesMapQueue: l.Queue, bpf.ProbesMapSlots: l.Slots,
		bpf.ProbesMapThreads: l.Slots,
		bpf.ProbesMapNames:   uint32(symbolBytes(o.BufferBytes)),
	} {
		spec.Maps[name].MaxEntries = entries
	}
	if o.rate != 0 {
		if err := spec.Variables[bpf.ProbesVarRateMost].Set(o.rate); err != nil {
			return err
		}
	}
	captureRange := uint8(0)
	if o.CaptureRange || o.CaptureNVTX {
		captureRange = 1
	}
	return errors.Join(
		spec.Variables[bpf.ProbesVarQueueMask].Set(l.Queue-1),
		spec.Variables[bpf.ProbesVarSlotMask].Set(l.Slots-1),
		spec.Variables[bpf.ProbesVarCaptureRange].Set(captureRange))
}

// symbolBytes is the size of the ring buffer for names of kernels, a power of two, for a number
// of bytes for calls.
func symbolBytes(calls int) int {
	const least, most = 64 << 10, 64 << 20
	return 1 << (bits.Len(uint(min(max(calls/4, least), most))) - 1)
}

// close unloads the program. The reader of names closes the map of names.
func (l *loadedProgram) close() error {
	return errors.Join(l.calls.Close(), l.functions.Close(), l.list.Close(),
		l.threadExit.Close(), l.exec.Close(),
		l.maps.threads.Close(), l.maps.targets.Close(), l.maps.recipes.Close(), l.maps.losses.Close(),
		l.maps.paused.Close(), l.maps.ends.Close(), l.maps.watches.Close())
}

// An objectPart is the part of the embedded eBPF object to load.
type objectPart struct {
	// programs are the names of the programs to load. An older kernel rejects programs of kinds
	// that it does not know.
	programs []string
	// maps are the names of the maps to make; nil for all.
	maps []string
	// shared are existing maps to use, by name.
	shared map[string]*ebpf.Map
	// configure, if not nil, sets the sizes of maps and the program's constants.
	configure func(*ebpf.CollectionSpec) error
}

// A fittedObject is the embedded object, fitted to the running kernel and to this process's PID namespace.
type fittedObject struct {
	spec        *ebpf.CollectionSpec
	kernelTypes *btf.Spec
}

// fitObject reads the embedded object and the kernel's types once: a recording loads three parts, at about the same
// time.
var fitObject = sync.OnceValues(func() (o fittedObject, err error) {
	var kernel *rawTypes
	var failed error
	var reading sync.WaitGroup
	reading.Go(func() { kernel, failed = openKernelTypes() })
	o.spec, err = bpf.LoadProbes()
	reading.Wait()
	if failed != nil {
		return o, failed
	}
	defer kernel.release()
	if err != nil {
		return o, fmt.Errorf("reading the embedded eBPF object: %w", err)
	}
	setVersion(o.spec)
	if err := setNamespace(o.spec); err != nil {
		return o, fmt.Errorf("setting up the embedded eBPF object: %w", err)
	}
	o.kernelTypes, err = kernel.reduce(o.spec.Types)
	return o, err
})

// loadPart loads a part of the object.
func loadPart(p objectPart) (*ebpf.Collection, error) {
	object, err := fitObject()
	if err != nil {
		return nil, err
	}
	spec := p.cut(object.spec)
	if p.configure != nil {
		if err := p.configure(spec); err != nil {
			return nil, fmt.Errorf("setting up the embedded eBPF object: %w", err)
		}
	}
	constants, err := p.share(spec)
	if err != nil {
		return nil, fmt.Errorf("setting up the embedded eBPF object: %w", err)
	}
	return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		Programs:        ebpf.ProgramOptions{KernelTypes: object.kernelTypes.Copy()},
		MapReplacements: constants,
	})
}

// share makes the programs use existing maps, and returns those of constants, which the library replaces: for every
// replaced map it opens one more file.
func (p objectPart) share(spec *ebpf.CollectionSpec) (constants map[string]*ebpf.Map, err error) {
	constants = map[string]*ebpf.Map{}
	for name, m := range p.shared {
		if isConstants(name) {
			constants[name] = m
			continue
		}
		delete(spec.Maps, name)
		for _, program := range spec.Programs {
			err := program.Instructions.AssociateMap(name, m)
			if err != nil && !errors.Is(err, asm.ErrUnreferencedSymbol) {
				return nil, err
			}
		}
	}
	return constants, nil
}

// isConstants reports whether a map has the constants of the programs, by its name.
func isConstants(name string) bool { return strings.HasPrefix(name, ".") }

// loadTogether loads programs with the part's maps, all at the same time: the kernel checks that of calls for 10 ms.
func (p objectPart) loadTogether(programs []string) (map[string]*ebpf.Program, error) {
	loaded, errs := make([]*ebpf.Collection, len(programs)), make([]error, len(programs))
	var loading sync.WaitGroup
	for i, name := range programs {
		part := p
		part.programs = []string{name}
		loading.Go(func() { loaded[i], errs[i] = loadPart(part) })
	}
	loading.Wait()
	err := cmp.Or(errs...)
	found := map[string]*ebpf.Program{}
	for i, name := range programs {
		if errs[i] == nil {
			if err == nil {
				found[name] = loaded[i].DetachProgram(name)
			}
			loaded[i].Close()
		}
	}
	return found, err
}

// cut copies the programs and maps of the object that are wanted, and the constants.
func (p objectPart) cut(object *ebpf.CollectionSpec) *ebpf.CollectionSpec {
	part := *object
	part.Programs, part.Maps = maps.Clone(object.Programs), maps.Clone(object.Maps)
	maps.DeleteFunc(part.Programs, func(name string, _ *ebpf.ProgramSpec) bool {
		return !slices.Contains(p.programs, name)
	})
	maps.DeleteFunc(part.Maps, func(name string, _ *ebpf.MapSpec) bool {
		return p.maps != nil && !slices.Contains(p.maps, name) && !isConstants(name)
	})
	return part.Copy()
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
