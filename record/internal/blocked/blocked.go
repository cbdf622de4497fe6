// Package blocked finds out why threads are blocked, from outside and while they run: it stops nobody and writes
// nothing. Input: a process, and what /proc and its memory tell. Output: a [Cause]: the system call, what that waits
// for, and the thread that has that.
package blocked

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A subject is what the first arguments of a system call say that it waits for.
type subject uint8

const (
	onNothing subject = iota
	onFile            // a file descriptor
	onPoll            // a list of these
	onSelect          // sets of these
	onEpoll           // a descriptor that stands for others
	onFutex           // a word in memory
)

// A systemCall is a system call that may block.
type systemCall struct {
	name string
	on   subject
}

// systemCalls are the system calls that may block for long, by number. Others have no name.
var systemCalls = map[int64]systemCall{
	unix.SYS_READ: {"read", onFile}, unix.SYS_READV: {"readv", onFile}, unix.SYS_PREAD64: {"pread64", onFile},
	unix.SYS_PREADV: {"preadv", onFile},
	unix.SYS_WRITE:  {"write", onFile}, unix.SYS_WRITEV: {"writev", onFile}, unix.SYS_PWRITE64: {"pwrite64", onFile},
	unix.SYS_FSYNC: {"fsync", onFile}, unix.SYS_FDATASYNC: {"fdatasync", onFile}, unix.SYS_IOCTL: {"ioctl", onFile},
	unix.SYS_FLOCK: {"flock", onFile},
	unix.SYS_FCNTL: {"fcntl", onFile}, unix.SYS_SENDFILE: {"sendfile", onFile}, unix.SYS_SPLICE: {"splice", onFile},
	unix.SYS_RECVFROM: {"recvfrom", onFile}, unix.SYS_RECVMSG: {"recvmsg", onFile},
	unix.SYS_RECVMMSG: {"recvmmsg", onFile},
	unix.SYS_SENDTO:   {"sendto", onFile}, unix.SYS_SENDMSG: {"sendmsg", onFile}, unix.SYS_CONNECT: {"connect", onFile},
	unix.SYS_ACCEPT: {"accept", onFile}, unix.SYS_ACCEPT4: {"accept4", onFile},
	unix.SYS_IO_URING_ENTER: {"io_uring_enter", onFile},
	unix.SYS_PPOLL:          {"ppoll", onPoll}, unix.SYS_PSELECT6: {"pselect6", onSelect},
	unix.SYS_EPOLL_PWAIT: {"epoll_pwait", onEpoll}, unix.SYS_EPOLL_PWAIT2: {"epoll_pwait2", onEpoll},
	unix.SYS_FUTEX: {"futex", onFutex}, unix.SYS_NANOSLEEP: {"nanosleep", onNothing},
	unix.SYS_CLOCK_NANOSLEEP: {"clock_nanosleep", onNothing},
	unix.SYS_WAIT4:           {"wait4", onNothing}, unix.SYS_WAITID: {"waitid", onNothing},
	unix.SYS_OPENAT:       {"openat", onNothing},
	unix.SYS_IO_GETEVENTS: {"io_getevents", onNothing}, unix.SYS_RT_SIGTIMEDWAIT: {"rt_sigtimedwait", onNothing},
	unix.SYS_RT_SIGSUSPEND: {"rt_sigsuspend", onNothing}, unix.SYS_MSGRCV: {"msgrcv", onNothing},
	unix.SYS_SEMOP:      {"semop", onNothing},
	unix.SYS_SEMTIMEDOP: {"semtimedop", onNothing}, unix.SYS_MMAP: {"mmap", onNothing},
	unix.SYS_MUNMAP:   {"munmap", onNothing},
	unix.SYS_MPROTECT: {"mprotect", onNothing}, unix.SYS_MADVISE: {"madvise", onNothing},
	unix.SYS_CLOSE:           {"close", onNothing},
	unix.SYS_RESTART_SYSCALL: {"restart_syscall", onNothing}, unix.SYS_SCHED_YIELD: {"sched_yield", onNothing},
}

