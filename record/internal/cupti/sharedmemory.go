package cupti

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// The memory in which a process that is recorded and the recorder exchange messages. The
// process makes no system call for it but futex, so that no sandbox that the process enters can get in the
// way, and it needs no descriptor.
//
//	process                     memory of the process                recorder
//	messages ──────────────────► ring ─────────────────────────────► sharedMemory.Read
//	         ◄────────────────── ring ◄───────────────────────────── sharedMemory.send
//	calls that have begun ─────► entries, which outlive the process ► sharedMemory.contents
//
//	                            memory of the recorder, mapped by all
//	         ──── "awake" ─────► ◄── "asleep" ──────────────────────── hub
//
// The kernel tells each side of the other's death: both hold a robust futex. inject/wire.h has the
// layout. A process may write anything anywhere in its memory: data is read as from a file, no
// position that the process has written is used unchecked, and the size is sealed.

// memoryName is the name of the memory in /proc/PID/maps.
const memoryName = "cudatrace"

// sendWait is the longest wait for a process to take a message.
const sendWait = time.Second

// A sharedMemory is the memory of one process.
type sharedMemory struct {
	hub  *hub
	file *os.File
	head []byte // its first page

	ready    chan struct{} // has a value when there may be something to read, and every openPause
	between  func()        // Read calls it before each look for something to read; nil: nothing
	noticed  uint64        // bytes written when the hub looked last
	received uint64        // bytes
	sent     uint64        // bytes
	pid      atomic.Int32  // of the process, if nothing tells of its end; else 0
	over     atomic.Bool   // nothing more is to come
	process  *os.File      // a pidfd, nil without one
}

// makeMemory makes memory whose size is fixed. All of its first part is there from the start, so that neither
// side can meet a page that is missing; a page of what is behind is there when somebody writes to it.
func makeMemory(size, behind int) (file *os.File, page []byte, err error) {
	fd, err := unix.MemfdCreate(memoryName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, err
	}
	file = os.NewFile(uintptr(fd), memoryName)
	err = unix.Fallocate(fd, 0, 0, int64(size))
	// a page that is missing might not be had: all of them or none, without chains then
	if err == nil && behind > 0 && !overcommits() {
		_ = unix.Fallocate(fd, 0, int64(size), int64(behind))
	} else if err == nil && behind > 0 {
		_ = unix.Ftruncate(fd, int64(size+behind)) // refused where it is more than a file may have
	}
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

// overcommits reports whether the kernel gives memory without counting first whether there is enough.
var overcommits = sync.OnceValue(func() bool {
	b, err := procfs.Read("/proc/sys/vm/overcommit_memory", 16)
	return err == nil && len(b) > 0 && b[0] != '2'
})

// newMemory makes the memory of a process. close lets go of it.
func (h *hub) newMemory() (*sharedMemory, error) {
	file, page, err := makeMemory(sharedSize, seenMemorySize)
	if err != nil {
		return nil, err
	}
	m := &sharedMemory{hub: h, file: file, head: page, ready: make(chan struct{}, 1)}
	h.register(m)
	return m, nil
}

// descriptors are what the process needs to map: its own memory and that of the recorder.
func (m *sharedMemory) descriptors() []int { return []int{int(m.file.Fd()), int(m.hub.file.Fd())} }

// close lets go of the memory. A process that still maps it is told that nobody reads it.
func (m *sharedMemory) close() {
	m.hub.remove(m)
	m.word(sharedLeftAt).Store(1)
	m.ring()
	_ = unix.Munmap(m.head)
	_ = m.file.Close() // there is nothing that could be lost
	if m.process != nil {
		_ = m.process.Close()
	}
}

// end makes Read return io.EOF as soon as it has read what is there.
func (m *sharedMemory) end() {
	m.over.Store(true)
	m.wake()
}

func (m *sharedMemory) wake() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// word is an atomic u32 of the head.
func (m *sharedMemory) word(at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&m.head[at]))
}

// position is an atomic u64 of the head.
func (m *sharedMemory) position(at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&m.head[at]))
}

// senderDied reports whether the thread that sends has ended: its process has ended, or runs another program.
func (m *sharedMemory) senderDied() bool { return m.word(sharedSenderAt).Load()&died != 0 }

// ended reports whether nothing more will be written.
func (m *sharedMemory) ended() bool {
	return m.over.Load() || m.word(sharedClosedAt).Load() != 0 || m.senderDied()
}

// Read reads what the process has written. It waits for something to read, and returns io.EOF when
// the process has closed its stream, or has ended. One goroutine may call it.
func (m *sharedMemory) Read(p []byte) (int, error) {
	for {
		if m.between != nil {
			m.between()
		}
		ended := m.ended() // before the look: what was written before the end is read
		n, err := m.tryRead(p)
		switch {
		case n > 0 || err != nil:
			return n, err
		case ended:
			return 0, io.EOF
		}
		<-m.ready
	}
}

