package eventstore

import "math/bits"

// A Layout is the number of entries of each map of a store. All but Chunks are powers of two.
type Layout struct {
	Chunks uint32 // chunks of memory for events
	Queue  uint32 // places in the queue of free chunks
	Slots  uint32 // slots of threads
}

// NewLayout returns the layout for a number of bytes of events and a number of threads.
func NewLayout(bytes, threads int) Layout {
	chunks := uint32(max(bytes/int(chunkBytes), 1))
	return Layout{Chunks: chunks, Queue: powerOfTwo(chunks), Slots: powerOfTwo(uint32(threads))}
}

// Bytes is the memory for events.
func (l Layout) Bytes() int { return int(l.Chunks) * int(chunkBytes) }

// powerOfTwo is the least power of two that is not less than n.
func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(max(n, 1)-1) }
