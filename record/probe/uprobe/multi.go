package uprobe

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Numbers of the kernel's user-space ABI (linux/bpf.h).
const (
	linkCreate         = 28 // BPF_LINK_CREATE
	traceUprobeMulti   = 48 // BPF_TRACE_UPROBE_MULTI
	traceUprobeSession = 57 // BPF_TRACE_UPROBE_SESSION
	uprobeMultiReturn  = 1  // BPF_F_UPROBE_MULTI_RETURN
)

// linkCreateAttr is the part of union bpf_attr that makes a uprobe_multi link. (The library
// that loads the program cannot make session links.)
type linkCreateAttr struct {
	program    uint32
	target     uint32
	attachType uint32
	flags      uint32
	path       unsafe.Pointer
	offsets    unsafe.Pointer
	refCounts  unsafe.Pointer
	cookies    unsafe.Pointer
	count      uint32
	multiFlags uint32
	pid        uint32
	_          uint32
}

// A bpfLink is the file descriptor of a link between a program and its probes.
type bpfLink int

// Close removes the probes. A child process that has been forked and has not yet run its program holds the
// link, too: without the lock probes could stay until it does.
func (l bpfLink) Close() error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return unix.Close(int(l))
}

// createLink makes a link from a part of union bpf_attr.
func createLink(attr unsafe.Pointer, size uintptr) (bpfLink, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, linkCreate, uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return bpfLink(fd), nil
}

func attachMulti(program *ebpf.Program, attachType, flags uint32, path string, sites []Site, pid int) (io.Closer, error) {
	offsets, cookies := make([]uint64, len(sites)), make([]uint64, len(sites))
	for i, s := range sites {
		offsets[i], cookies[i] = s.Offset, s.Cookie
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, err
	}
	attr := linkCreateAttr{
		program: uint32(program.FD()), attachType: attachType, multiFlags: flags, pid: uint32(pid), count: uint32(len(sites)),
		path: unsafe.Pointer(name), offsets: unsafe.Pointer(unsafe.SliceData(offsets)), cookies: unsafe.Pointer(unsafe.SliceData(cookies)),
	}
	l, err := createLink(unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(program)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// checkMulti returns an error on a kernel whose uprobe_multi takes the PID for a thread's, and
// so misses all other threads of the process. A kernel that filters by process checks the PID
// before the path, and refuses -1. program is a program for the mode Multi.
func checkMulti(program *ebpf.Program) error {
	l, err := attachMulti(program, traceUprobeMulti, 0, "/", []Site{{Offset: 1}}, -1)
	if err == nil {
		return errors.Join(errors.New("the kernel probed a folder"), l.Close())
	}
	if !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("uprobe_multi filters by thread: %w", err)
	}
	return nil
}
