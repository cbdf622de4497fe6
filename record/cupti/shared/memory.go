// Package shared is the memory in which a process that is recorded and the recorder exchange messages. The
// process makes no system call for it but futex, so that no sandbox that the process enters can get in the
// way, and it needs no descriptor.
//
//	process                     memory of the process                recorder
//	messages ──────────────────► ring ─────────────────────────────► Memory.Read
//	         ◄────────────────── ring ◄───────────────────────────── Memory.Send
//	calls that have begun ─────► entries, which outlive the process ► Memory.Contents
//
//	                            memory of the recorder, mapped by all
//	         ──── "awake" ─────► ◄── "asleep" ──────────────────────── Hub
//
// The kernel tells each side of the other's death: both hold a robust futex. inject/wire.h has the
// layout. A process may write anything anywhere in its memory: data is read as from a file, no
// position that the process has written is used unchecked, and the size is sealed.
package shared

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// Layout of the memory of a process: inject/wire.h, struct ct_shared.
const (
	BellAt   = 16
	ClosedAt = 20
	LeftAt   = 24
	OutAt    = 64 // the ring of the process's messages
	InAt     = 128
	SenderAt = 192
	HeadSize = 256

	ReadAt  = 8 // in a ring
	WaitsAt = 16

	InSize  = 16 << 10
	OutSize = 128 << 10
)

// Died is the bit of a robust futex whose owner has died: FUTEX_OWNER_DIED of linux/futex.h.
const Died = 1 << 30

// memoryName is the name of the memory in /proc/PID/maps.
const memoryName = "cudatrace"

// sendWait is the longest wait for a process to take a message.
const sendWait = time.Second

// A Memory is the memory of one process.
type Memory struct {
	hub     *Hub
	file    *os.File
	head    []byte // its first page
	entries int    // bytes between the head and the rings

	ready    chan struct{} // has a value when there may be something to read
	noticed  uint64        // bytes written when the hub looked last
	received uint64        // bytes
	sent     uint64        // bytes
	pid      atomic.Int32  // of the process, if nothing tells of its end; else 0
	over     atomic.Bool   // nothing more is to come
	process  *os.File      // a pidfd, nil without one
}

// Size is the size of a Memory with so many bytes of entries.
func Size(entries int) int { return HeadSize + entries + InSize + OutSize }

// makeMemory makes memory whose size is fixed. All of it is there from the start, so that neither
// side can meet a page that is missing.
func makeMemory(size int) (file *os.File, page []byte, err error) {
	fd, err := unix.MemfdCreate(memoryName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, err
	}
	file = os.NewFile(uintptr(fd), memoryName)
	err = unix.Fallocate(fd, 0, 0, int64(size))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		page, err = unix.Mmap(fd, 0, min(size, os.Getpagesize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, page, nil
}

// NewMemory makes the memory of a process, with so many bytes of entries. Close lets go of it.
func (h *Hub) NewMemory(entries int) (*Memory, error) {
	file, page, err := makeMemory(Size(entries))
	if err != nil {
		return nil, err
	}
	m := &Memory{hub: h, file: file, head: page, entries: entries, ready: make(chan struct{}, 1)}
	h.add(m)
	return m, nil
}

// Descriptors are what the process needs to map: its own memory and that of the recorder.
func (m *Memory) Descriptors() []int { return []int{int(m.file.Fd()), int(m.hub.file.Fd())} }

// Close lets go of the memory. A process that still maps it is told that nobody reads it.
func (m *Memory) Close() {
	m.hub.remove(m)
	m.word(LeftAt).Store(1)
	m.Ring()
	_ = unix.Munmap(m.head)
	_ = m.file.Close() // there is nothing that could be lost
	if m.process != nil {
		_ = m.process.Close()
	}
}

// End makes Read return io.EOF as soon as it has read what is there.
func (m *Memory) End() {
	m.over.Store(true)
	m.wake()
}

func (m *Memory) wake() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// word is an atomic u32 of the head.
func (m *Memory) word(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&m.head[at])) }

// position is an atomic u64 of the head.
func (m *Memory) position(at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&m.head[at]))
}

// SenderDied says whether the thread that sends has ended: its process has ended, or runs another program.
func (m *Memory) SenderDied() bool { return m.word(SenderAt).Load()&Died != 0 }

