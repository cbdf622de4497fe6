// Package eventstore reads the memory into which the eBPF program writes its events.
//
// Input: the memory, which the recorder maps: chunks of events, each chunk of one thread, and a
// slot for each thread. Output: the threads, and the bytes of the events, in order within a
// thread. The file store.h of package bpf describes the memory.
package eventstore

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
)

// A Store is the mapped memory. Its methods are for one goroutine at a time.
type Store struct {
	maps   maps
	mapped [][]byte

	chunks  []bpf.ProbesChunk
	slots   []bpf.ProbesSlot
	queue   []uint64 // circular queue of the numbers of free chunks
	supply  *bpf.ProbesSupply
	callers Callers

	seen uint64      // entries of the queue that have been looked at
	open []openChunk // chunks that were taken and not given back, in the order of taking
}

type maps struct{ chunks, slots, queue, stock, callers *ebpf.Map }

const (
	chunkBytes = uint32(unsafe.Sizeof(bpf.ProbesChunk{}))
	chunkHead  = uint32(unsafe.Offsetof(bpf.ProbesChunk{}.Events))
)

// Open makes the maps. The kernel clears their memory, which takes tens of milliseconds
// for 64 MiB.
func Open(l Layout) (*Store, error) {
	s := &Store{}
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
		made, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(m.size), MaxEntries: m.entries, Flags: unix.BPF_F_MMAPABLE})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		*m.to = made
	}
	if err := s.mapAll(l); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping the buffers: %w", err), s.Close())
	}
	for i := range l.Chunks {
		s.queue[i] = uint64(i)
	}
	atomic.StoreUint64(&s.supply.Given, uint64(l.Chunks))
	return s, nil
}

func (s *Store) mapAll(l Layout) (err error) {
	if s.chunks, err = mapArray[bpf.ProbesChunk](s, s.maps.chunks, l.Chunks); err != nil {
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

// mapArray maps a BPF array into memory. Its values are of type T, whose size is a multiple of
// 8.
func mapArray[T any](s *Store, m *ebpf.Map, n uint32) ([]T, error) {
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

// Maps are the store's maps, by name of the map of the eBPF program that each replaces.
func (s *Store) Maps() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		bpf.ProbesMapChunks: s.maps.chunks, bpf.ProbesMapSlots: s.maps.slots,
		bpf.ProbesMapQueue: s.maps.queue, bpf.ProbesMapStock: s.maps.stock, bpf.ProbesMapCallers: s.maps.callers,
	}
}

// Callers is the memory of chains. It is gone after Close.
func (s *Store) Callers() *Callers { return &s.callers }

// Close unmaps the memory. The kernel frees it when the eBPF program is gone, too.
func (s *Store) Close() error {
	s.callers.close()
	var errs []error
	for _, b := range s.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	s.mapped, s.chunks, s.slots, s.queue, s.supply = nil, nil, nil, nil, nil
	return errors.Join(append(errs, s.maps.chunks.Close(), s.maps.slots.Close(), s.maps.queue.Close(), s.maps.stock.Close(), s.maps.callers.Close())...)
}
