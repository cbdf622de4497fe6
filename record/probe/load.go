package probe

import (
	"errors"
	"math/bits"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/probe/eventstore"
	"github.com/cudatrace/cudatrace/record/probe/loader"
	"github.com/cudatrace/cudatrace/record/probe/uprobe"
)

// A loadedProgram is the eBPF program of a mode in the kernel, with all of its maps except
// those of the event store.
type loadedProgram struct {
	mode       uprobe.Mode
	calls      uprobe.Programs
	threadExit *ebpf.Program
	exec       *ebpf.Program
	list       *ebpf.Program // at changes of the dynamic linker's list of libraries
	maps       bpfMaps
}

type bpfMaps struct {
	names, threads, targets, recipes, losses, paused, ends, watches *ebpf.Map
}

// load tries the modes that o allows and keeps the first that the kernel accepts. The program
// writes its events to the store.
func load(o Options, l eventstore.Layout, store *eventstore.Store) (*loadedProgram, error) {
	var firstErr error
	for _, m := range o.Mode.Candidates() {
		program, err := loadMode(m, o, l, store)
		if err == nil {
			return program, nil
		}
		if firstErr == nil || uprobe.IsPermission(err) {
			firstErr = err
		}
	}
	return nil, uprobe.LoadError(o.Mode, firstErr)
}

// programNames returns the names of the entry and the return program of a mode.
func programNames(m uprobe.Mode) (enter, leave string) {
	switch m {
	case uprobe.Session:
		return bpf.ProbesProgCallSession, bpf.ProbesProgCallSession
	case uprobe.Multi:
		return bpf.ProbesProgEnterMulti, bpf.ProbesProgLeaveMulti
	}
	return bpf.ProbesProgEnterSingle, bpf.ProbesProgLeaveSingle
}

func loadMode(m uprobe.Mode, o Options, l eventstore.Layout, store *eventstore.Store) (*loadedProgram, error) {
	enter, leave := programNames(m)
	list := bpf.ProbesProgListMulti
	if m == uprobe.Single {
		list = bpf.ProbesProgListSingle
	}
	c, err := loader.Load(loader.Part{
		Programs:  []string{enter, leave, list, bpf.ProbesProgThreadExit, bpf.ProbesProgProcessExec},
		Shared:    store.Maps(),
		Configure: func(spec *ebpf.CollectionSpec) error { return configure(spec, o, l) },
	})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := uprobe.Check(m, c.Programs[enter]); err != nil {
		return nil, err
	}
	program := &loadedProgram{mode: m, calls: uprobe.Programs{Enter: c.DetachProgram(enter)}, threadExit: c.DetachProgram(bpf.ProbesProgThreadExit),
		exec: c.DetachProgram(bpf.ProbesProgProcessExec), list: c.DetachProgram(list)}
	if leave != enter {
		program.calls.Leave = c.DetachProgram(leave)
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
func configure(spec *ebpf.CollectionSpec, o Options, l eventstore.Layout) error {
	for name, entries := range map[string]uint32{
		bpf.ProbesMapChunks: l.Chunks, bpf.ProbesMapQueue: l.Queue, bpf.ProbesMapSlots: l.Slots, bpf.ProbesMapThreads: l.Slots,
		bpf.ProbesMapNames: uint32(symbolBytes(o.BufferBytes)),
	} {
		spec.Maps[name].MaxEntries = entries
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
	return 1 << (bits.Len(uint(min(max(calls/16, least), most))) - 1)
}

// close unloads the program. The reader of names closes the map of names.
func (l *loadedProgram) close() error {
	return errors.Join(l.calls.Enter.Close(), l.calls.Leave.Close(), l.threadExit.Close(), l.exec.Close(), l.list.Close(),
		l.maps.threads.Close(), l.maps.targets.Close(), l.maps.recipes.Close(), l.maps.losses.Close(),
		l.maps.paused.Close(), l.maps.ends.Close(), l.maps.watches.Close())
}
