package probe

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A site is a function's place in a file.
type site struct {
	cookie uint64
	offset uint64 // in the file
}

// attachSites probes the sites in one process. The links are in the order in which
// they must be closed: entries before returns, so that no return is missed of a call
// whose entry was seen.
func (p *Prober) attachSites(path string, sites []site, pid int) ([]io.Closer, error) {
	switch p.mode {
	case ModeSession:
		session, err := attachMulti(p.programs.enter, traceUprobeSession, 0, path, sites, pid)
		return []io.Closer{session}, err
	case ModeMulti:
		return p.attachPair(path, sites, pid)
	}
	return p.attachSingles(path, sites, pid)
}

// attachPair attaches the returns first, for the same reason.
func (p *Prober) attachPair(path string, sites []site, pid int) ([]io.Closer, error) {
	leave, err := attachMulti(p.programs.leave, traceUprobeMulti, uprobeMultiReturn, path, sites, pid)
	if err != nil {
		return nil, err
	}
	enter, err := attachMulti(p.programs.enter, traceUprobeMulti, 0, path, sites, pid)
	if err != nil {
		return nil, errors.Join(err, leave.Close())
	}
	return []io.Closer{enter, leave}, nil
}

// attachSingles makes one perf event for each entry and each return.
func (p *Prober) attachSingles(path string, sites []site, pid int) ([]io.Closer, error) {
	file, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	enters, leaves := &group{}, &group{}
	for _, s := range sites {
		err := errors.Join(
			leaves.add(file.Uretprobe, p.programs.leave, s, pid),
			enters.add(file.Uprobe, p.programs.enter, s, pid))
		if err != nil {
			return nil, errors.Join(err, enters.Close(), leaves.Close())
		}
	}
	return []io.Closer{enters, leaves}, nil
}

// attachEach makes one perf event for each entry.
func attachEach(path string, program *ebpf.Program, sites []site, pid int) (io.Closer, error) {
	file, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	g := &group{}
	for _, s := range sites {
		if err := g.add(file.Uprobe, program, s, pid); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// A group is links that are closed at once: closing one perf event waits tens of
// milliseconds for the kernel, and the waits can overlap.
type group struct{ links []io.Closer }

func (g *group) add(attach func(string, *ebpf.Program, *link.UprobeOptions) (link.Link, error), program *ebpf.Program, s site, pid int) error {
	l, err := attach("", program, &link.UprobeOptions{Address: s.offset, Cookie: s.cookie, PID: pid})
	if err != nil {
		return err
	}
	g.links = append(g.links, l)
	return nil
}

func (g *group) Close() error {
	errs := make([]error, len(g.links))
	var wg sync.WaitGroup
	for i, l := range g.links {
		wg.Go(func() { errs[i] = l.Close() })
	}
	wg.Wait()
	g.links = nil
	return errors.Join(errs...)
}

// Numbers of the kernel's user-space ABI (linux/bpf.h).
const (
	linkCreate         = 28 // BPF_LINK_CREATE
	traceUprobeMulti   = 48 // BPF_TRACE_UPROBE_MULTI
	traceUprobeSession = 57 // BPF_TRACE_UPROBE_SESSION
	uprobeMultiReturn  = 1  // BPF_F_UPROBE_MULTI_RETURN
)

// linkCreateAttr is the part of union bpf_attr that makes a uprobe_multi link. The
// library that loads the program makes no session links.
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

// A multiLink is the file descriptor of a uprobe_multi link.
type multiLink int

func (l multiLink) Close() error { return unix.Close(int(l)) }

func attachMulti(program *ebpf.Program, attachType, flags uint32, path string, sites []site, pid int) (io.Closer, error) {
	offsets, cookies := make([]uint64, len(sites)), make([]uint64, len(sites))
	for i, s := range sites {
		offsets[i], cookies[i] = s.offset, s.cookie
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, err
	}
	attr := linkCreateAttr{
		program: uint32(program.FD()), attachType: attachType, multiFlags: flags, pid: uint32(pid), count: uint32(len(sites)),
		path: unsafe.Pointer(name), offsets: unsafe.Pointer(unsafe.SliceData(offsets)), cookies: unsafe.Pointer(unsafe.SliceData(cookies)),
	}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, linkCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(program)
	if errno != 0 {
		return nil, errno
	}
	return multiLink(fd), nil
}

// checkPIDFilter tells apart kernels whose uprobe_multi filters by process from
// earlier ones that took the PID for a thread's and missed all other threads of the
// process. The fixed kernel looks at the PID before the path, and refuses -1.
func checkPIDFilter(program *ebpf.Program) error {
	l, err := attachMulti(program, traceUprobeMulti, 0, "/", []site{{offset: 1}}, -1)
	if err == nil {
		return errors.Join(errors.New("the kernel probed a folder"), l.Close())
	}
	if !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("uprobe_multi filters by thread: %w", err)
	}
	return nil
}
