package threads

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/pyframes"
	"github.com/cudatrace/cudatrace/record/tracelog"
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
	unix.SYS_READ: {"read", onFile}, unix.SYS_READV: {"readv", onFile}, unix.SYS_PREAD64: {"pread64", onFile}, unix.SYS_PREADV: {"preadv", onFile},
	unix.SYS_WRITE: {"write", onFile}, unix.SYS_WRITEV: {"writev", onFile}, unix.SYS_PWRITE64: {"pwrite64", onFile},
	unix.SYS_FSYNC: {"fsync", onFile}, unix.SYS_FDATASYNC: {"fdatasync", onFile}, unix.SYS_IOCTL: {"ioctl", onFile}, unix.SYS_FLOCK: {"flock", onFile},
	unix.SYS_FCNTL: {"fcntl", onFile}, unix.SYS_SENDFILE: {"sendfile", onFile}, unix.SYS_SPLICE: {"splice", onFile},
	unix.SYS_RECVFROM: {"recvfrom", onFile}, unix.SYS_RECVMSG: {"recvmsg", onFile}, unix.SYS_RECVMMSG: {"recvmmsg", onFile},
	unix.SYS_SENDTO: {"sendto", onFile}, unix.SYS_SENDMSG: {"sendmsg", onFile}, unix.SYS_CONNECT: {"connect", onFile},
	unix.SYS_ACCEPT: {"accept", onFile}, unix.SYS_ACCEPT4: {"accept4", onFile}, unix.SYS_IO_URING_ENTER: {"io_uring_enter", onFile},
	unix.SYS_PPOLL: {"ppoll", onPoll}, unix.SYS_PSELECT6: {"pselect6", onSelect}, unix.SYS_EPOLL_PWAIT: {"epoll_pwait", onEpoll}, unix.SYS_EPOLL_PWAIT2: {"epoll_pwait2", onEpoll},
	unix.SYS_FUTEX: {"futex", onFutex}, unix.SYS_NANOSLEEP: {"nanosleep", onNothing}, unix.SYS_CLOCK_NANOSLEEP: {"clock_nanosleep", onNothing},
	unix.SYS_WAIT4: {"wait4", onNothing}, unix.SYS_WAITID: {"waitid", onNothing}, unix.SYS_OPENAT: {"openat", onNothing},
	unix.SYS_IO_GETEVENTS: {"io_getevents", onNothing}, unix.SYS_RT_SIGTIMEDWAIT: {"rt_sigtimedwait", onNothing},
	unix.SYS_RT_SIGSUSPEND: {"rt_sigsuspend", onNothing}, unix.SYS_MSGRCV: {"msgrcv", onNothing}, unix.SYS_SEMOP: {"semop", onNothing},
	unix.SYS_SEMTIMEDOP: {"semtimedop", onNothing}, unix.SYS_MMAP: {"mmap", onNothing}, unix.SYS_MUNMAP: {"munmap", onNothing},
	unix.SYS_MPROTECT: {"mprotect", onNothing}, unix.SYS_MADVISE: {"madvise", onNothing}, unix.SYS_CLOSE: {"close", onNothing},
	unix.SYS_RESTART_SYSCALL: {"restart_syscall", onNothing}, unix.SYS_SCHED_YIELD: {"sched_yield", onNothing},
}

// placesMost bounds the places in code of which it is remembered how the kernel was entered there.
const placesMost = 1 << 14

// entered says how a thread came into the kernel that goes on at an address when it returns: flags of a sample, 0 if unknown.
func (p *process) entered(address uint64) uint32 {
	how, known := p.entries[address]
	if known {
		return how
	}
	b := make([]byte, len(callInstruction))
	switch err := pyframes.ReadMemory(int(p.pid), address-uint64(len(b)), b); {
	case err != nil: // it has ended, or may not be read
	case bytes.Equal(b, callInstruction):
		how = tracelog.SampleCall
	default:
		how = tracelog.SampleFault
	}
	if len(p.entries) < placesMost {
		if p.entries == nil {
			p.entries = map[uint64]uint32{}
		}
		p.entries[address] = how
	}
	return how
}

// A block is why a thread is blocked.
type block struct {
	call   string // system call, or pageFault or stopped
	on     string
	holder uint32
	python uint32
}

// What blocks a thread outside of system calls.
const (
	pageFault = "page fault"
	stopped   = "stopped"
)

// What a system call waits for, beside kinds of file.
const (
	onLock   = "lock"
	onGIL    = "GIL"
	onThread = "thread"
)

// kernelState is what /proc tells of a thread that does not run: the number of the system call, and its arguments.
type kernelState struct {
	call      int64
	arguments [6]uint64
}

