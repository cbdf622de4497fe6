package occupancy

import (
	"cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Device is a GPU with the rules by which its multiprocessors take blocks.
type Device struct {
	timeline.Limits
	Multiprocessors uint32

	OptInSharedMemory    uint32 // most bytes of shared memory of a block that opts in to more
	ReservedSharedMemory uint32 // bytes of shared memory of each block that CUDA takes for itself

	partitions uint32 // parts of a multiprocessor, each with a share of the registers
	sharedUnit uint32 // unit in which shared memory is allocated, bytes
}

// registerUnit is the unit in which a warp gets registers.
const registerUnit = 256

const kib = 1 << 10

// Bounds of what a log may say: no product of two numbers overflows.
const (
	maxWarpSize  = 1 << 10
	maxRegisters = 1 << 16 // of a thread
)

// common are the limits that nearly all GPUs have.
var common = timeline.Limits{
	WarpSize: 32, BlockThreads: 1024, MaxRegisters: 64 * kib, BlockRegisters: 64 * kib, BlockSharedMemory: 48 * kib,
}

// A capability is a compute capability.
type capability struct{ major, minor uint32 }

// A multiprocessor is what differs between compute capabilities: the table "Technical Specifications
// per Compute Capability" of the CUDA C++ Programming Guide.
type multiprocessor struct {
	maxWarps, maxBlocks, sharedKiB uint32
}

var multiprocessors = map[capability]multiprocessor{
	{5, 0}: {64, 32, 64}, {5, 2}: {64, 32, 96}, {5, 3}: {64, 32, 64},
	{6, 0}: {64, 32, 64}, {6, 1}: {64, 32, 96}, {6, 2}: {64, 32, 64},
	{7, 0}: {64, 32, 96}, {7, 2}: {64, 32, 96}, {7, 5}: {32, 16, 64},
	{8, 0}: {64, 32, 164}, {8, 6}: {48, 16, 100}, {8, 7}: {48, 16, 164}, {8, 9}: {48, 24, 100},
	{9, 0}:  {64, 32, 228},
	{10, 0}: {64, 32, 228}, {10, 1}: {48, 24, 228}, {10, 3}: {64, 32, 228}, {11, 0}: {48, 24, 228},
	{12, 0}: {48, 24, 100}, {12, 1}: {48, 24, 100},
}

// halfBlocks are the compute capabilities in which a block gets half of the registers at most.
var halfBlocks = map[capability]bool{{5, 3}: true, {6, 2}: true}

// Of returns what is known of a GPU; false where that is not enough. What the log has comes
// first, then what the compute capability implies.
func Of(gpu *timeline.GPU) (d Device, ok bool) {
	c := capability{gpu.Major, gpu.Minor}
	d = Device{Limits: merged(gpu.Limits, byCapability(c)), Multiprocessors: gpu.Multiprocessors}
	d.partitions, d.sharedUnit = 4, 128
	switch {
	case c == capability{6, 0}:
		d.partitions, d.sharedUnit = 2, 256
	case c.major < 8:
		d.sharedUnit = 256
	default:
		d.ReservedSharedMemory = kib
	}
	d.OptInSharedMemory = optIn(c, &d)
	return d, c.major >= 5 && d.WarpSize <= maxWarpSize && d.MaxWarps != 0 && d.MaxBlocks != 0 && d.MaxSharedMemory != 0
}

// byCapability returns what a compute capability implies. Of an unknown one it implies what all
// have in common.
func byCapability(c capability) timeline.Limits {
	l, m := common, multiprocessors[c]
	l.MaxWarps, l.MaxBlocks, l.MaxSharedMemory = m.maxWarps, m.maxBlocks, m.sharedKiB*kib
	if halfBlocks[c] {
		l.BlockRegisters = 32 * kib
	}
	return l
}

// merged takes each limit from the first that has it.
func merged(a, b timeline.Limits) timeline.Limits {
	return timeline.Limits{
		WarpSize:          cmp.Or(a.WarpSize, b.WarpSize),
		MaxWarps:          cmp.Or(a.MaxWarps, b.MaxWarps),
		MaxBlocks:         cmp.Or(a.MaxBlocks, b.MaxBlocks),
		MaxSharedMemory:   cmp.Or(a.MaxSharedMemory, b.MaxSharedMemory),
		MaxRegisters:      cmp.Or(a.MaxRegisters, b.MaxRegisters),
		BlockThreads:      cmp.Or(a.BlockThreads, b.BlockThreads),
		BlockRegisters:    cmp.Or(a.BlockRegisters, b.BlockRegisters),
		BlockSharedMemory: cmp.Or(a.BlockSharedMemory, b.BlockSharedMemory),
	}
}

// optIn is the most shared memory of a block: before 7.0 that of any block, then all of the
// multiprocessor's but what CUDA takes for itself.
func optIn(c capability, d *Device) uint32 {
	if c.major < 7 {
		return d.BlockSharedMemory
	}
	return d.MaxSharedMemory - min(d.ReservedSharedMemory, d.MaxSharedMemory)
}