// ended says whether nothing more will be written.
func (m *Memory) ended() bool {
	return m.over.Load() || m.word(ClosedAt).Load() != 0 || m.SenderDied()
}

// Read reads what the process has written. It waits for something to read, and returns io.EOF when
// the process has closed its stream, or has ended. One goroutine may call it.
func (m *Memory) Read(p []byte) (int, error) {
	for {
		ended := m.ended() // before the look: what was written before the end is read
		n, err := m.take(p)
		switch {
		case n > 0 || err != nil:
			return n, err
		case ended:
			return 0, io.EOF
		}
		<-m.ready
	}
}

// take reads without waiting.
func (m *Memory) take(p []byte) (int, error) {
	there := m.position(OutAt).Load() - m.received
	if there > OutSize {
		return 0, fmt.Errorf("%w: %d bytes in a ring of %d", ErrPosition, there, OutSize)
	}
	n := min(int(there), len(p))
	if n == 0 {
		return 0, nil
	}
	if err := m.copy(p[:n], m.received%OutSize, HeadSize+int64(m.entries)+InSize, OutSize, m.file.ReadAt); err != nil {
		return 0, err
	}
	m.received += uint64(n)
	m.position(OutAt + ReadAt).Store(m.received)
	// The process waits when the ring is full: it is woken when there is room for much.
	if waits := m.word(OutAt + WaitsAt); there-uint64(n) <= OutSize/2 && waits.Load() != 0 && waits.Swap(0) != 0 {
		futexWake(waits)
	}
	return n, nil
}

// ErrPosition is the error of a process that has written a position which cannot be.
var ErrPosition = errors.New("a position beyond the ring")

// copy reads or writes bytes of a ring that lies at a place in the memory.
func (m *Memory) copy(p []byte, at uint64, place int64, size uint64, do func([]byte, int64) (int, error)) error {
	first := min(uint64(len(p)), size-at)
	if _, err := do(p[:first], place+int64(at)); err != nil {
		return err
	}
	if first == uint64(len(p)) {
		return nil
	}
	_, err := do(p[first:], place)
	return err
}

// Send writes a message for the process. If the process does not make room in time, the message is left out and
// Send returns false. One goroutine at a time may call it.
func (m *Memory) Send(message []byte) bool {
	for late := time.Now().Add(sendWait); !m.fits(len(message)); time.Sleep(time.Millisecond) {
		if m.ended() || time.Now().After(late) {
			return false
		}
	}
	if m.copy(message, m.sent%InSize, HeadSize+int64(m.entries), InSize, m.file.WriteAt) != nil {
		return false
	}
	m.sent += uint64(len(message))
	m.position(InAt).Store(m.sent)
	m.Ring()
	return true
}

// fits says whether there is room for so many bytes.
func (m *Memory) fits(n int) bool {
	used := m.sent - m.position(InAt+ReadAt).Load()
	return used <= InSize && n <= int(InSize-used)
}

// Ring wakes the control thread of the process.
func (m *Memory) Ring() {
	bell := m.word(BellAt)
	bell.Add(1)
	futexWake(bell)
}

// Watch notices the end of a process, which must not have ended yet. It is to be called once.
func (m *Memory) Watch(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil { // a kernel before 5.10, or a sandbox: the hub looks
		m.pid.Store(int32(pid))
		return
	}
	m.process = os.NewFile(uintptr(fd), "pidfd")
	raw, err := m.process.SyscallConn()
	if err != nil {
		m.pid.Store(int32(pid))
		return
	}
	go func() {
		_ = raw.Read(hasEnded) // it returns when the process has ended, or when the descriptor is closed
		m.End()
	}()
}

// hasEnded says whether the process of a pidfd has ended.
func hasEnded(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil && err != unix.EINTR
}

// gone says whether the process has ended, if nothing else tells.
func (m *Memory) gone() bool {
	pid := int(m.pid.Load())
	return pid != 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// MappedBy says whether a process maps the memory.
func (m *Memory) MappedBy(pid uint32) bool {
	info, err := m.file.Stat()
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && procfs.MapsFile(int(pid), "/memfd:"+memoryName, s.Ino)
}

// Contents returns the head and the entries, nil if they cannot be read.
func (m *Memory) Contents() []byte {
	b := make([]byte, HeadSize+m.entries)
	if n, err := m.file.ReadAt(b, 0); err != nil || n != len(b) {
		return nil
	}
	return b
}