// tryRead reads without waiting.
func (m *sharedMemory) tryRead(p []byte) (int, error) {
	there := m.position(sharedOutAt).Load() - m.received
	if there > outSize {
		return 0, fmt.Errorf("%w: %d bytes in a ring of %d", errPosition, there, outSize)
	}
	n := min(int(there), len(p))
	if n == 0 {
		return 0, nil
	}
	if err := m.copy(p[:n], m.received%outSize, sharedOutDataAt, outSize, m.file.ReadAt); err != nil {
		return 0, err
	}
	m.received += uint64(n)
	m.position(sharedOutAt + ringReadAt).Store(m.received)
	// The process waits when the ring is full: it is woken when there is room for much.
	if waits := m.word(sharedOutAt + ringWaitsAt); there-uint64(n) <= outSize/2 && waits.Load() != 0 &&
		waits.Swap(0) != 0 {
		futexWake(waits)
	}
	return n, nil
}

// errPosition is the error of a process that has written a position which cannot be.
var errPosition = errors.New("a position beyond the ring")

// copy reads or writes bytes of a ring that lies at a place in the memory.
func (m *sharedMemory) copy(p []byte, at uint64, place int64, size uint64, do func([]byte, int64) (int, error)) error {
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

// send writes a message for the process. If the process does not make room in time, the message is left out and
// send returns false. One goroutine at a time may call it.
func (m *sharedMemory) send(message []byte) bool {
	for late := time.Now().Add(sendWait); !m.fits(len(message)); time.Sleep(time.Millisecond) {
		if m.ended() || time.Now().After(late) {
			return false
		}
	}
	if m.copy(message, m.sent%inSize, sharedInDataAt, inSize, m.file.WriteAt) != nil {
		return false
	}
	m.sent += uint64(len(message))
	m.position(sharedInAt).Store(m.sent)
	m.ring()
	return true
}

// fits reports whether there is room for so many bytes.
func (m *sharedMemory) fits(n int) bool {
	used := m.sent - m.position(sharedInAt+ringReadAt).Load()
	return used <= inSize && n <= int(inSize-used)
}

// ring wakes the control thread of the process.
func (m *sharedMemory) ring() {
	bell := m.word(sharedBellAt)
	bell.Add(1)
	futexWake(bell)
}

// watch notices the end of a process, which must not have ended yet. It is to be called once.
func (m *sharedMemory) watch(pid int) {
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
		m.end()
	}()
}

// hasEnded reports whether the process of a pidfd has ended.
func hasEnded(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil && err != unix.EINTR
}

// gone reports whether the process has ended, if nothing else tells.
func (m *sharedMemory) gone() bool {
	pid := int(m.pid.Load())
	return pid != 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// mappedBy reports whether a process maps the memory.
func (m *sharedMemory) mappedBy(pid uint32) bool {
	info, err := m.file.Stat()
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if ok {
		_, ok = procfs.FindMapping(int(pid), "/memfd:"+memoryName, s.Ino)
	}
	return ok
}

// contents returns the head and the entries, nil if they cannot be read.
func (m *sharedMemory) contents() []byte {
	b := make([]byte, sharedInDataAt)
	if n, err := m.file.ReadAt(b, 0); err != nil || n != len(b) {
		return nil
	}
	return b
}

// seen returns the rings of calls of CUPTI's callback, for each of them its last words, oldest first, and the chains
// that they number. There are none if they cannot be read.
func (m *sharedMemory) seen() (rings [][]uint64, chains []byte) {
	heads := make([]byte, seenMemoryWordsAt)
	if n, err := m.file.ReadAt(heads, sharedSize); err != nil || n != len(heads) {
		return nil, nil
	}
	left := uint64(seenWords) // rings do not overlap, whatever the process has written
	for i := range seenRings {
		head := heads[i*seenRingSize:]
		written, size, at := le.Uint32(head[seenRingWrittenAt:]), le.Uint32(head[seenRingSizeAt:]),
			le.Uint32(head[seenRingAtAt:])
		if written == 0 || size&(size-1) != 0 || uint64(at)+uint64(size) > seenWords || uint64(size) > left {
			continue // nobody has used it, or nonsense
		}
		left -= uint64(size)
		words := make([]byte, 8*size)
		if n, err := m.file.ReadAt(words, sharedSize+seenMemoryWordsAt+8*int64(at)); err != nil || n != len(words) {
			return nil, nil
		}
		ring, known := []uint64{seenOwner(le.Uint32(head[seenRingTidAt:]))}, false
		for k := written - min(written, size); k != written; k++ {
			word := le.Uint64(words[8*(k&(size-1)):])
			if isOwner(word) && !known { // the words before are of another thread, which is not known
				ring, known = ring[:0], true
			}
			ring = append(ring, word)
		}
		rings = append(rings, ring)
	}
	return rings, heads[seenMemoryChainsAt:]
}

// Between looks at all memories. A process wakes the hub, unless it was killed on the way or a sandbox
// refuses it futex; and nothing wakes the hub when a process runs another program.
const (
	lookLeast = 5 * time.Millisecond
	lookMost  = 100 * time.Millisecond
)

// A hub notices which processes have written to their memories. It has a thread of its own, which waits for
// all of them.
type hub struct {
	file    *os.File
	page    []byte
	closing atomic.Bool
	done    chan struct{} // closed when the thread has ended

	mu    sync.Mutex
	all   map[*sharedMemory]struct{}
	woken time.Time // when all readers were woken last
}

// newHub starts a hub.
func newHub() (*hub, error) {
	file, page, err := makeMemory(recorderSize, 0)
	if err != nil {
		return nil, err
	}
	h := &hub{file: file, page: page, done: make(chan struct{}), all: map[*sharedMemory]struct{}{}}
	held := make(chan error)
	go h.run(held)
	if err := <-held; err != nil {
		h.release()
		return nil, err
	}
	return h, nil
}

func (h *hub) word(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&h.page[at])) }

