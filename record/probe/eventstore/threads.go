package eventstore

import (
	"sync/atomic"
	"unsafe"

	"github.com/cudatrace/cudatrace/bpf"
)

// Marks that the eBPF program sets: the ID of a slot that is being filled or emptied, and the
// number that stands for no chunk.
const (
	claimed = ^uint64(0)
	noChunk = ^uint32(0)
)

// A Thread is a thread that has made probed calls.
type Thread struct {
	PID, TID uint32
	Slot     uint32 // index of its slot
}

func (t Thread) id() uint64 { return uint64(t.PID)<<32 | uint64(t.TID) }

// Threads lists the threads that have slots.
func (s *Store) Threads() []Thread {
	var threads []Thread
	for i := range s.slots {
		if id := atomic.LoadUint64(&s.slots[i].Id); id != 0 && id != claimed {
			threads = append(threads, Thread{uint32(id >> 32), uint32(id), uint32(i)})
		}
	}
	return threads
}

// Claim takes a slot away from its thread, which must make no more probed calls. It returns
// false if the thread has ended meanwhile; then its calls are among the events.
func (s *Store) Claim(t Thread) bool {
	return atomic.CompareAndSwapUint64(&s.slots[t.Slot].Id, t.id(), claimed)
}

// Claimed is the slot of a thread that was claimed.
func (s *Store) Claimed(t Thread) *bpf.ProbesSlot { return &s.slots[t.Slot] }

// Tail is the innermost open call of a claimed thread if that lies behind the thread's events,
// else nil.
func (s *Store) Tail(t Thread) *bpf.ProbesEvent {
	slot := &s.slots[t.Slot]
	number, at := uint32(slot.Position>>32), uint32(slot.Position)
	if slot.Tail == 0 || int(number) >= len(s.chunks) || at > chunkBytes-bpf.ChunkRoom {
		return nil
	}
	return (*bpf.ProbesEvent)(unsafe.Add(unsafe.Pointer(&s.chunks[number]), at))
}

// Release frees the slot of a claimed thread, and leaves its chunk to Drain.
func (s *Store) Release(t Thread) {
	slot := &s.slots[t.Slot]
	if number := uint32(slot.Position >> 32); int(number) < len(s.chunks) {
		atomic.StoreUint32(&s.chunks[number].Final, uint32(slot.Position))
	}
	atomic.StoreUint64(&slot.Position, uint64(noChunk)<<32|uint64(chunkBytes))
	atomic.StoreUint64(&slot.Id, 0)
}
