package occupancy

import (
	"math"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Factor is a set of resources of a multiprocessor.
type Factor uint8

// The resources that bound the number of blocks.
const (
	Warps Factor = 1 << iota
	Registers
	SharedMemory
	Blocks
)

var factors = []struct {
	factor Factor
	name   string
}{{Warps, "warps"}, {Registers, "registers"}, {SharedMemory, "shared memory"}, {Blocks, "blocks"}}

// String names the resources: "warps, registers".
func (f Factor) String() string {
	var names []string
	for _, x := range factors {
		if f&x.factor != 0 {
			names = append(names, x.name)
		}
	}
	return strings.Join(names, ", ")
}

// Unbounded is the number of blocks that a resource allows that a kernel does not use.
const Unbounded = math.MaxInt32

// An Occupancy says how a kernel's blocks fill a GPU.
type Occupancy struct {
	Blocks uint32  // that run on a multiprocessor at a time
	Warps  uint32  // of these blocks
	Share  float64 // of the most warps of a multiprocessor, 0 to 1: the theoretical occupancy

	Limits                                         Factor // the resources that allow no more blocks
	ByWarps, ByRegisters, BySharedMemory, ByBlocks uint32 // blocks that a resource alone allows
	BlockRegisters, BlockSharedMemory              uint32 // allocated for a block, rounding and CUDA's own part included

	// Waves is the grid's blocks by the number that the GPU runs at a time, 0 where the number of
	// multiprocessors is not known. With clusters this is the least: a cluster has to fit into a
	// part of the GPU. Tail is the share of the last wave that is idle, 0 to 1.
	Waves, Tail float64
}

// Of computes the occupancy of a launch of a kernel. It is false for a launch that is not
// described, or that cannot run on such a GPU.
func (d *Device) Of(k *timeline.KernelShape) (o Occupancy, ok bool) {
	threads := volume(k.Block)
	if threads < 1 || threads > float64(d.BlockThreads) {
		return o, false
	}
	warps := up(uint64(threads), uint64(d.WarpSize)) / uint64(d.WarpSize)
	o.ByWarps = d.MaxWarps / uint32(warps)
	o.ByBlocks = d.MaxBlocks
	o.ByRegisters, o.BlockRegisters = d.byRegisters(uint64(k.Registers), warps)
	o.BySharedMemory, o.BlockSharedMemory = d.bySharedMemory(uint64(k.StaticShared) + uint64(k.DynamicShared))
	o.Blocks = min(o.ByWarps, o.ByRegisters, o.BySharedMemory, o.ByBlocks)
	if o.Blocks == 0 {
		return Occupancy{}, false
	}
	o.Limits = o.limits()
	o.Warps = o.Blocks * uint32(warps)
	o.Share = float64(o.Warps) / float64(d.MaxWarps)
	o.Waves, o.Tail = d.waves(k, o.Blocks)
	return o, true
}

// byRegisters returns the blocks that the registers allow, and the registers of a block. A part of a
// multiprocessor gives its registers to whole warps.
func (d *Device) byRegisters(perThread, warps uint64) (blocks, allocated uint32) {
	if perThread == 0 {
		return Unbounded, 0
	}
	if perThread > maxRegisters {
		return 0, 0
	}
	warp := up(perThread*uint64(d.WarpSize), registerUnit)
	parts := uint64(d.partitions)
	if warp*up(warps, parts) > uint64(d.BlockRegisters) {
		return 0, 0
	}
	fit := uint64(d.MaxRegisters) / parts / warp * parts
	return uint32(fit / warps), uint32(warp * warps)
}

// bySharedMemory returns the blocks that shared memory allows, and the bytes of a block.
func (d *Device) bySharedMemory(bytes uint64) (blocks, allocated uint32) {
	if bytes > uint64(d.OptInSharedMemory) {
		return 0, 0
	}
	block := up(bytes+uint64(d.ReservedSharedMemory), uint64(d.sharedUnit))
	if block == 0 {
		return Unbounded, 0
	}
	return uint32(uint64(d.MaxSharedMemory) / block), uint32(block)
}

func (o *Occupancy) limits() (f Factor) {
	for factor, blocks := range map[Factor]uint32{Warps: o.ByWarps, Registers: o.ByRegisters,
		SharedMemory: o.BySharedMemory, Blocks: o.ByBlocks} {
		if blocks == o.Blocks {
			f |= factor
		}
	}
	return f
}

// waves returns in how many waves a grid runs, and how much of the last one is idle.
func (d *Device) waves(k *timeline.KernelShape, blocks uint32) (waves, tail float64) {
	full := float64(blocks) * float64(d.Multiprocessors)
	if cluster := volume(k.Cluster); cluster > 1 {
		full = math.Floor(full/cluster) * cluster
	}
	grid := volume(k.Grid)
	if full == 0 || grid == 0 {
		return 0, 0
	}
	waves = grid / full
	return waves, math.Ceil(waves) - waves
}

func volume(v [3]uint32) float64 { return float64(v[0]) * float64(v[1]) * float64(v[2]) }

// up rounds up to a multiple of a unit.
func up(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }
