package probe

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A ring reads a BPF ring buffer in place. The kernel maps a page that holds the
// consumer's position, a page that holds the producer's, and the data twice in a
// row, so that no record is ever cut in two.
type ring struct {
	m        *ebpf.Map
	consumer []byte
	producer []byte // the producer's page, then the data twice
	data     []byte
	mask     uint64
}

// A record starts with a 32-bit length whose top two bits are flags, and 32 bits
// that are the kernel's own (linux/bpf.h: BPF_RINGBUF_*).
const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
)

// openRing maps the ring buffer m of size bytes, and owns it from then on.
func openRing(m *ebpf.Map, size int) (*ring, error) {
	page := os.Getpagesize()
	consumer, err := unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping a ring buffer: %w", err)
	}
	producer, err := unix.Mmap(m.FD(), int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mapping a ring buffer: %w", err), unix.Munmap(consumer))
	}
	return &ring{m: m, consumer: consumer, producer: producer, data: producer[page:], mask: uint64(size - 1)}, nil
}

func (r *ring) close() error {
	return errors.Join(unix.Munmap(r.consumer), unix.Munmap(r.producer), r.m.Close())
}

// drain hands every record that is complete by now to take, and returns the number
// of bytes read; all says that no record was passed over as it is still being written.
// The record is valid during the call only. The position is given back to the kernel
// every giveBack bytes, as the probed threads read it too.
func (r *ring) drain(take func(record []byte) error) (read uint64, all bool, err error) {
	const giveBack = 64 << 10
	position := (*uint64)(unsafe.Pointer(unsafe.SliceData(r.consumer)))
	end := atomic.LoadUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(r.producer))))
	start := *position
	given, at := start, start
	for at < end && err == nil {
		here := at & r.mask
		length := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[here])))
		if length&ringBusy != 0 {
			break
		}
		size := uint64(length &^ (ringBusy | ringDiscard))
		if length&ringDiscard == 0 {
			err = take(r.data[here+ringHeader : here+ringHeader+size])
		}
		at += ringHeader + (size+7)&^7
		if at-given >= giveBack {
			atomic.StoreUint64(position, at)
			given = at
		}
	}
	atomic.StoreUint64(position, at)
	return at - start, at >= end, err
}
