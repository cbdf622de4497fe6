package cupti

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tellWait is the longest wait for a process to take a message.
const tellWait = time.Second

// A link is the socket to a process. Its methods are called from several goroutines.
type link struct {
	conn    *net.UnixConn
	private bool // share no memory
	memory  *peerMemory

	mu      sync.Mutex
	going   bool          // GO was sent
	open    *openMemory   // shared with the process, nil without
	waiting []messageType // messages to send after GO
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
func (l *link) answer(config func() GoConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := config()
	l.write(l.share(appendGo(nil, c)))
	l.going = true
	for _, t := range l.waiting {
		l.write(appendFrame(nil, t, nil))
	}
}

// share sends the first bytes of GO with the shared memory, and returns the rest. Where
// descriptors cannot be sent, or memory is short, it returns all: such a process does without.
func (l *link) share(message []byte) (rest []byte) {
	if l.private || !l.memory.take(openTotalSize) {
		return message
	}
	m, err := newOpenMemory()
	if err != nil {
		l.memory.give(openTotalSize)
		return message
	}
	n := 0
	if l.conn.SetWriteDeadline(time.Now().Add(tellWait)) == nil {
		n, _, _ = l.conn.WriteMsgUnix(message[:frameSize], unix.UnixRights(int(m.file.Fd())), nil)
	}
	if n == 0 {
		m.close()
		l.memory.give(openTotalSize)
		return message
	}
	l.open = m
	return message[n:]
}

// openCalls returns the calls that the process's threads are in.
func (l *link) openCalls() []OpenCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return nil
	}
	return l.open.calls()
}

// reason reads why the process sends nothing more; what is 0 if it gave no reason. The process is asked to
// look.
func (l *link) reason() (what uint32, errno unix.Errno) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return 0, 0
	}
	l.open.ring()
	return l.open.failure()
}

// shares says whether the process still maps the shared memory: it has not ended, and runs no other program.
func (l *link) shares(pid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open != nil && l.open.mappedBy(pid)
}

// failure says in words why the process sends nothing more, "" if it gives no reason within a time.
func (l *link) failure(wait time.Duration) string {
	what, errno := l.reason()
	for end := time.Now().Add(wait); what == 0 && time.Now().Before(end); {
		time.Sleep(wait / 20)
		what, errno = l.reason()
	}
	refused := what != 0 && errno != 0 && errno != unix.EBADF && errno != unix.ENOTSOCK
	switch {
	case errno == unix.EPIPE, errno == unix.ECONNRESET:
		return "the program shut the socket to the recorder down"
	case refused:
		return fmt.Sprintf("the program may not use the socket to the recorder any more (%s): a sandbox refuses it", errno)
	case what == failedClosed:
		return "the program closed the socket to the recorder"
	case what == failedSend:
		return "the socket to the recorder does not take messages any more"
	}
	return ""
}

// unshare lets go of the shared memory. The connection has ended: the process may still wait for messages.
func (l *link) unshare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		l.open.ring()
		l.open.close()
		l.memory.give(openTotalSize)
		l.open = nil
	}
}

// stop tells the process to stop. Calls that its threads are in have not returned when recording ends.
func (l *link) stop() {
	l.mu.Lock()
	if l.open != nil && l.open.stop == nil {
		l.open.stop = l.open.read()
	}
	l.mu.Unlock()
	l.tell(msgStop)
}

// tell sends a message without payload, but not before GO.
func (l *link) tell(t messageType) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.going {
		l.write(appendFrame(nil, t, nil))
	} else {
		l.waiting = append(l.waiting, t)
	}
}

// tellDepth says how many addresses of the chains with an innermost address are of use.
func (l *link) tellDepth(address uint64, depth int) {
	payload := le.AppendUint64(nil, address)
	payload = le.AppendUint32(payload, uint32(depth))
	payload = le.AppendUint32(payload, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(appendFrame(nil, msgDepth, payload))
}

// write sends bytes to a process. It ignores a failure, which means that the connection has
// ended or that nobody reads at the other end: reading the connection shows both.
func (l *link) write(b []byte) {
	if l.conn.SetWriteDeadline(time.Now().Add(tellWait)) == nil {
		_, _ = l.conn.Write(b)
	}
	if l.open != nil {
		l.open.ring()
	}
}
