package read

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A DeviceKey is a device as a process numbers it.
type DeviceKey struct{ PID, Device uint32 }

// A ContextKey is a context of a process.
type ContextKey struct{ PID, Context uint32 }

// A StreamKey is a stream of a process.
type StreamKey struct{ PID, Context, Stream uint32 }

// A MadeKey is a call that made a stream, by its correlation ID.
type MadeKey struct{ PID, Correlation uint32 }

// GPUs are the devices, contexts and streams of a log.
type GPUs struct {
	Contexts map[ContextKey]tracelog.Context
	Streams  map[StreamKey]tracelog.Stream
	Made     map[MadeKey]StreamKey // streams, by the calls that made them
	devices  map[DeviceKey]tracelog.Device
	number   map[DeviceKey]uint32 // timeline.GPU.Index of the devices that were used
	indexes  map[uint32]bool      // the values of number
	order    []DeviceKey
	numbered int // those of order that have their number
	uses     map[StreamKey]*streamUse
	largest  map[uint32]uint32             // number of a stream in uses, by PID
	extents  map[DeviceKey]timeline.Extent // of the work
	texts    int                           // bytes of the names of devices
}

func newGPUs() GPUs {
	return GPUs{
		Contexts: make(map[ContextKey]tracelog.Context),
		Streams:  make(map[StreamKey]tracelog.Stream),
		Made:     make(map[MadeKey]StreamKey),
		devices:  make(map[DeviceKey]tracelog.Device),
		number:   make(map[DeviceKey]uint32),
		indexes:  make(map[uint32]bool),
		uses:     make(map[StreamKey]*streamUse), largest: make(map[uint32]uint32),
		extents: make(map[DeviceKey]timeline.Extent),
	}
}

func (g *GPUs) learn(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindDevice:
		var d tracelog.Device
		d.Read(b, i)
		g.devices[DeviceKey{d.PID, d.ID}] = d
		g.texts += len(d.Name) + len(d.UUID) + len(d.PCI)
	case tracelog.KindContext:
		var c tracelog.Context
		c.Read(b, i)
		g.Contexts[ContextKey{c.PID, c.ID}] = c
	case tracelog.KindStream:
		var s tracelog.Stream
		s.Read(b, i)
		key := StreamKey{s.PID, s.Context, s.ID}
		g.Streams[key] = s
		if s.Correlation != 0 {
			g.Made[MadeKey{s.PID, s.Correlation}] = key
		}
	}
}

// ContextsOf returns the number of contexts of a process.
func (g *GPUs) ContextsOf(pid uint32) (n int) {
	for key := range g.Contexts {
		if key.PID == pid {
			n++
		}
	}
	return n
}

// used notes the devices of a block of events.
func (g *GPUs) used(pid uint32, devices *tracelog.Column) {
	for i := range devices.Len() {
		g.use(DeviceKey{pid, uint32(devices.At(i))})
		if _, one := devices.Const(); one {
			return
		}
	}
}

func (g *GPUs) use(key DeviceKey) {
	if _, known := g.number[key]; !known {
		g.number[key] = 0
		g.order = append(g.order, key)
	}
}

// worked notes the extent of a block of work. Work of several devices counts for each of them.
func (g *GPUs) worked(b *tracelog.Block, x timeline.Extent) {
	pid, devices := keyOf(b, "pid"), b.Column("device")
	for i := range b.N {
		key := DeviceKey{pid, uint32(devices.At(i))}
		g.extents[key] = joined(g.extents[key], x)
		if _, one := devices.Const(); one {
			return
		}
	}
}

// joined is the extent of two.
func joined(a, b timeline.Extent) timeline.Extent {
	if a.End == 0 {
		return b
	}
	return timeline.Extent{Start: min(a.Start, b.Start), End: max(a.End, b.End)}
}

// Extent is the time of the work of a GPU of the timeline, in this log.
func (g *GPUs) Extent(index uint32) (x timeline.Extent) {
	for _, key := range g.Keys(index) {
		if of, ok := g.extents[key]; ok {
			x = joined(x, of)
		}
	}
	return x
}

// ExtentOf is the time of the work of a process.
func (g *GPUs) ExtentOf(pid uint32) (x timeline.Extent) {
	for key, of := range g.extents {
		if key.PID == pid {
			x = joined(x, of)
		}
	}
	return x
}

