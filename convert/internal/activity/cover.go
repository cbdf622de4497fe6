package activity

import (
	"strings"

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

// ClassOf returns the class of a kernel by its mangled name: the kernels of NCCL and NVSHMEM
// communicate.
func ClassOf(names timeline.KernelNames, mangled string) Class {
	if n := names.Of(mangled).Short; strings.HasPrefix(n, "nccl") || strings.HasPrefix(n, "nvshmem") {
		return Communication
	}
	return Compute
}

// ClassOfWork returns the class of a piece of work.
func ClassOfWork(names timeline.KernelNames, w *timeline.Work) Class {
	switch w.Kind {
	case timeline.KernelWork:
		return ClassOf(names, w.Shape.Kernel.Name)
	case timeline.MemcpyWork:
		return Copy
	}
	return Set
}

// maxShapes bounds the shapes of kernels whose class is kept.
const maxShapes = 1 << 14

// Classes returns a function that returns the class of a piece of work.
func Classes(names timeline.KernelNames) func(*timeline.Work) Class {
	of := make(map[*timeline.Shape]Class)
	return func(w *timeline.Work) Class {
		if w.Kind != timeline.KernelWork {
			return ClassOfWork(names, w)
		}
		class, known := of[w.Shape]
		if !known {
			class = ClassOfWork(names, w)
			if len(of) < maxShapes {
				of[w.Shape] = class
			}
		}
		return class
	}
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

// Busy is the time with any work.
func (t *Times) Busy() uint64 { return t.any.Total }

// Kernels is the time with kernels, communication included.
func (t *Times) Kernels() uint64 { return t.kernels.Total }

// Compute is the time with kernels, communication apart.
func (t *Times) Compute() uint64 { return t.compute.Total }

// Communication is the time with communication.
func (t *Times) Communication() uint64 { return t.communication.Total }

// Copies is the time with copies.
func (t *Times) Copies() uint64 { return t.copies.Total }

// CopyOverlap is the time with copies and with kernels.
func (t *Times) CopyOverlap() uint64 { return both(&t.kernels, &t.copies, &t.either) }

// CommunicationOverlap is the time with communication and with other kernels.
func (t *Times) CommunicationOverlap() uint64 { return both(&t.compute, &t.communication, &t.kernels) }

// both is the time in which two covers overlap, by the cover of either.
func both(a, b, either *Cover) uint64 { return a.Total - (either.Total - b.Total) }

// A Sum has some of the times up to a moment, by the names of their methods.
type Sum struct{ Busy, Compute, Communication, CommunicationOverlap, Copies uint64 }

// Until returns the times up to a moment. All work that starts before it has been added, and no other.
func (t *Times) Until(at uint64) Sum {
	s := Sum{Busy: t.any.until(at), Compute: t.compute.until(at), Communication: t.communication.until(at), Copies: t.copies.until(at)}
	s.CommunicationOverlap = s.Compute + s.Communication - t.kernels.until(at)
	return s
}

// Less returns the times from an earlier moment to that of the sum.
func (s Sum) Less(earlier Sum) Sum {
	return Sum{s.Busy - earlier.Busy, s.Compute - earlier.Compute, s.Communication - earlier.Communication,
		s.CommunicationOverlap - earlier.CommunicationOverlap, s.Copies - earlier.Copies}
}

// Plus returns the times of both.
func (s Sum) Plus(o Sum) Sum {
	return Sum{s.Busy + o.Busy, s.Compute + o.Compute, s.Communication + o.Communication, s.CommunicationOverlap + o.CommunicationOverlap, s.Copies + o.Copies}
}

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
