package timeline

// A GPU is a physical device. Processes may number it differently.
type GPU struct {
	Index           uint32 // the timeline's own number, from 0 without gaps
	PID, Device     uint32 // the first process that used it, and the device number in that process
	Name            string // the product name, with the name that the program gave
	UUID            string // 16 bytes in hexadecimal, "" when not known
	Major, Minor    uint32 // compute capability
	Multiprocessors uint32
	Memory          uint64 // bytes
	Bandwidth       uint64 // memory bandwidth, kB/s
	L2Cache         uint32 // bytes
	Clock           uint32 // highest clock rate of the multiprocessors, kHz
	CopyEngines     uint32
	ECC             bool // memory errors are corrected
	Limits          Limits
	Link            Link
}

// Limits bound the blocks that run on a multiprocessor at a time. A log that has none leaves
// them 0; package occupancy knows them by compute capability.
type Limits struct {
	WarpSize                                           uint32 // threads
	MaxWarps, MaxBlocks, MaxSharedMemory, MaxRegisters uint32 // of a multiprocessor
	BlockThreads, BlockRegisters, BlockSharedMemory    uint32 // most of a block
}

// A Link is the PCIe link of a GPU. What is not known is 0.
type Link struct {
	Address                 string // PCI address: 0000:18:00.0
	Generation, Width       uint32 // when it was read; a GPU without work may have lowered the generation
	MaxGeneration, MaxWidth uint32 // most that both ends can do
}

// laneRates are the bytes a second that a lane carries in one direction, by PCIe generation: without
// the line code (8b/10b, 128b/130b, flits of 242 in 256 bytes), with the headers of packets.
var laneRates = [...]float64{
	1: 250e6, 2: 500e6, 3: 8e9 * 128 / 130 / 8, 4: 16e9 * 128 / 130 / 8, 5: 32e9 * 128 / 130 / 8, 6: 64e9 * 242 / 256 / 8,
	7: 128e9 * 242 / 256 / 8,
}

// Rate is what the link carries in one direction, in bytes a second, headers of packets included; 0
// where the link is not known. A copy between host and device reaches 80 to 90 % of it. (Not every
// such copy passes PCIe: Grace Hopper has a faster way.)
func (l *Link) Rate() float64 {
	generation := max(l.Generation, l.MaxGeneration)
	if generation >= uint32(len(laneRates)) {
		return 0
	}
	width := l.Width
	if width == 0 {
		width = l.MaxWidth
	}
	return laneRates[generation] * float64(width)
}
