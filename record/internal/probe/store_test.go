package probe

import (
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/must"
)

// inMemory makes a store in plain memory.
func storeInMemory(chunks, slots int) *eventStore {
	s := &eventStore{
		chunks: make([]bpf.ProbesChunk, chunks), slots: make([]bpf.ProbesSlot, slots),
		queue: make([]uint64, powerOfTwo(uint32(chunks))), supply: &bpf.ProbesSupply{Given: uint64(chunks)},
	}
	for i := range s.queue {
		s.queue[i] = uint64(i)
	}
	for i := range s.slots {
		s.slots[i].Position = uint64(noChunk)<<32 | uint64(chunkBytes)
	}
	return s
}

// next does what a thread does for a chunk, but for the last step.
func (s *eventStore) next(slot uint32) (number uint32, ok bool) {
	if s.supply.Taken == s.supply.Given {
		return 0, false
	}
	number = uint32(s.queue[s.supply.Taken&uint64(len(s.queue)-1)])
	s.supply.Taken++
	t := &s.slots[slot]
	if old := uint32(t.Position >> 32); old != noChunk {
		s.chunks[old].Final = uint32(t.Position)
	}
	s.chunks[number].Slot = slot
	t.Position = uint64(number)<<32 | uint64(chunkHead)
	return number, true
}

// write has a thread write an event with one argument; false when there is no room.
func (s *eventStore) write(slot uint32, value uint64) bool {
	t := &s.slots[slot]
	if uint32(t.Position) > chunkBytes-bpf.ChunkRoom {
		number, ok := s.next(slot)
		if !ok {
			return false
		}
		s.chunks[number].Id = 1
	}
	event := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&s.chunks[t.Position>>32]), uint32(t.Position))), bpf.HeaderSize+8)
	event[26] = 1
	binary.LittleEndian.PutUint64(event[bpf.HeaderSize:], value)
	t.Position += uint64(len(event))
	return true
}

// drain is Drain without begin and end.
func (s *eventStore) drainAll(take func(event []byte) error) (all bool, err error) {
	_, all, err = s.drain(take, func() {}, func() {})
	return all, err
}

func (s *eventStore) values(t *testing.T) []uint64 {
	t.Helper()
	var got []uint64
	must.Get(s.drainAll(func(b []byte) error {
		got = append(got, binary.LittleEndian.Uint64(b[bpf.HeaderSize:]))
		return nil
	}))(t)
	return got
}

func TestStore(t *testing.T) {
	s := storeInMemory(3, 2)
	s.write(0, 1)
	s.write(1, 100)
	s.write(0, 2)
	if diff := cmp.Diff([]uint64{1, 2, 100}, s.values(t)); diff != "" {
		t.Error(diff)
	}
	if got := s.values(t); got != nil {
		t.Errorf("again: %d", got)
	}
	// Both fill the memory: one has two chunks of it.
	var want []uint64
	for i := uint64(3); s.write(0, i); i++ {
		want = append(want, i)
	}
	s.write(1, 101)
	// What is new comes in the order in which the chunks were taken.
	first := (int(chunkBytes-bpf.ChunkRoom-chunkHead)/(bpf.HeaderSize+8) + 1) - 2
	want = append(append(append([]uint64{}, want[:first]...), 101), want[first:]...)
	if diff := cmp.Diff(want, s.values(t)); diff != "" {
		t.Error(diff)
	}
	if free := s.supply.Given - s.supply.Taken; free != 1 {
		t.Errorf("%d chunks are free", free)
	}
	// A chunk that a thread is just taking is passed over until it has done so.
	number, _ := s.next(0)
	if all, err := s.drainAll(func([]byte) error { return nil }); all || err != nil {
		t.Errorf("all is drained: %v (%v)", all, err)
	}
	s.chunks[number].Id = 1
	s.write(0, 7)
	if diff := cmp.Diff([]uint64{7}, s.values(t)); diff != "" {
		t.Error(diff)
	}
}

// Chunks are mapped when they are used, and each is the chunk of its number.
func TestChunksAreMappedLater(t *testing.T) {
	const chunks = 2*chunksAtOnce + 3
	p := open(t, Options{OnlyOfFiles: true, BufferBytes: chunks * int(chunkBytes)})
	s := p.events.store
	for _, c := range []struct {
		number uint32
		mapped int
	}{{0, chunksAtOnce}, {chunksAtOnce - 1, chunksAtOnce}, {chunksAtOnce, 2 * chunksAtOnce},
		{chunks - 1, chunks}, {chunks, chunks}} {
		if err := s.mapChunks(c.number); err != nil || len(s.chunks) != c.mapped {
			t.Errorf("for chunk %d, %d are mapped (%v), want %d", c.number, len(s.chunks), err, c.mapped)
		}
	}
	for number := range s.chunks {
		s.chunks[number].Slot = uint32(number)
	}
	var chunk bpf.ProbesChunk
	for _, number := range []uint32{0, chunksAtOnce, chunks - 1} {
		if err := s.maps.chunks.Lookup(number, &chunk); err != nil || chunk.Slot != number {
			t.Errorf("chunk %d is that of number %d (%v)", number, chunk.Slot, err)
		}
	}
}

