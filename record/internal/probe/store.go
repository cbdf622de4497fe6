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

// An eventStore is the memory into which the eBPF program writes its events, mapped by the
// recorder: chunks of events, each chunk of one thread, and a slot for each thread. The file store.h
// of package bpf describes the memory. Its methods are for one goroutine at a time.
type eventStore struct {
	maps   storeMaps
	mapped [][]byte

	chunks  []bpf.ProbesChunk // those that are mapped; the capacity is all
	slots   []bpf.ProbesSlot
	queue   []uint64 // circular queue of the numbers of free chunks
	supply  *bpf.ProbesSupply
	callers Callers

	seen uint64      // entries of the queue that have been looked at
	open []openChunk // chunks that were taken and not given back, in the order of taking
}

type storeMaps struct{ chunks, slots, queue, stock, callers *ebpf.Map }

const (
	chunkBytes = uint32(unsafe.Sizeof(bpf.ProbesChunk{}))
	chunkHead  = uint32(unsafe.Offsetof(bpf.ProbesChunk{}.Events))
)

// openEventStore makes the maps. The kernel clears their memory, which takes tens of milliseconds
// for 64 MiB.
func openEventStore(l storeLayout) (*eventStore, error) {
	s := &eventStore{}
	for _, m := range []struct {
		to      **ebpf.Map
		size    uintptr
		entries uint32
	}{
		{&s.maps.chunks, unsafe.Sizeof(bpf.ProbesChunk{}), l.Chunks},
		{&s.maps.slots, unsafe.Sizeof(bpf.ProbesSlot{}), l.Slots},
		{&s.maps.queue, 8, l.Queue},
		{&s.maps.stock, unsafe.Sizeof(bpf.ProbesSupply{}), 1},
		{&s.maps.callers, unsafe.Sizeof(bpf.ProbesCallerTable{}), 1},
	} {
		made, err := ebpf.NewMap(&ebpf.MapSpec{
			Type: ebpf.Array, KeySize: 4, ValueSize: uint32(m.size), MaxEntries: m.entries, Flags: unix.BPF_F_MMAPABLE,
		})
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		*m.to = made
	}
	if err := s.mapAll(l); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping the buffers: %w", err), s.close())
	}
	for i := range l.Chunks {
		s.queue[i] = uint64(i)
	}
	atomic.StoreUint64(&s.supply.Given, uint64(l.Chunks))
	return s, nil
}

func (s *eventStore) mapAll(l storeLayout) (err error) {
	if err = s.reserveChunks(l.Chunks); err != nil {
		return err
	}
	if s.slots, err = mapArray[bpf.ProbesSlot](s, s.maps.slots, l.Slots); err != nil {
		return err
	}
	if s.queue, err = mapArray[uint64](s, s.maps.queue, l.Queue); err != nil {
		return err
	}
	supply, err := mapArray[bpf.ProbesSupply](s, s.maps.stock, 1)
	if err != nil {
		return err
	}
	s.supply = &supply[0]
	callers, err := mapArray[bpf.ProbesCallerTable](s, s.maps.callers, 1)
	if err == nil {
		s.callers.table = &callers[0]
	}
	return err
}

