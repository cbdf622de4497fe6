package probe

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// fakeStore is a store in plain memory.
func fakeStore(chunks, slots int) *store {
	s := &store{
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
func (s *store) next(slot uint32) (number uint32, ok bool) {
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
func (s *store) write(slot uint32, value uint64) bool {
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

func (s *store) values(t *testing.T) []uint64 {
	t.Helper()
	var got []uint64
	_, _, err := s.drain(func(b []byte) error {
		got = append(got, binary.LittleEndian.Uint64(b[bpf.HeaderSize:]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestStore(t *testing.T) {
	s := fakeStore(3, 2)
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
	if _, all, err := s.drain(func([]byte) error { return nil }); all || err != nil {
		t.Errorf("all is drained: %v (%v)", all, err)
	}
	s.chunks[number].Id = 1
	s.write(0, 7)
	if diff := cmp.Diff([]uint64{7}, s.values(t)); diff != "" {
		t.Error(diff)
	}
}

// The chunk of a thread that has ended is read to its end, although another has its slot.
func TestReusedSlot(t *testing.T) {
	s := fakeStore(2, 1)
	s.write(0, 1)
	s.slots[0].Id = 5
	s.slots[0].Depth, s.slots[0].Tail = 1, 1
	thread := slotThread{5, 0}
	if s.claim(slotThread{6, 0}) || !s.claim(thread) || s.claim(thread) {
		t.Error("a slot is not claimed once, by its thread")
	}
	if e := s.tail(0); e == nil || uintptr(unsafe.Pointer(e))-uintptr(unsafe.Pointer(&s.chunks[0])) != uintptr(chunkHead)+bpf.HeaderSize+8 {
		t.Error("the open call is not behind the events")
	}
	s.release(thread)
	if s.tail(0) != nil || s.slots[0].Id != 0 {
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
	for name, spoil := range map[string]func(*store){
		"chunk":           func(s *store) { s.queue[0] = 99 },
		"slot":            func(s *store) { s.chunks[0].Slot = 99 },
		"end":             func(s *store) { s.slots[0].Position = uint64(chunkBytes) + 8 },
		"end of a closed": func(s *store) { s.slots[0].Position, s.chunks[0].Final = 1<<32, 1<<20 },
		"cut event":       func(s *store) { s.slots[0].Position -= 16 },
		"cut head":        func(s *store) { s.slots[0].Position = uint64(chunkHead) + 8 },
		"event too large": func(s *store) { s.chunks[0].Events[26] = 200 },
	} {
		s := fakeStore(2, 1)
		s.write(0, 1)
		spoil(s)
		var p Prober
		if _, _, err := s.drain(func(b []byte) error { _, err := p.deliver(b, &discard{}); return err }); err == nil {
			t.Errorf("%s: no error", name)
		}
		if len(s.open) > 1 {
			t.Errorf("%s: %d chunks are open", name, len(s.open))
		}
	}
}

// Many threads at once through little memory, again and again: each call is delivered in
// its thread's order, or lost and counted.
func TestRecycledMemory(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		const calls = 1500
		p, target := open(t, Options{Mode: m, RingBytes: 512 << 10}), startTarget(t, "driver")
		attach(t, p, target)
		o := &orderly{last: map[uint32]uint64{}}
		var over atomic.Bool
		var draining sync.WaitGroup
		draining.Go(func() {
			for !over.Load() && o.err == nil {
				if _, err := p.Drain(o); err != nil {
					o.err = err
				}
			}
		})
		target.run("threads", calls)
		over.Store(true)
		draining.Wait()
		if _, err := p.Finish(o); err != nil || o.err != nil {
			t.Fatal(err, o.err)
		}
		lost := lostCalls(t, p, tracelog.LostRingBuffer)
		if o.calls+int(lost) != 64*calls || o.calls == 0 || len(o.last) > 64 {
			t.Errorf("%d calls and %d lost of %d, by %d threads", o.calls, lost, 64*calls, len(o.last))
		}
	})
}

// orderly is a Sink that checks that each thread's calls come in order.
type orderly struct {
	discard
	last map[uint32]uint64
	err  error
}

func (o *orderly) Call(c *tracelog.Call) {
	o.calls++
	if last, known := o.last[c.TID]; known && c.Args[1] <= last {
		o.err = fmt.Errorf("thread %d made call %d after %d", c.TID, c.Args[1], last)
	}
	o.last[c.TID] = c.Args[1]
}