// readKernelState reads it. blocked is false of a thread that runs or has ended.
func readKernelState(pid, tid uint32) (s kernelState, blocked bool, err error) {
	text, err := procfs.Read(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, tid), procfs.MaxFacts)
	if err != nil {
		return s, false, err
	}
	fields := bytes.Fields(text)
	if len(fields) == 0 {
		return s, false, nil
	}
	if s.call, err = strconv.ParseInt(string(fields[0]), 10, 64); err != nil {
		return s, false, nil // "running"
	}
	for i := range s.arguments {
		if i+1 < len(fields) {
			s.arguments[i], _ = strconv.ParseUint(string(fields[i+1]), 0, 64) // else the kernel has another format, and it is 0
		}
	}
	return s, true, nil
}

// explain says why a thread of a process is blocked.
func (p *process) explain(s *kernelState) (b block) {
	if s.call < 0 {
		return block{call: pageFault}
	}
	c, known := systemCalls[s.call]
	if !known {
		if c, known = archCalls[s.call]; !known {
			return block{call: fmt.Sprintf("system call %d", s.call)}
		}
	}
	b.call = c.name
	a := &s.arguments
	switch c.on {
	case onFile:
		b.on = p.kind(int(int32(a[0])))
	case onPoll:
		b.on = p.kinds(p.polled(a[0], a[1]))
	case onSelect:
		b.on = p.kinds(p.selected(a[0], a[1:4]))
	case onEpoll:
		b.on = p.kinds(p.watched(int(int32(a[0]))))
	case onFutex:
		b.on, b.holder = p.futex(a[0], a[2])
	}
	return b
}

// kind names what kind of file a descriptor is of, "" if that is not known.
func (p *process) kind(fd int) string {
	path := fmt.Sprintf("/proc/%d/fd/%d", p.pid, fd)
	to, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	for _, k := range []struct{ prefix, name string }{
		{"pipe:", "pipe"}, {"socket:", "socket"}, {"/dev/nvidia", "GPU"}, {"/dev/pts/", "terminal"}, {"/dev/tty", "terminal"}, {"/dev/null", "null device"}, {"/dev/", "device"},
	} {
		if strings.HasPrefix(to, k.prefix) {
			return k.name
		}
	}
	if name, ok := strings.CutPrefix(to, "anon_inode:"); ok {
		return strings.Trim(name, "[]")
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return ""
	case info.Mode()&fs.ModeNamedPipe != 0:
		return "pipe"
	case info.Mode()&fs.ModeSocket != 0:
		return "socket"
	}
	return "file"
}

// maxFiles is the most descriptors of one system call that are looked at.
const maxFiles = 16

// kinds names the kinds of several descriptors: "eventfd and pipe".
func (p *process) kinds(fds []int) string {
	var names []string
	for _, fd := range fds[:min(len(fds), maxFiles)] {
		if name := p.kind(fd); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " and ")
}

// polled are the descriptors in a list of struct pollfd.
func (p *process) polled(at, n uint64) (fds []int) {
	b := make([]byte, 8*min(n, maxFiles))
	if pyframes.ReadMemory(int(p.pid), at, b) != nil {
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
func (p *process) selected(n uint64, sets []uint64) (fds []int) {
	const most = 1024
	for _, at := range sets {
		b := make([]byte, (min(n, most)+63)/64*8)
		if at == 0 || pyframes.ReadMemory(int(p.pid), at, b) != nil {
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
func (p *process) watched(epoll int) (fds []int) {
	text, err := procfs.Read(fmt.Sprintf("/proc/%d/fdinfo/%d", p.pid, epoll), procfs.MaxFacts)
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
func (p *process) futex(at, expected uint64) (on string, holder uint32) {
	if p.walker != nil && p.walker.Owns(at) {
		return onGIL, p.host(p.walker.Holder(at))
	}
	var b [12]byte
	if pyframes.ReadMemory(int(p.pid), at, b[:]) != nil {
		return onLock, 0
	}
	const tidMask, contended = 0x3fffffff, 2
	word, owner := binary.LittleEndian.Uint32(b[:]), binary.LittleEndian.Uint32(b[8:])
	switch {
	case word&tidMask > contended && p.host(word&tidMask) != 0: // its value is a thread: one that has a lock of its priority, or one that is to end
		if uint32(expected) == word {
			return onThread, p.host(word)
		}
		return onLock, p.host(word & tidMask)
	case word == contended: // a mutex of glibc's names its owner behind it
		return onLock, p.host(owner)
	}
	return onLock, 0
}