// OnlyDevice returns the device on which a process has GPU work, if it is one.
func (g *GPUs) OnlyDevice(pid uint32) (device uint32, only bool) {
	for key := range g.extents {
		if key.PID == pid {
			if only {
				return 0, false
			}
			device, only = key.Device, true
		}
	}
	return device, only
}

// Index returns the timeline's number of a process's device, which Number assigned. A device
// that was not used has none.
func (g *GPUs) Index(pid, device uint32) (index uint32, used bool) {
	index, used = g.number[DeviceKey{pid, device}]
	return index, used
}

// IndexOrOwn is Index, and the process's own number of a device that is not known: without CUPTI none is.
func (g *GPUs) IndexOrOwn(pid, device uint32) uint32 {
	if index, used := g.Index(pid, device); used || len(g.order) > 0 {
		return index
	}
	return device
}

// Keys returns the devices of processes that are the GPU with a number of the timeline.
func (g *GPUs) Keys(index uint32) (keys []DeviceKey) {
	for _, key := range g.order {
		if g.number[key] == index {
			keys = append(keys, key)
		}
	}
	return keys
}

// StreamKeys returns the streams of the log, sorted by process, context and number.
func (g *GPUs) StreamKeys() []StreamKey {
	return slices.SortedFunc(maps.Keys(g.Streams), func(a, b StreamKey) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Context, b.Context), cmp.Compare(a.Stream, b.Stream))
	})
}

// Uses reports whether the log used the GPU with a number of the timeline.
func (g *GPUs) Uses(index uint32) bool { return g.indexes[index] }

// An Inventory has the GPUs of a timeline, which several logs may share.
type Inventory struct {
	List   []timeline.GPU
	byUUID map[string]uint32
}

// Number numbers the devices that were used in a log and have no number yet, by process and by the
// process's own number. Devices with one UUID are one GPU.
func (v *Inventory) Number(c *Catalog) {
	g := &c.GPUs
	order := make(map[uint32]int, len(c.Processes.PIDs))
	for i, pid := range c.Processes.byRank() {
		order[pid] = i
	}
	if c.MemoryFromCalls() { // a context is where memory is allocated
		for key, x := range g.Contexts {
			g.use(DeviceKey{key.PID, x.Device})
		}
	}
	fresh := g.order[g.numbered:]
	slices.SortStableFunc(fresh, func(a, b DeviceKey) int {
		return cmp.Or(cmp.Compare(order[a.PID], order[b.PID]), cmp.Compare(a.Device, b.Device))
	})
	g.numbered = len(g.order)
	for _, key := range fresh {
		d := g.devices[key]
		d.PID, d.ID = key.PID, key.Device
		index := v.index(&d, c.Names.device(&d))
		g.number[key], g.indexes[index] = index, true
	}
	v.sampled(c)
}

func (v *Inventory) index(d *tracelog.Device, name string) uint32 {
	if strings.Trim(d.UUID, "0") == "" { // UUID not known: a GPU of its own
		d.UUID = ""
	} else if index, ok := v.byUUID[d.UUID]; ok {
		return index
	}
	index := uint32(len(v.List))
	v.List = append(v.List, timeline.GPU{
		Index: index, PID: d.PID, Device: d.ID, Name: name, UUID: d.UUID, Major: d.Major, Minor: d.Minor,
		Multiprocessors: d.Multiprocessors, Memory: d.Memory, Bandwidth: d.Bandwidth,
		L2Cache: d.L2Cache, Clock: d.Clock, CopyEngines: d.CopyEngines, ECC: d.ECC != 0,
		Limits: timeline.Limits{
			WarpSize: d.WarpSize, MaxWarps: d.MaxWarps, MaxBlocks: d.MaxBlocks, MaxSharedMemory: d.MaxShared,
			MaxRegisters: d.MaxRegisters,
			BlockThreads: d.BlockThreads, BlockRegisters: d.BlockRegisters, BlockSharedMemory: d.BlockShared,
		},
		Link: timeline.Link{
			Address: d.PCI, Generation: d.PCIeGeneration, Width: d.PCIeWidth,
			MaxGeneration: d.PCIeMaxGeneration, MaxWidth: d.PCIeMaxWidth,
		},
	})
	if d.UUID != "" {
		if v.byUUID == nil {
			v.byUUID = make(map[string]uint32)
		}
		v.byUUID[d.UUID] = index
	}
	return index
}