// A Cause is why a thread is blocked.
type Cause struct {
	Call    string // system call, or PageFault
	On      string // what it waits for: kinds of file, or OnLock, OnGIL or OnThread
	Holder  uint32 // thread that has it, 0 if unknown
	Files   []int  // descriptors that it waits for, up to maxFiles
	Address uint64 // in memory, of what OnLock waits for
	Timed   bool   // the wait for that has a timeout
	Shared  bool   // other processes may have it, too

	Handovers uint64 // how often the GIL had been handed over
}

// PageFault is what blocks a thread outside of system calls.
const PageFault = "page fault"

// What a system call waits for, beside kinds of file.
const (
	OnLock   = "lock"
	OnGIL    = "GIL"
	OnThread = "thread"
)

// A State is what /proc tells of a thread that does not run.
type State struct {
	Call        int64 // number of the system call, negative outside of one
	Arguments   [6]uint64
	Instruction uint64 // at which it goes on in the program, 0 if unknown
}

// Read reads the state of a thread. ok is false of a thread that runs or has ended.
func Read(pid, tid uint32) (s State, ok bool, err error) {
	text, err := procfs.Read(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, tid), procfs.MaxFacts)
	if err != nil {
		return s, false, err
	}
	fields := bytes.Fields(text)
	if len(fields) == 0 {
		return s, false, nil
	}
	if s.Call, err = strconv.ParseInt(string(fields[0]), 10, 64); err != nil {
		return s, false, nil // "running"
	}
	for i := range s.Arguments {
		if i+1 < len(fields) {
			s.Arguments[i], _ = strconv.ParseUint(string(fields[i+1]), 0, 64) // else the kernel has another format, and it is 0
		}
	}
	if s.Call < 0 { // it has no arguments
		s.Arguments = [6]uint64{}
	}
	s.Instruction, _ = strconv.ParseUint(string(fields[len(fields)-1]), 0, 64) // the last one in both forms
	return s, true, nil
}

// A WatchedProcess is a process with threads that may be blocked. It is for one goroutine.
type WatchedProcess struct {
	PID    uint32
	Memory procfs.Memory
	Walker *pyframes.Walker // nil: nothing is known of a GIL

	local  bool // its threads have other IDs in its own PID namespace
	hosts  map[uint32]uint32
	listed time.Time
}

// NewProcess returns a process without a walker.
func NewProcess(pid uint32) *WatchedProcess {
	return &WatchedProcess{PID: pid, Memory: procfs.Memory{PID: int(pid)}, local: procfs.NamespaceTID(pid, pid) != 0}
}

// futexPrivate is FUTEX_PRIVATE_FLAG, of an operation on a word that no other process has.
const futexPrivate = 128

// Explain returns why a thread of the process is blocked.
func (p *WatchedProcess) Explain(s *State) (c Cause) {
	if s.Call < 0 {
		return Cause{Call: PageFault}
	}
	call, known := systemCalls[s.Call]
	if !known {
		if call, known = archCalls[s.Call]; !known {
			return Cause{Call: fmt.Sprintf("system call %d", s.Call)}
		}
	}
	c.Call = call.name
	a := &s.Arguments
	switch call.on {
	case onFile:
		c.Files = []int{int(int32(a[0]))}
	case onPoll:
		c.Files = p.polled(a[0], a[1])
	case onSelect:
		c.Files = p.selected(a[0], a[1:4])
	case onEpoll:
		c.Files = p.watched(int(int32(a[0])))
	case onFutex:
		c.Address, c.Timed, c.Shared = a[0], a[3] != 0, a[1]&futexPrivate == 0
		if p.Walker != nil && p.Walker.Owns(a[0]) {
			c.On = OnGIL
			c.Holder, c.Handovers = p.Walker.Holder(a[0])
			c.Holder = p.Host(c.Holder)
			return c
		}
		c.On, c.Holder = p.futex(a[0], a[2])
		return c
	}
	c.Files = c.Files[:min(len(c.Files), maxFiles)]
	c.On = p.kinds(c.Files)
	return c
}

