package chromesink

import (
	"math"

	"github.com/cudatrace/cudatrace/convert/internal/occupancy"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A gpu is a GPU of the timeline with what the sink computes from it.
type gpu struct {
	timeline.GPU
	device occupancy.Device
	known  bool                       // device is
	fills  map[*timeline.Shape][]byte // the occupancy of kernels, as members of a JSON object
}

// maxFills bounds gpu.fills. A full table is emptied.
const maxFills = 1 << 12

func newGPU(g timeline.GPU) *gpu {
	d, known := occupancy.Of(&g)
	return &gpu{GPU: g, device: d, known: known, fills: make(map[*timeline.Shape][]byte)}
}

// appendDevice writes the properties of a device, in Kineto's order.
func appendDevice(b []byte, id uint32, g *gpu) []byte {
	o := object{b: b}
	o.uint("id", uint64(id))
	if g.Name != "" {
		o.string("name", g.Name)
	}
	known := func(name string, value uint64) {
		if value != 0 {
			o.uint(name, value)
		}
	}
	known("totalGlobalMem", g.Memory)
	if g.Major != 0 {
		o.uint("computeMajor", uint64(g.Major))
		o.uint("computeMinor", uint64(g.Minor))
	}
	d := occupancy.Device{Limits: g.Limits}
	if g.known {
		d = g.device
	}
	known("maxThreadsPerBlock", uint64(d.BlockThreads))
	known("maxThreadsPerMultiprocessor", uint64(d.MaxWarps)*uint64(d.WarpSize))
	known("regsPerBlock", uint64(d.BlockRegisters))
	known("warpSize", uint64(d.WarpSize))
	known("sharedMemPerBlock", uint64(d.BlockSharedMemory))
	known("numSms", uint64(g.Multiprocessors))
	known("regsPerMultiprocessor", uint64(d.MaxRegisters))
	known("sharedMemPerBlockOptin", uint64(d.OptInSharedMemory))
	known("sharedMemPerMultiprocessor", uint64(d.MaxSharedMemory))
	return append(o.b, '}')
}

// fill writes how a kernel fills the GPU: nothing where that is not known.
func (g *gpu) fill(o *object, s *timeline.Shape) {
	if !g.known {
		return
	}
	members, ok := g.fills[s]
	if !ok {
		if len(g.fills) >= maxFills {
			clear(g.fills)
		}
		members = g.appendFill(nil, &s.Kernel)
		g.fills[s] = members
	}
	if len(members) > 0 {
		o.b = append(append(o.b, ','), members...)
	}
}

var factorNames = []struct {
	factor occupancy.Factor
	name   string
}{{occupancy.Warps, "WARPS"}, {occupancy.Registers, "REGS"}, {occupancy.SharedMemory, "SMEM"},
	{occupancy.Blocks, "BLOCKS"}}

func (g *gpu) appendFill(b []byte, k *timeline.KernelShape) []byte {
	occ, ok := g.device.Of(k)
	if !ok {
		return b
	}
	o := object{b: b}
	if g.Multiprocessors != 0 {
		o.uint("est. achieved occupancy %", g.achieved(k, &occ))
	}
	limits := ""
	for _, f := range factorNames {
		if occ.Limits&f.factor != 0 {
			limits += "|" + f.name
		}
	}
	o.begin("occupancy")
	o.uint("activeBlocksPerMultiprocessor", uint64(occ.Blocks))
	o.string("limitingFactors", limits[1:])
	o.uint("blockLimitRegs", uint64(occ.ByRegisters))
	o.uint("blockLimitSharedMem", uint64(occ.BySharedMemory))
	o.uint("blockLimitWarps", uint64(occ.ByWarps))
	o.uint("blockLimitBlocks", uint64(occ.ByBlocks))
	o.uint("allocatedRegistersPerBlock", uint64(occ.BlockRegisters))
	o.uint("allocatedSharedMemPerBlock", uint64(occ.BlockSharedMemory))
	o.end()
	if occ.Waves > 0 {
		o.float("waves", rounded(occ.Waves))
		o.float("tail %", math.Round(1000*occ.Tail)/10)
	}
	return o.b
}

// achieved is Kineto's estimate: the warps of the blocks that a multiprocessor has to run, by the most
// warps that it could.
func (g *gpu) achieved(k *timeline.KernelShape, occ *occupancy.Occupancy) uint64 {
	blocks := min(volume(k.Grid)/float64(g.Multiprocessors), float64(occ.Blocks))
	threads := float64(g.device.MaxWarps) * float64(g.device.WarpSize)
	return uint64(math.Round(100 * blocks * volume(k.Block) / threads))
}
