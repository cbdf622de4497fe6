package shared

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex: linux/futex.h.
const (
	opWait = 0
	opWake = 1
)

// futexWait waits while the word has a value. It returns false if nobody has woken it in the time.
func futexWait(word *atomic.Uint32, value uint32, timeout time.Duration) (woken bool) {
	t := unix.NsecToTimespec(int64(timeout))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWait, uintptr(value), uintptr(unsafe.Pointer(&t)), 0, 0)
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
	if _, _, errno := unix.Syscall(unix.SYS_SET_ROBUST_LIST, uintptr(unsafe.Pointer(list)), unsafe.Offsetof(list.entry), 0); errno != 0 {
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
