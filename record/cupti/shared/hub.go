package shared

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Layout of the recorder's memory: inject/wire.h, struct ct_recorder.
const (
	AsleepAt = 0
	LifeAt   = 4
	HubSize  = 64
)

// Between looks at all memories. A process wakes the hub, unless it was killed on the way or a sandbox
// refuses it futex; and nothing wakes the hub when a process runs another program.
const (
	lookLeast = 5 * time.Millisecond
	lookMost  = 100 * time.Millisecond
)

// A Hub notices which processes have written to their memories. It has a thread of its own, which waits for
// all of them.
type Hub struct {
	file  *os.File
	page  []byte
	close atomic.Bool
	done  chan struct{} // closed when the thread has ended

	mu  sync.Mutex
	all map[*Memory]struct{}
}

// NewHub starts a hub.
func NewHub() (*Hub, error) {
	file, page, err := makeMemory(HubSize)
	if err != nil {
		return nil, err
	}
	h := &Hub{file: file, page: page, done: make(chan struct{}), all: map[*Memory]struct{}{}}
	held := make(chan error)
	go h.run(held)
	if err := <-held; err != nil {
		h.release()
		return nil, err
	}
	return h, nil
}

func (h *Hub) word(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&h.page[at])) }

// Close ends the hub. Processes notice that the recorder has ended. Every Memory must be closed before.
func (h *Hub) Close() {
	h.close.Store(true)
	h.word(AsleepAt).Store(0)
	futexWake(h.word(AsleepAt))
	<-h.done
	h.release()
}

func (h *Hub) release() {
	_ = unix.Munmap(h.page)
	_ = h.file.Close() // there is nothing that could be lost
}

func (h *Hub) add(m *Memory) {
	h.mu.Lock()
	h.all[m] = struct{}{}
	h.mu.Unlock()
}

func (h *Hub) remove(m *Memory) {
	h.mu.Lock()
	delete(h.all, m)
	h.mu.Unlock()
}

// run wakes the readers of memories. The thread holds the robust futex by which processes notice that the
// recorder has been killed.
func (h *Hub) run(held chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(h.done)
	robust, err := holdRobust(h.word(LifeAt))
	held <- err
	if err != nil {
		return
	}
	asleep := h.word(AsleepAt)
	for wait := lookMost; !h.close.Load(); {
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
	h.word(LifeAt).Store(Died)
	robust.release()
}

// look wakes the readers of memories where something has changed, and says whether there are any.
func (h *Hub) look() (found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m := range h.all {
		if m.gone() {
			m.over.Store(true)
		}
		if written := m.position(OutAt).Load(); written != m.noticed || m.ended() {
			found = found || written != m.noticed
			m.noticed = written
			m.wake()
		}
	}
	return found
}
