package activity

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Cover is the time that intervals cover together. They come by start.
type Cover struct{ End, Total uint64 }

// until is the time that the intervals cover before a moment. All that begin before it have been added, and no other.
func (c *Cover) until(at uint64) uint64 { return c.Total - (max(c.End, at) - at) }

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
	Compute       Class = iota // kernels
	Communication              // kernels of NCCL and NVSHMEM
	Copy
	Set
)

// KernelClass returns the class of a kernel by its mangled name.
func KernelClass(mangled string) Class {
	if timeline.CommunicationLibrary(mangled) != "" {
		return Communication
	}
	return Compute
}

// ClassOf returns the class of a piece of work.
func ClassOf(w *timeline.Work) Class {
	switch w.Kind {
	case timeline.KernelWork:
		return KernelClass(w.Shape.Kernel.Name)
	case timeline.MemcpyWork:
		return Copy
	}
	return Set
}

// Times are the times in which work of each class was under way. Work comes by start.
type Times struct{ any, kernels, compute, communication, copies, either Cover }

func (t *Times) cover(start, end uint64, c Class) {
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

// A Sum has some of the times up to a moment.
type Sum struct {
	Busy                   uint64 // with any work
	Compute, Communication uint64 // Compute is that of other kernels
	CommunicationOverlap   uint64 // with communication and with other kernels
	Copies                 uint64
	CopyOverlap            uint64 // with copies and with kernels
}

// Until returns the times up to a moment. All work that starts before it has been added, and no other.
func (t *Times) Until(at uint64) Sum {
	s := Sum{
		Busy: t.any.until(at), Compute: t.compute.until(at), Communication: t.communication.until(at),
		Copies: t.copies.until(at),
	}
	kernels := t.kernels.until(at)
	s.CommunicationOverlap = s.Compute + s.Communication - kernels
	s.CopyOverlap = kernels + s.Copies - t.either.until(at)
	return s
}

// Less returns the times from an earlier moment to that of the sum.
func (s Sum) Less(earlier Sum) Sum {
	return Sum{
		s.Busy - earlier.Busy, s.Compute - earlier.Compute, s.Communication - earlier.Communication,
		s.CommunicationOverlap - earlier.CommunicationOverlap, s.Copies - earlier.Copies, s.CopyOverlap - earlier.CopyOverlap,
	}
}

// Plus returns the times of both.
func (s Sum) Plus(o Sum) Sum {
	return Sum{
		s.Busy + o.Busy, s.Compute + o.Compute, s.Communication + o.Communication,
		s.CommunicationOverlap + o.CommunicationOverlap, s.Copies + o.Copies, s.CopyOverlap + o.CopyOverlap,
	}
}

// Kernels is the time with kernels, communication included.
func (s *Sum) Kernels() uint64 { return s.Compute + s.Communication - s.CommunicationOverlap }

// Exposed is the time with communication and without other kernels.
func (s *Sum) Exposed() uint64 { return s.Communication - s.CommunicationOverlap }

// Blocks is the number of blocks of a grid.
func Blocks(grid [3]uint32) uint64 {
	n := uint64(grid[0]) * uint64(grid[1])
	if n > 1<<32 {
		return n // more than any device has multiprocessors
	}
	return n * uint64(grid[2])
}
