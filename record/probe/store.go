package probe

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
)

// A store is the memory that the probes write their events to, and what they keep of
// threads, all of it mapped. Package bpf's store.h says how it works.
type store struct {
	maps   storeMaps
	mapped [][]byte

	chunks []bpf.ProbesChunk
	slots  []bpf.ProbesSlot
	queue  []uint64 // numbers of chunks that were free, a ring
	supply *bpf.ProbesSupply

	seen uint64  // of the queue
	open []piece // chunks that were taken and not given back, in that order
}

type storeMaps struct{ chunks, slots, queue, stock *ebpf.Map }

// A piece is a chunk of which events were delivered up to a byte.
type piece struct {
	number uint32
	at     uint32
}

const (
	chunkBytes = uint32(unsafe.Sizeof(bpf.ProbesChunk{}))
	chunkHead  = uint32(unsafe.Offsetof(bpf.ProbesChunk{}.Events))
)

// storeLayout says how many chunks there are for so many bytes, how long the queue is
// and how many slots there are for so many threads: powers of two but for the first.
func storeLayout(bytes, threads int) (chunks, queue, slots uint32) {
	chunks = uint32(max(bytes/int(chunkBytes), 1))
	return chunks, powerOfTwo(chunks), powerOfTwo(uint32(threads))
}

// powerOfTwo is the next one from n on.
func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(max(n, 1)-1) }

// openStore makes the maps. The kernel clears their memory, which takes tens of
// milliseconds for the default size.
func openStore(bytes, threads int) (*store, error) {
	chunks, queue, slots := storeLayout(bytes, threads)
	s := &store{}
	for _, m := range []struct {
		to      **ebpf.Map
		size    uintptr
		entries uint32
	}{
		{&s.maps.chunks, unsafe.Sizeof(bpf.ProbesChunk{}), chunks},
		{&s.maps.slots, unsafe.Sizeof(bpf.ProbesSlot{}), slots},
		{&s.maps.queue, 8, queue},
		{&s.maps.stock, unsafe.Sizeof(bpf.ProbesSupply{}), 1},
	} {
		made, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(m.size), MaxEntries: m.entries, Flags: unix.BPF_F_MMAPABLE})
		if isPermission(err) {
			return nil, errors.Join(loadError(ModeAuto, err), s.close())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("no memory for buffers of %d bytes (choose smaller ones): %w", bytes, err), s.close())
		}
		*m.to = made
	}
	if err := s.mapAll(chunks, slots, queue); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping the buffers: %w", err), s.close())
	}
	for i := range chunks {
		s.queue[i] = uint64(i)
	}
	atomic.StoreUint64(&s.supply.Given, uint64(chunks))
	return s, nil
}

func (s *store) mapAll(chunks, slots, queue uint32) (err error) {
	if s.chunks, err = mapArray[bpf.ProbesChunk](s, s.maps.chunks, chunks); err != nil {
		return err
	}
	if s.slots, err = mapArray[bpf.ProbesSlot](s, s.maps.slots, slots); err != nil {
		return err
	}
	if s.queue, err = mapArray[uint64](s, s.maps.queue, queue); err != nil {
		return err
	}
	supply, err := mapArray[bpf.ProbesSupply](s, s.maps.stock, 1)
	if err == nil {
		s.supply = &supply[0]
	}
	return err
}

// mapArray maps an array map whose values are of type T, a multiple of 8 bytes.
func mapArray[T any](s *store, m *ebpf.Map, n uint32) ([]T, error) {
	var value T
	page := os.Getpagesize()
	size := (int(n)*int(unsafe.Sizeof(value)) + page - 1) &^ (page - 1)
	b, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	s.mapped = append(s.mapped, b)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n), nil
}

func (s *store) close() error {
	var errs []error
	for _, b := range s.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	s.mapped, s.chunks, s.slots, s.queue, s.supply = nil, nil, nil, nil, nil
	return errors.Join(append(errs, s.maps.chunks.Close(), s.maps.slots.Close(), s.maps.queue.Close(), s.maps.stock.Close())...)
}

// drain hands every event that is published by now to take. The event is valid during
// the call only. fill says how much was taken of what was free at the last look, 0 to 1;
// all says that no chunk was passed over as a thread was just taking it.
func (s *store) drain(take func(event []byte) error) (fill float64, all bool, err error) {
	return s.drainRuns(take, func() {}, func() {})
}