// close ends the hub. Processes notice that the recorder has ended. Every sharedMemory must be closed before.
func (h *hub) close() {
	h.closing.Store(true)
	h.word(recorderAsleepAt).Store(0)
	futexWake(h.word(recorderAsleepAt))
	<-h.done
	h.release()
}

func (h *hub) release() {
	_ = unix.Munmap(h.page)
	_ = h.file.Close() // there is nothing that could be lost
}

func (h *hub) register(m *sharedMemory) {
	h.mu.Lock()
	h.all[m] = struct{}{}
	h.mu.Unlock()
}

func (h *hub) remove(m *sharedMemory) {
	h.mu.Lock()
	delete(h.all, m)
	h.mu.Unlock()
}

// run wakes the readers of memories. The thread holds the robust futex by which processes notice that the
// recorder has been killed.
func (h *hub) run(held chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(h.done)
	robust, err := holdRobust(h.word(recorderLifeAt))
	held <- err
	if err != nil {
		return
	}
	asleep := h.word(recorderAsleepAt)
	for wait := lookMost; !h.closing.Load(); {
		asleep.Store(1)
		found := h.look()
		woken := futexWait(asleep, 1, wait)
		switch {
		case woken:
			wait = lookMost
		case found: // nobody said so
			wait = lookLeast
		default:
			wait = min(2*wait, lookMost)
		}
	}
	h.word(recorderLifeAt).Store(died)
	robust.release()
}

// look wakes the readers of memories where something has changed, and reports whether there are any. Every openPause it
// wakes all.
func (h *hub) look() (found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := time.Since(h.woken) >= openPause
	if all {
		h.woken = time.Now()
	}
	for m := range h.all {
		if m.gone() {
			m.over.Store(true)
		}
		if written := m.position(sharedOutAt).Load(); written != m.noticed || all || m.ended() {
			found = found || written != m.noticed
			m.noticed = written
			m.wake()
		}
	}
	return found
}

// Operations of futex: linux/futex.h.
const (
	opWait = 0
	opWake = 1
)

// futexWait waits while the word has a value. It returns false if nobody has woken it in the time.
func futexWait(word *atomic.Uint32, value uint32, timeout time.Duration) (woken bool) {
	t := unix.NsecToTimespec(int64(timeout))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWait, uintptr(value),
		uintptr(unsafe.Pointer(&t)), 0, 0)
	return !errors.Is(errno, unix.ETIMEDOUT)
}

// futexWake wakes all who wait. Who is not woken looks by itself after some time.
func futexWake(word *atomic.Uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWake, math.MaxInt32, 0, 0, 0)
}

// A robust is the kernel's list of the robust futexes that a thread holds: struct robust_list_head of
// linux/futex.h, and an entry. It lies outside Go's heap.
type robust struct {
	page []byte
}

type robustList struct {
	first   uintptr // of the entries, in a circle
	offset  int     // from an entry to its futex
	pending uintptr
	entry   uintptr // the next: the list
}

// holdRobust has the calling thread hold a futex: when the thread ends, the kernel sets Died in it.
func holdRobust(word *atomic.Uint32) (*robust, error) {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	list := (*robustList)(unsafe.Pointer(&page[0]))
	list.first = uintptr(unsafe.Pointer(&list.entry))
	list.entry = uintptr(unsafe.Pointer(list))
	list.offset = int(uintptr(unsafe.Pointer(word)) - list.first)
	word.Store(uint32(unix.Gettid()))
	if _, _, errno := unix.Syscall(unix.SYS_SET_ROBUST_LIST, uintptr(unsafe.Pointer(list)), unsafe.Offsetof(list.entry),
		0); errno != 0 {
		_ = unix.Munmap(page)
		return nil, fmt.Errorf("set_robust_list: %w", errno)
	}
	return &robust{page}, nil
}

// release is called on the same thread.
func (r *robust) release() {
	_, _, _ = unix.Syscall(unix.SYS_SET_ROBUST_LIST, 0, unsafe.Sizeof(robustList{})-unsafe.Sizeof(uintptr(0)), 0)
	_ = unix.Munmap(r.page)
}