// kind names what kind of file a descriptor is of, "" if that is not known.
func (p *WatchedProcess) kind(fd int) string {
	path := fmt.Sprintf("/proc/%d/fd/%d", p.PID, fd)
	to, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	for _, k := range []struct{ prefix, name string }{
		{"pipe:", "pipe"}, {"socket:", "socket"}, {"/dev/nvidia", "GPU"}, {"/dev/pts/", "terminal"},
		{"/dev/tty", "terminal"}, {"/dev/null", "null device"}, {"/dev/", "device"},
	} {
		if strings.HasPrefix(to, k.prefix) {
			return k.name
		}
	}
	if name, ok := strings.CutPrefix(to, "anon_inode:"); ok {
		return strings.Trim(name, "[]")
	}
	s, err := procfs.FileOf(path)
	switch {
	case err != nil:
		return ""
	case s.Mode&unix.S_IFMT == unix.S_IFIFO:
		return "pipe"
	}
	return "file"
}

// maxFiles is the most descriptors of one system call that are looked at.
const maxFiles = 16

// kinds names the kinds of several descriptors: "eventfd and pipe".
func (p *WatchedProcess) kinds(fds []int) string {
	var names []string
	for _, fd := range fds {
		if name := p.kind(fd); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " and ")
}

// polled are the descriptors in a list of struct pollfd.
func (p *WatchedProcess) polled(at, n uint64) (fds []int) {
	b := make([]byte, 8*min(n, maxFiles))
	if p.Memory.Read(at, b) != nil {
		return nil
	}
	for ; len(b) > 0; b = b[8:] {
		if fd := int(int32(binary.LittleEndian.Uint32(b))); fd >= 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// selected are the descriptors in sets, of which each may be null.
func (p *WatchedProcess) selected(n uint64, sets []uint64) (fds []int) {
	const most = 1024
	for _, at := range sets {
		b := make([]byte, (min(n, most)+63)/64*8)
		if at == 0 || p.Memory.Read(at, b) != nil {
			continue
		}
		for fd := range int(min(n, most)) {
			if b[fd/8]&(1<<(fd%8)) != 0 {
				fds = append(fds, fd)
			}
		}
	}
	return fds
}

// watched are the descriptors that an epoll descriptor stands for.
func (p *WatchedProcess) watched(epoll int) (fds []int) {
	text, err := procfs.Read(fmt.Sprintf("/proc/%d/fdinfo/%d", p.PID, epoll), procfs.MaxFacts)
	if err != nil && len(text) == 0 {
		return nil
	}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) > 1 && string(fields[0]) == "tfd:" {
			if fd, err := strconv.Atoi(string(fields[1])); err == nil {
				fds = append(fds, fd)
			}
		}
	}
	return fds
}

// futex says what a thread waits for at a word, whose value was expected to be one, and which thread has it.
func (p *WatchedProcess) futex(at, expected uint64) (on string, holder uint32) {
	var b [12]byte
	if p.Memory.Read(at, b[:]) != nil {
		return OnLock, 0
	}
	const tidMask, contended = 0x3fffffff, 2
	word, owner := binary.LittleEndian.Uint32(b[:]), binary.LittleEndian.Uint32(b[8:])
	switch {
	// its value is a thread: one that has a lock of its priority, or one that is to end
	case word&tidMask > contended && p.Host(word&tidMask) != 0:
		if uint32(expected) == word {
			return OnThread, p.Host(word)
		}
		return OnLock, p.Host(word & tidMask)
	case word == contended: // a mutex of glibc's names its owner behind it
		return OnLock, p.Host(owner)
	}
	return OnLock, 0
}

// hostsAgain is the least time between two looks at the threads of a process.
const hostsAgain = time.Second

// Host returns a thread's ID by that in the process's own PID namespace, 0 if the process has no such thread.
func (p *WatchedProcess) Host(local uint32) uint32 {
	if local == 0 {
		return 0
	}
	if !p.local {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/task/%d", p.PID, local)); err != nil {
			return 0
		}
		return local
	}
	if tid := p.hosts[local]; tid != 0 || time.Since(p.listed) < hostsAgain {
		return tid
	}
	p.listed, p.hosts = time.Now(), map[uint32]uint32{}
	for tid := range procfs.Threads(p.PID) {
		if local := procfs.NamespaceTID(p.PID, tid); local != 0 {
			p.hosts[local] = tid
		} else {
			p.hosts[tid] = tid
		}
	}
	return p.hosts[local]
}