// reserveChunks reserves addresses for all chunks and maps the first ones.
func (s *eventStore) reserveChunks(n uint32) error {
	b, err := unix.Mmap(-1, 0, int(n)*int(chunkBytes), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	s.mapped = append(s.mapped, b)
	s.chunks = unsafe.Slice((*bpf.ProbesChunk)(unsafe.Pointer(unsafe.SliceData(b))), n)[:0]
	return s.mapChunks(0)
}

// chunksAtOnce is the number of chunks that are mapped at a time. All of 64 MiB take 7 ms to map and unmap, and most
// recordings use a few.
const chunksAtOnce = 256

// mapChunks maps the chunks up to a number, if there are so many.
func (s *eventStore) mapChunks(number uint32) error {
	for n := len(s.chunks); int(number) >= n && n < cap(s.chunks); n = len(s.chunks) {
		more := s.chunks[n:min(n+chunksAtOnce, cap(s.chunks))]
		_, err := unix.MmapPtr(s.maps.chunks.FD(), int64(n)*int64(chunkBytes), unsafe.Pointer(unsafe.SliceData(more)),
			uintptr(len(more))*uintptr(chunkBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
		if err != nil {
			return err
		}
		s.chunks = s.chunks[:n+len(more)]
	}
	return nil
}

// mapChunkOf maps the chunk of a claimed thread, which may have got it since the last drain.
func (s *eventStore) mapChunkOf(t callingThread) error {
	if number := uint32(s.slots[t.Slot].Position >> 32); number != noChunk {
		return s.mapChunks(number)
	}
	return nil
}

// mapArray maps a BPF array into memory. Its values are of type T, whose size is a multiple of
// 8.
func mapArray[T any](s *eventStore, m *ebpf.Map, n uint32) ([]T, error) {
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

// shared are the store's maps, by name of the map of the eBPF program that each replaces.
func (s *eventStore) shared() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		bpf.ProbesMapChunks: s.maps.chunks, bpf.ProbesMapSlots: s.maps.slots,
		bpf.ProbesMapQueue: s.maps.queue, bpf.ProbesMapStock: s.maps.stock, bpf.ProbesMapCallers: s.maps.callers,
	}
}

// close unmaps the memory. The kernel frees it when the eBPF program is gone, too.
func (s *eventStore) close() error {
	s.callers.close()
	var errs []error
	for _, b := range s.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	s.mapped, s.chunks, s.slots, s.queue, s.supply = nil, nil, nil, nil, nil
	return errors.Join(append(errs, s.maps.chunks.Close(), s.maps.slots.Close(), s.maps.queue.Close(),
		s.maps.stock.Close(), s.maps.callers.Close())...)
}

// A storeLayout is the number of entries of each map of a store. All but Chunks are powers of two.
type storeLayout struct {
	Chunks uint32 // chunks of memory for events
	Queue  uint32 // places in the queue of free chunks
	Slots  uint32 // slots of threads
}

// newStoreLayout returns the layout for a number of bytes of events and a number of threads.
func newStoreLayout(bytes, threads int) storeLayout {
	chunks := uint32(max(bytes/int(chunkBytes), 1))
	return storeLayout{Chunks: chunks, Queue: powerOfTwo(chunks), Slots: powerOfTwo(uint32(threads))}
}

// bytes is the memory for events.
func (l storeLayout) bytes() int { return int(l.Chunks) * int(chunkBytes) }

// powerOfTwo is the least power of two that is not less than n.
func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(max(n, 1)-1) }

// An openChunk is a chunk that a thread may still write to, and the place up to which it was
// delivered.
type openChunk struct {
	number uint32
	at     uint32 // bytes that have been delivered
}

// drain gives every event that is published by now to take. It calls begin before and end after
// each run of events of one thread. An event is valid during the call only.
//
// fill is the share, from 0 to 1, of the memory that was free at the last drain and has been
// taken since. all is false if a thread was in the middle of taking a chunk, whose events were
// passed over.
func (s *eventStore) drain(take func(event []byte) error, begin, end func()) (fill float64, all bool, err error) {
	taken := atomic.LoadUint64(&s.supply.Taken)
	if fresh, free := taken-s.seen, s.supply.Given-taken; fresh > 0 {
		fill = float64(fresh) / float64(fresh+free)
	}
	for ; s.seen < taken; s.seen++ {
		number := uint32(s.queue[s.seen&uint64(len(s.queue)-1)])
		if err := s.mapChunks(number); err != nil {
			return fill, false, fmt.Errorf("mapping the buffers: %w", err)
		}
		s.open = append(s.open, openChunk{number, chunkHead})
	}
	all = true
	kept := s.open[:0]
	for i, c := range s.open {
		begin()
		left, ready, err := s.read(&c, take)
		end()
		if err != nil {
			s.open = append(kept, s.open[i:]...)
			return fill, false, err
		}
		all = all && ready
		if left {
			s.giveBack(c.number)
		} else {
			kept = append(kept, c)
		}
	}
	s.open = kept
	return fill, all, nil
}

// read delivers the new events of a chunk. left reports that its thread has left the chunk; ready
// is false while a thread is in the middle of taking it.
func (s *eventStore) read(o *openChunk, take func(event []byte) error) (left, ready bool, err error) {
	if int(o.number) >= len(s.chunks) {
		return false, false, fmt.Errorf("the buffers hold a malformed queue with chunk %d", o.number)
	}
	c := &s.chunks[o.number]
	if atomic.LoadUint64(&c.Id) == 0 {
		return false, false, nil
	}
	if int(c.Slot) >= len(s.slots) {
		return false, false, fmt.Errorf("the buffers hold a malformed chunk of slot %d", c.Slot)
	}
	position := atomic.LoadUint64(&s.slots[c.Slot].Position)
	end := uint32(position)
	if uint32(position>>32) != o.number {
		left, end = true, atomic.LoadUint32(&c.Final)
	}
	err = o.deliver(unsafe.Slice((*byte)(unsafe.Pointer(c)), chunkBytes), end, take)
	return left, true, err
}

// deliver gives the events up to a byte of the chunk to take.
func (o *openChunk) deliver(chunk []byte, end uint32, take func(event []byte) error) error {
	for o.at < end {
		if end > chunkBytes || end-o.at < bpf.HeaderSize {
			return fmt.Errorf("the buffers hold a malformed chunk with an event of %d bytes", int(end)-int(o.at))
		}
		event := chunk[o.at:end]
		size := bpf.HeaderSize + 8*uint32(event[26])
		if err := take(event[:min(size, end-o.at)]); err != nil {
			return err
		}
		o.at += size
	}
	return nil
}

// giveBack returns a chunk to the threads.
func (s *eventStore) giveBack(number uint32) {
	atomic.StoreUint64(&s.chunks[number].Id, 0)
	s.queue[s.supply.Given&uint64(len(s.queue)-1)] = uint64(number)
	atomic.StoreUint64(&s.supply.Given, s.supply.Given+1)
}

// Marks that the eBPF program sets: the ID of a slot that is being filled or emptied, and the
// number that stands for no chunk.
const (
	slotClaimed = ^uint64(0)
	noChunk     = ^uint32(0)
)

// A callingThread is a thread that has made probed calls.
type callingThread struct {
	PID, TID uint32
	Slot     uint32 // index of its slot
}

func (t callingThread) id() uint64 { return uint64(t.PID)<<32 | uint64(t.TID) }

// threads lists the threads that have slots.
func (s *eventStore) threads() []callingThread {
	var threads []callingThread
	for i := range s.slots {
		if id := atomic.LoadUint64(&s.slots[i].Id); id != 0 && id != slotClaimed {
			threads = append(threads, callingThread{uint32(id >> 32), uint32(id), uint32(i)})
		}
	}
	return threads
}

// claim takes a slot away from its thread, which must make no more probed calls. It returns
// false if the thread has ended meanwhile; then its calls are among the events.
func (s *eventStore) claim(t callingThread) bool {
	return atomic.CompareAndSwapUint64(&s.slots[t.Slot].Id, t.id(), slotClaimed)
}

// claimed is the slot of a thread that was claimed.
func (s *eventStore) claimed(t callingThread) *bpf.ProbesSlot { return &s.slots[t.Slot] }

// tail is the innermost open call of a claimed thread if that lies behind the thread's events,
// else nil.
func (s *eventStore) tail(t callingThread) *bpf.ProbesEvent {
	slot := &s.slots[t.Slot]
	number, at := uint32(slot.Position>>32), uint32(slot.Position)
	if slot.Tail == 0 || int(number) >= len(s.chunks) || at > chunkBytes-bpf.ChunkRoom {
		return nil
	}
	return (*bpf.ProbesEvent)(unsafe.Add(unsafe.Pointer(&s.chunks[number]), at))
}

// release frees the slot of a claimed thread, and leaves its chunk to drain.
func (s *eventStore) release(t callingThread) {
	slot := &s.slots[t.Slot]
	if number := uint32(slot.Position >> 32); int(number) < len(s.chunks) {
		atomic.StoreUint32(&s.chunks[number].Final, uint32(slot.Position))
	}
	atomic.StoreUint64(&slot.Position, uint64(noChunk)<<32|uint64(chunkBytes))
	atomic.StoreUint64(&slot.Id, 0)
}
