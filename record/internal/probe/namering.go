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

// A nameRing reads the BPF ring buffer of kernels' names in place: it neither waits nor copies. The
// kernel maps a page with the consumer's position, a page
// with the producer's position, and the data twice in a row, so that every record is
// contiguous.
type nameRing struct {
	m        *ebpf.Map
	consumer []byte
	producer []byte // the producer's page, then the data twice
	data     []byte
	mask     uint64
}

// A record starts with a 32-bit length, whose top two bits are flags, and 32 bits for the
// kernel (linux/bpf.h: BPF_RINGBUF_*).
const (
	recordBusy    = 1 << 31
	recordDiscard = 1 << 30
	recordHeader  = 8
)

// openNameRing maps the ring buffer m of size bytes. close closes m too.
func openNameRing(m *ebpf.Map, size int) (*nameRing, error) {
	page := os.Getpagesize()
	consumer, err := unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping a ring buffer: %w", err)
	}
	producer, err := unix.Mmap(m.FD(), int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mapping a ring buffer: %w", err), unix.Munmap(consumer))
	}
	return &nameRing{m: m, consumer: consumer, producer: producer, data: producer[page:], mask: uint64(size - 1)}, nil
}

// close unmaps the ring buffer.
func (r *nameRing) close() error {
	return errors.Join(unix.Munmap(r.consumer), unix.Munmap(r.producer), r.m.Close())
}

// drain gives every complete record to take. It returns the share of the buffer that they
// filled, from 0 to 1. A record is valid during the call only. The position goes back to the
// kernel every giveBack bytes, because the probed threads read it, too.
func (r *nameRing) drain(take func(record []byte) error) (fill float64, err error) {
	const giveBack = 64 << 10
	position := (*uint64)(unsafe.Pointer(unsafe.SliceData(r.consumer)))
	end := atomic.LoadUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(r.producer))))
	start := *position
	given, at := start, start
	for at < end && err == nil {
		here := at & r.mask
		length := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[here])))
		if length&recordBusy != 0 {
			break
		}
		size := uint64(length &^ (recordBusy | recordDiscard))
		if length&recordDiscard == 0 {
			err = take(r.data[here+recordHeader : here+recordHeader+size])
		}
		at += recordHeader + (size+7)&^7
		if at-given >= giveBack {
			atomic.StoreUint64(position, at)
			given = at
		}
	}
	atomic.StoreUint64(position, at)
	return float64(at-start) / float64(r.mask+1), err
}
