package probe

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
)

// programs are those of the chosen mode. A session's program serves both ends.
type programs struct {
	enter, leave *ebpf.Program
	exit         *ebpf.Program
}

type bpfMaps struct {
	Names, Threads, Targets, Recipes, Losses, Paused, Ends, Watches *ebpf.Map
}

// load tries the modes that o allows, and keeps the first that the kernel takes.
func (p *Prober) load(o Options) error {
	var firstErr error
	for _, m := range o.Mode.candidates() {
		err := p.loadMode(m, o)
		if err == nil {
			p.mode = m
			return nil
		}
		if firstErr == nil || isPermission(err) {
			firstErr = err
		}
	}
	return loadError(o.Mode, firstErr)
}

// programNames gives the names of a mode's entry and return program.
func programNames(m Mode) (enter, leave string) {
	switch m {
	case ModeSession:
		return bpf.ProbesProgCallSession, bpf.ProbesProgCallSession
	case ModeMulti:
		return bpf.ProbesProgEnterMulti, bpf.ProbesProgLeaveMulti
	}
	return bpf.ProbesProgEnterSingle, bpf.ProbesProgLeaveSingle
}

func (p *Prober) loadMode(m Mode, o Options) error {
	enter, leave := programNames(m)
	spec, err := collection(o, enter, leave)
	if err != nil {
		return err
	}
	options, err := relocate(spec)
	if err != nil {
		return err
	}
	options.MapReplacements = p.store.replacements()
	c, err := ebpf.NewCollectionWithOptions(spec, options)
	if err != nil {
		return err
	}
	defer c.Close()
	if m == ModeMulti {
		if err := checkPIDFilter(c.Programs[enter]); err != nil {
			return err
		}
	}
	p.programs = programs{enter: c.DetachProgram(enter), exit: c.DetachProgram(bpf.ProbesProgThreadExit)}
	if leave != enter {
		p.programs.leave = c.DetachProgram(leave)
	}
	p.maps = bpfMaps{
		Names: c.DetachMap(bpf.ProbesMapNames), Threads: c.DetachMap(bpf.ProbesMapThreads),
		Targets: c.DetachMap(bpf.ProbesMapTargets), Recipes: c.DetachMap(bpf.ProbesMapRecipes),
		Losses: c.DetachMap(bpf.ProbesMapLosses), Paused: c.DetachMap(bpf.ProbesMapPaused),
		Ends: c.DetachMap(bpf.ProbesMapEnds), Watches: c.DetachMap(bpf.ProbesMapWatches),
	}
	return nil
}

// collection is what the object file holds, cut down to the given programs: older
// kernels reject programs of kinds that they don't know.
func collection(o Options, names ...string) (*ebpf.CollectionSpec, error) {
	spec, err := bpf.LoadProbes()
	if err != nil {
		return nil, fmt.Errorf("reading the embedded eBPF object: %w", err)
	}
	keepPrograms(spec, append(names, bpf.ProbesProgThreadExit)...)
	return spec, configure(spec, o)
}

func keepPrograms(spec *ebpf.CollectionSpec, names ...string) {
	for name := range spec.Programs {
		if !slices.Contains(names, name) {
			delete(spec.Programs, name)
		}
	}
}

func configure(spec *ebpf.CollectionSpec, o Options) error {
	chunks, queue, slots := storeLayout(o.RingBytes, o.MaxThreads)
	spec.Maps[bpf.ProbesMapChunks].MaxEntries = chunks
	spec.Maps[bpf.ProbesMapQueue].MaxEntries = queue
	spec.Maps[bpf.ProbesMapSlots].MaxEntries = slots
	spec.Maps[bpf.ProbesMapThreads].MaxEntries = slots
	spec.Maps[bpf.ProbesMapNames].MaxEntries = uint32(symbolRingSize(o.RingBytes))
	err := errors.Join(
		spec.Variables[bpf.ProbesVarQueueMask].Set(queue-1),
		spec.Variables[bpf.ProbesVarSlotMask].Set(slots-1),
		spec.Variables[bpf.ProbesVarCaptureRange].Set(flag(o.CaptureRange)))
	if err := errors.Join(err, setNamespace(spec)); err != nil {
		return fmt.Errorf("setting up the embedded eBPF object: %w", err)
	}
	return nil
}

func setNamespace(spec *ebpf.CollectionSpec) error {
	dev, ino, nested := ownPIDNamespace()
	if !nested {
		return nil
	}
	return errors.Join(spec.Variables[bpf.ProbesVarPidnsDev].Set(dev), spec.Variables[bpf.ProbesVarPidnsIno].Set(ino))
}

func flag(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}

// initialPIDNamespace is the inode number that the kernel gives the first one.
const initialPIDNamespace = 0xEFFFFFFC

// ownPIDNamespace identifies this process's PID namespace; nested says that it is
// not the initial one, so that ids seen by the kernel have to be translated.
func ownPIDNamespace() (dev, ino uint64, nested bool) {
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &st); err != nil {
		return 0, 0, false
	}
	return st.Dev, st.Ino, st.Ino != initialPIDNamespace
}

func (p *programs) close() error {
	return errors.Join(p.enter.Close(), p.leave.Close(), p.exit.Close())
}

func (m *bpfMaps) close() error {
	return errors.Join(m.Threads.Close(), m.Targets.Close(), m.Recipes.Close(), m.Losses.Close(), m.Paused.Close(), m.Ends.Close(), m.Watches.Close())
}
