package usage

// A Cover is the time that intervals cover together. They come by start.
type Cover struct{ End, Total uint64 }

// Add adds an interval.
func (c *Cover) Add(start, end uint64) {
	if start = max(start, c.End); end > start {
		c.Total += end - start // no overflow: intervals that are counted do not overlap
		c.End = end
	}
}

// A Class is a kind of GPU work that keeps a device busy.
type Class uint8

// The classes.
const (
	Compute       Class = iota // kernels and graphs
	Communication              // kernels of NCCL and NVSHMEM
	Copy
	Set
)

// Times are the times in which work of each class was under way. Work comes by start.
type Times struct{ any, kernels, compute, communication, copies, either Cover }

func (t *Times) add(start, end uint64, c Class) {
	t.any.Add(start, end)
	switch c {
	case Set:
		return
	case Copy:
		t.copies.Add(start, end)
	case Communication:
		t.kernels.Add(start, end)
		t.communication.Add(start, end)
	case Compute:
		t.kernels.Add(start, end)
		t.compute.Add(start, end)
	}
	t.either.Add(start, end)
}

// Busy is the time with any work.
func (t *Times) Busy() uint64 { return t.any.Total }

// Kernels is the time with kernels or graphs, communication included.
func (t *Times) Kernels() uint64 { return t.kernels.Total }

// Compute is the time with kernels or graphs, communication apart.
func (t *Times) Compute() uint64 { return t.compute.Total }

// Communication is the time with communication.
func (t *Times) Communication() uint64 { return t.communication.Total }

// Copies is the time with copies.
func (t *Times) Copies() uint64 { return t.copies.Total }

// CopyOverlap is the time with copies and with kernels or graphs.
func (t *Times) CopyOverlap() uint64 { return both(&t.kernels, &t.copies, &t.either) }

// CommunicationOverlap is the time with communication and with other kernels or graphs.
func (t *Times) CommunicationOverlap() uint64 { return both(&t.compute, &t.communication, &t.kernels) }

// both is the time in which two covers overlap, by the cover of either.
func both(a, b, either *Cover) uint64 { return a.Total - (either.Total - b.Total) }

// Blocks is the number of blocks of a grid.
func Blocks(grid [3]uint32) uint64 {
	n := uint64(grid[0]) * uint64(grid[1])
	if n > 1<<32 {
		return n // more than any device has multiprocessors
	}
	return n * uint64(grid[2])
}