// The chunk of a thread that has ended is read to its end, although another has its slot.
func TestReusedSlot(t *testing.T) {
	s := storeInMemory(2, 1)
	s.write(0, 1)
	s.slots[0].Id = 5
	s.slots[0].Depth, s.slots[0].Tail = 1, 1
	thread := callingThread{TID: 5}
	if s.claim(callingThread{TID: 6}) || !s.claim(thread) || s.claim(thread) {
		t.Error("a slot is not claimed once, by its thread")
	}
	if e := s.tail(thread); e == nil || uintptr(unsafe.Pointer(e))-uintptr(unsafe.Pointer(&s.chunks[0])) != uintptr(chunkHead)+bpf.HeaderSize+8 {
		t.Error("the open call is not behind the events")
	}
	s.release(thread)
	if s.tail(thread) != nil || s.slots[0].Id != 0 {
		t.Errorf("the slot is not free: %+v", s.slots[0])
	}
	s.write(0, 2)
	if diff := cmp.Diff([]uint64{1, 2}, s.values(t)); diff != "" {
		t.Error(diff)
	}
	if free := s.supply.Given - s.supply.Taken; free != 1 {
		t.Errorf("%d chunks are free", free)
	}
}

// Memory that holds nonsense gives an error.
func TestMalformedStore(t *testing.T) {
	for name, spoil := range map[string]func(*eventStore){
		"chunk":           func(s *eventStore) { s.queue[0] = 99 },
		"slot":            func(s *eventStore) { s.chunks[0].Slot = 99 },
		"end":             func(s *eventStore) { s.slots[0].Position = uint64(chunkBytes) + 8 },
		"end of a closed": func(s *eventStore) { s.slots[0].Position, s.chunks[0].Final = 1<<32, 1<<20 },
		"cut event":       func(s *eventStore) { s.slots[0].Position -= 16 },
		"cut head":        func(s *eventStore) { s.slots[0].Position = uint64(chunkHead) + 8 },
		"event too large": func(s *eventStore) { s.chunks[0].Events[26] = 200 },
	} {
		s := storeInMemory(2, 1)
		s.write(0, 1)
		spoil(s)
		take := func(event []byte) error {
			if len(event) != bpf.HeaderSize+8*int(event[26]) {
				return errors.New("it is cut")
			}
			return nil
		}
		if _, err := s.drainAll(take); err == nil {
			t.Errorf("%s: no error", name)
		}
		if len(s.open) > 1 {
			t.Errorf("%s: %d chunks are open", name, len(s.open))
		}
	}
}

func TestLayout(t *testing.T) {
	for _, c := range []struct {
		bytes, threads int
		want           storeLayout
	}{
		{64 << 20, 4096, storeLayout{16384, 16384, 4096}},
		{100 << 20, 4097, storeLayout{25600, 32768, 8192}},
		{12 << 10, 3, storeLayout{3, 4, 4}},
		{1, 1, storeLayout{1, 1, 1}},
	} {
		if got := newStoreLayout(c.bytes, c.threads); got != c.want {
			t.Errorf("%d bytes, %d threads: %+v", c.bytes, c.threads, got)
		}
	}
}

// A thread that was claimed may have a chunk that no drain has seen: it is mapped before the thread's end is noted there.
func TestChunkOfClaimedThread(t *testing.T) {
	t.Parallel()
	const chunks, filled = chunksAtOnce + 1, 96
	s := open(t, Options{OnlyOfFiles: true, BufferBytes: chunks * int(chunkBytes)}).events.store
	thread := callingThread{PID: 1, TID: 1}
	s.slots[0].Position = uint64(chunksAtOnce)<<32 | filled
	must.Do(t, s.mapChunkOf(thread))
	s.release(thread)
	var chunk bpf.ProbesChunk
	if err := s.maps.chunks.Lookup(uint32(chunksAtOnce), &chunk); err != nil || chunk.Final != filled {
		t.Errorf("the chunk ends at %d (%v), want %d", chunk.Final, err, filled)
	}
	if err := s.mapChunkOf(thread); err != nil { // it has none now
		t.Error(err)
	}
}
