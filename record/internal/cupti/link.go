package cupti

import (
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/pyframes"
)

// tellWait is the longest wait for a process to take a message from the socket.
const tellWait = time.Second

// A link is the connection to a process: a socket until the process has its memory, then the memory. Its
// methods are called from several goroutines.
type link struct {
	conn *net.UnixConn
	hub  *hub // nil: share no memory

	mu      sync.Mutex
	going   bool          // GO was sent
	over    bool          // hangUp was called
	ended   bool          // the connection has: unshare was called
	memory  *sharedMemory // nil before GO, or if there is none for the process
	stopped []byte        // contents of the memory when the process was told to stop, nil if it was not
	waiting [][]byte      // messages to send after GO

	shutting sync.Mutex // held while the process's threads are stopped
}

// credentials asks the kernel which process is at the other end.
func (l *link) credentials() (*unix.Ucred, error) {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return cred, errors.Join(err, failed)
}

// answer sends GO and the messages that wait for it. It calls config under the lock, so that
// messages told meanwhile come after GO. If the process has given up waiting, the next read of
// the connection shows it.
func (l *link) answer(pid uint32, config func() GoConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send(l.share(pid, appendGo(nil, config())))
	l.going = true
	for _, message := range l.waiting {
		l.write(message)
	}
}

// keep tells the process that the recorder is at work on its answer, every now and then until stop is called, which
// returns the time at which the process no longer waits, in ns of CLOCK_MONOTONIC: the deadline at first, and in the
// end the last one.
func (l *link) keep(deadline, last uint64) (stop func() uint64) {
	const signs = helloPatience / 4
	answered, kept := make(chan struct{}), make(chan uint64)
	go func() {
		next := time.NewTimer(time.Duration(int64(deadline-host.Monotonic())) - 3*signs)
		defer next.Stop()
		for {
			select {
			case <-answered:
				kept <- deadline
				return
			case <-next.C:
				if now := host.Monotonic(); now < deadline {
					l.send(appendFrame(nil, msgWait, nil))
					deadline = min(now+uint64(helloPatience), last)
					next.Reset(signs)
				}
			}
		}
	}()
	return func() uint64 { close(answered); return <-kept }
}

// share sends the first bytes of GO with the memory, and returns the rest. Where there is no memory, it
// returns all: such a process runs unrecorded.
func (l *link) share(pid uint32, message []byte) (rest []byte) {
	if l.hub == nil || l.over {
		return message
	}
	m, err := l.hub.newMemory()
	if err != nil {
		return message
	}
	m.watch(int(pid))
	n := 0
	if l.conn.SetWriteDeadline(time.Now().Add(tellWait)) == nil {
		n, _, _ = l.conn.WriteMsgUnix(message[:frameSize], unix.UnixRights(m.descriptors()...), nil)
	}
	if n == 0 {
		m.close()
		return message
	}
	l.memory = m
	return message[n:]
}

// contents returns what is in the memory, nil if there is none.
func (l *link) contents() (now, stopped []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory == nil {
		return nil, nil
	}
	return l.memory.contents(), l.stopped
}

// seen returns the calls of CUPTI's callback and their chains, as in the memory.
func (l *link) seen() (rings [][]uint64, chains []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory == nil {
		return nil, nil
	}
	return l.memory.seen()
}

// shares reports whether the process still maps the memory: it has not ended, and runs no other program.
func (l *link) shares(pid uint32) bool {
	l.mu.Lock()
	memory := l.memory
	l.mu.Unlock() // the look takes long where much is mapped, and the threads of a process may be stopped (shut)
	return memory != nil && memory.mappedBy(pid)
}

// senderDied reports whether the thread of the process that sends has ended.
func (l *link) senderDied() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory != nil && l.memory.senderDied()
}

// hangUp ends the connection.
func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.conn.Close()
	if l.memory != nil {
		l.memory.end()
	}
}

// unshare lets go of the memory. The connection has ended: the process may still wait for messages.
func (l *link) unshare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.memory != nil {
		l.memory.close()
		l.memory = nil
	}
}

// stop tells the process to stop. Calls that its threads are in have not returned when recording ends.
func (l *link) stop() {
	l.mu.Lock()
	if l.memory != nil && l.stopped == nil {
		l.stopped = l.memory.contents()
	}
	l.mu.Unlock()
	l.tell(msgStop, nil)
}

// tell sends a message, but not before GO.
func (l *link) tell(t messageType, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if message := appendFrame(nil, t, payload); l.going {
		l.write(message)
	} else {
		l.waiting = append(l.waiting, message)
	}
}

// tellDepth tells the process how many addresses of the chains with an innermost address are of use.
func (l *link) tellDepth(address uint64, depth int) {
	payload := make([]byte, depthSize)
	le.PutUint64(payload[depthAddressAt:], address)
	le.PutUint32(payload[depthDepthAt:], uint32(depth))
	l.tell(msgDepth, payload)
}

// tellPython names the interpreter of the process, or says that there is more than one.
func (l *link) tellPython(i *pyframes.Interpreter) {
	payload := make([]byte, pythonSize)
	putPython(payload, i)
	l.tell(msgPython, payload)
}

// write sends a message to a process that was sent GO. It ignores a failure: reading the connection shows it.
func (l *link) write(message []byte) {
	if l.memory != nil {
		l.memory.send(message)
	}
}

// send sends bytes over the socket, likewise.
func (l *link) send(b []byte) {
	if l.conn.SetWriteDeadline(time.Now().Add(tellWait)) == nil {
		_, _ = l.conn.Write(b)
	}
}