// drainRuns is drain with functions for the beginning and the end of a run of events.
func (s *store) drainRuns(take func(event []byte) error, begin, end func()) (fill float64, all bool, err error) {
	taken := atomic.LoadUint64(&s.supply.Taken)
	if fresh, free := taken-s.seen, s.supply.Given-taken; fresh > 0 {
		fill = float64(fresh) / float64(fresh+free)
	}
	for ; s.seen < taken; s.seen++ {
		s.open = append(s.open, piece{uint32(s.queue[s.seen&uint64(len(s.queue)-1)]), chunkHead})
	}
	all = true
	kept := s.open[:0]
	for i, p := range s.open {
		begin()
		left, ready, err := s.read(&p, take)
		end()
		if err != nil {
			s.open = append(kept, s.open[i:]...)
			return fill, false, err
		}
		all = all && ready
		if left {
			s.give(p.number)
		} else {
			kept = append(kept, p)
		}
	}
	s.open = kept
	return fill, all, nil
}

// read delivers what is new in a chunk. left says that its thread has left it, ready is
// false while a thread is just taking it.
func (s *store) read(p *piece, take func(event []byte) error) (left, ready bool, err error) {
	if int(p.number) >= len(s.chunks) {
		return false, false, fmt.Errorf("the buffers hold a malformed queue with chunk %d", p.number)
	}
	c := &s.chunks[p.number]
	if atomic.LoadUint64(&c.Id) == 0 {
		return false, false, nil
	}
	if int(c.Slot) >= len(s.slots) {
		return false, false, fmt.Errorf("the buffers hold a malformed chunk of slot %d", c.Slot)
	}
	position := atomic.LoadUint64(&s.slots[c.Slot].Position)
	end := uint32(position)
	if uint32(position>>32) != p.number {
		left, end = true, atomic.LoadUint32(&c.Final)
	}
	err = p.deliver(unsafe.Slice((*byte)(unsafe.Pointer(c)), chunkBytes), end, take)
	return left, true, err
}

// deliver hands on the events up to a byte of the chunk.
func (p *piece) deliver(chunk []byte, end uint32, take func(event []byte) error) error {
	for p.at < end {
		if end > chunkBytes || end-p.at < bpf.HeaderSize {
			return fmt.Errorf("the buffers hold a malformed chunk with an event of %d bytes", int(end)-int(p.at))
		}
		event := chunk[p.at:end]
		size := bpf.HeaderSize + 8*uint32(event[26])
		if err := take(event[:min(size, end-p.at)]); err != nil {
			return err
		}
		p.at += size
	}
	return nil
}

// give gives a chunk back to the threads.
func (s *store) give(number uint32) {
	atomic.StoreUint64(&s.chunks[number].Id, 0)
	s.queue[s.supply.Given&uint64(len(s.queue)-1)] = uint64(number)
	atomic.StoreUint64(&s.supply.Given, s.supply.Given+1)
}

// Marks of the eBPF program: the ID of a slot that someone fills or empties, and the
// number of no chunk.
const (
	claimed = ^uint64(0)
	noChunk = ^uint32(0)
)

// claim takes a slot from its thread, which makes no probed calls any more; false when
// the thread has ended meanwhile.
func (s *store) claim(t slotThread) bool {
	return atomic.CompareAndSwapUint64(&s.slots[t.slot].Id, t.id, claimed)
}

// tail is the innermost open call of a claimed slot if it lies behind the events.
func (s *store) tail(slot uint32) *bpf.ProbesEvent {
	t := &s.slots[slot]
	number, at := uint32(t.Position>>32), uint32(t.Position)
	if t.Tail == 0 || int(number) >= len(s.chunks) || at > chunkBytes-bpf.ChunkRoom {
		return nil
	}
	return (*bpf.ProbesEvent)(unsafe.Add(unsafe.Pointer(&s.chunks[number]), at))
}

// release frees a slot that was claimed, and leaves its chunk to drain.
func (s *store) release(t slotThread) {
	slot := &s.slots[t.slot]
	if number := uint32(slot.Position >> 32); int(number) < len(s.chunks) {
		atomic.StoreUint32(&s.chunks[number].Final, uint32(slot.Position))
	}
	atomic.StoreUint64(&slot.Position, uint64(noChunk)<<32|uint64(chunkBytes))
	atomic.StoreUint64(&slot.Id, 0)
}

// replacements are the maps by their names in the eBPF program.
func (s *store) replacements() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		bpf.ProbesMapChunks: s.maps.chunks, bpf.ProbesMapSlots: s.maps.slots,
		bpf.ProbesMapQueue: s.maps.queue, bpf.ProbesMapStock: s.maps.stock,
	}
}
