package eventstore

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cudatrace/cudatrace/bpf"
)

// An openChunk is a chunk that a thread may still write to, and the place up to which it was
// delivered.
type openChunk struct {
	number uint32
	at     uint32 // bytes that have been delivered
}

// Drain gives every event that is published by now to take. It calls begin before and end after
// each run of events of one thread. An event is valid during the call only.
//
// fill is the share, from 0 to 1, of the memory that was free at the last Drain and has been
// taken since. all is false if a thread was in the middle of taking a chunk, whose events were
// passed over.
func (s *Store) Drain(take func(event []byte) error, begin, end func()) (fill float64, all bool, err error) {
	taken := atomic.LoadUint64(&s.supply.Taken)
	if fresh, free := taken-s.seen, s.supply.Given-taken; fresh > 0 {
		fill = float64(fresh) / float64(fresh+free)
	}
	for ; s.seen < taken; s.seen++ {
		s.open = append(s.open, openChunk{uint32(s.queue[s.seen&uint64(len(s.queue)-1)]), chunkHead})
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
			s.give(c.number)
		} else {
			kept = append(kept, c)
		}
	}
	s.open = kept
	return fill, all, nil
}

// read delivers the new events of a chunk. left says that its thread has left the chunk; ready
// is false while a thread is in the middle of taking it.
func (s *Store) read(o *openChunk, take func(event []byte) error) (left, ready bool, err error) {
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

// give returns a chunk to the threads.
func (s *Store) give(number uint32) {
	atomic.StoreUint64(&s.chunks[number].Id, 0)
	s.queue[s.supply.Given&uint64(len(s.queue)-1)] = uint64(number)
	atomic.StoreUint64(&s.supply.Given, s.supply.Given+1)
}
