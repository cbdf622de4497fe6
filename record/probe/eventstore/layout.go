package eventstore

import "math/bits"

// A Layout says how many entries each map of a store has. All but Chunks are powers of two.
type Layout struct {
	Chunks uint32 // of memory for events
	Queue  uint32 // of numbers of free chunks
	Slots  uint32 // for threads
}

// NewLayout divides so many bytes for events, and makes room for so many threads.
func NewLayout(bytes, threads int) Layout {
	chunks := uint32(max(bytes/int(chunkBytes), 1))
	return Layout{Chunks: chunks, Queue: powerOfTwo(chunks), Slots: powerOfTwo(uint32(threads))}
}

// Bytes is the memory for events.
func (l Layout) Bytes() int { return int(l.Chunks) * int(chunkBytes) }

// powerOfTwo is the least one that is not less than n.
func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(max(n, 1)-1) }
