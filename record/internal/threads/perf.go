package threads

import (
	"encoding/binary"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringPages is the size of a thread's ring, in pages: room for 1,024 records of switches, which are read every tick.
// Beyond 100,000 a second some are lost. Users have little memory that may be locked: 516 KiB for each processor, by
// default.
const ringPages = 8

// maxStack is the most native frames of a sample.
const maxStack = 32

// A perfEvent is a perf event of one thread: a sample of a clock that runs while the thread runs, and a record of each
// time that it gets and loses the processor.
type perfEvent struct {
	fd     int
	mapped []byte
	page   *unix.PerfEventMmapPage
	data   []byte
	record []byte // a record that wraps around
}

// access says what the kernel allows.
type access struct{ kernel bool }

// openEvent opens the event of a thread. Its file can be waited for: for each sample, or for its end only.
func openEvent(tid int, period uint64, a access, samples bool) (*perfEvent, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: period,
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_CALLCHAIN,
		Bits: unix.PerfBitExcludeHv | unix.PerfBitExcludeCallchainKernel | unix.PerfBitContextSwitch |
			unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
		Wakeup: 1, Clockid: unix.CLOCK_MONOTONIC, Sample_max_stack: maxStack,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	if !samples {
		attr.Bits |= unix.PerfBitWatermark
		attr.Wakeup = 1 << 30
	}
	e := &perfEvent{}
	if !a.kernel {
		attr.Bits |= unix.PerfBitExcludeKernel
	}
	var err error
	if e.fd, err = unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC); err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	if e.mapped, err = unix.Mmap(e.fd, 0, (1+ringPages)*page, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		unix.Close(e.fd)
		return nil, err
	}
	e.page, e.data = (*unix.PerfEventMmapPage)(unsafe.Pointer(&e.mapped[0])), e.mapped[page:]
	return e, nil
}

func (e *perfEvent) close() {
	_ = unix.Munmap(e.mapped) // the memory is ours, whatever else may be wrong
	_ = unix.Close(e.fd)
}

const recordHeader = 8

// drain gives each record that the kernel has written to take, which must not keep it.
func (e *perfEvent) drain(take func(kind uint32, misc uint16, body []byte)) {
	head, tail := atomic.LoadUint64(&e.page.Data_head), e.page.Data_tail
	size := uint64(len(e.data))
	for head-tail >= recordHeader && head-tail <= size {
		h := e.at(tail, recordHeader)
		kind, misc, length := binary.LittleEndian.Uint32(h), binary.LittleEndian.Uint16(h[4:]),
			uint64(binary.LittleEndian.Uint16(h[6:]))
		if length < recordHeader || length > head-tail {
			break
		}
		take(kind, misc, e.at(tail+recordHeader, length-recordHeader))
		tail += length
	}
	atomic.StoreUint64(&e.page.Data_tail, head)
}

// switchedSince reports whether the kernel has written anything since the last drain: the thread was switched.
func (e *perfEvent) switchedSince() bool {
	return atomic.LoadUint64(&e.page.Data_head) != e.page.Data_tail
}

// at returns bytes of the ring.
func (e *perfEvent) at(from, n uint64) []byte {
	i := from % uint64(len(e.data))
	if i+n <= uint64(len(e.data)) {
		return e.data[i : i+n]
	}
	e.record = append(append(e.record[:0], e.data[i:]...), e.data[:i+n-uint64(len(e.data))]...)
	return e.record
}

// A stamp is when and where a record was made.
type stamp struct {
	time uint64
	cpu  uint32
}

const stampBytes = 24 // with the IDs of process and thread before it

func stampOf(b []byte) (s stamp, ok bool) {
	if len(b) < stampBytes {
		return s, false
	}
	return stamp{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:])}, true
}

// A perfSample is a sample.
type perfSample struct {
	stamp
	kernel    bool
	addresses []uint64 // the innermost first
}

// decodeSample decodes a sample into memory that it has.
func decodeSample(misc uint16, b []byte, addresses []uint64) (s perfSample, ok bool) {
	if s.stamp, ok = stampOf(b); !ok || len(b) < stampBytes+8 {
		return s, false
	}
	s.kernel = misc&unix.PERF_RECORD_MISC_CPUMODE_MASK == unix.PERF_RECORD_MISC_KERNEL
	n := binary.LittleEndian.Uint64(b[stampBytes:])
	b = b[stampBytes+8:]
	if n > uint64(len(b))/8 {
		return s, false
	}
	s.addresses = addresses[:0]
	for i := range n {
		if a := binary.LittleEndian.Uint64(b[8*i:]); a < contexts {
			s.addresses = append(s.addresses, a)
		}
	}
	return s, true
}

// contexts is the smallest of the numbers that stand among addresses and say whose addresses follow (PERF_CONTEXT_MAX).
const contexts = 1<<64 - 4095
