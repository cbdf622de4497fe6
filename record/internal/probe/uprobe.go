package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// An attachMode is a way of attaching uprobes.
type attachMode uint8

// The modes.
const (
	modeAuto attachMode = iota // the best that the kernel has
	// a uprobe_multi link for entries and one for ends, Linux 6.6 with the fix of the PID filter in 6.10
	modeMulti
	modeSingle // a perf event for each entry and each end, Linux 5.15
)

var modeNames = [...]string{"auto", "multi", "single"}

func (m attachMode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// A probeSite is the place of a function in a file, and the cookie for the program.
type probeSite struct {
	cookie  uint64
	offset  uint64
	returns []uint64 // offsets of its return instructions, none where these are not known
}

// A siteProgram is a program that runs at sites of functions: entries, return instructions, and behind returns by
// return probes. The cookie of a site says which of them it is.
type siteProgram struct {
	*ebpf.Program
	mode attachMode
}

// checkMode returns an error if the kernel cannot attach the loaded program of a mode.
func checkMode(m attachMode, program *ebpf.Program) error {
	switch m {
	case modeMulti:
		return checkMulti(program)
	case modeSingle:
		return checkSingle()
	}
	return nil
}

// attachCalls probes functions of a file in one process. The returned Closer removes the entry
// probes before the return probes, so that no call is seen to begin whose return is missed. For
// the same reason the return probes are attached first.
//
// A return probe replaces the return address of a call, and nobody can unwind past it: neither an exception or the end
// of a thread, nor who writes a backtrace. So the ends of functions are probed at their return instructions where these
// are known. A perf event takes the kernel long to remove: with these there is one for the return of a function, and
// none for each of its return instructions.
func attachCalls(p siteProgram, path string, sites []probeSite, pid int) (io.Closer, error) {
	var known, others []probeSite
	for _, s := range sites {
		if len(s.returns) > 0 && p.mode != modeSingle {
			known = append(known, s)
		} else {
			others = append(others, s)
		}
	}
	var probes closeInOrder
	for _, attach := range []func() (io.Closer, error){
		func() (io.Closer, error) { return attachReturning(p, path, known, pid) },
		func() (io.Closer, error) { return attachReturnProbes(p, path, others, pid) },
	} {
		one, err := attach()
		if err != nil {
			return nil, errors.Join(err, probes.Close())
		}
		if one != nil {
			probes = append(probes, one)
		}
	}
	return probes, nil
}

// attachReturning probes functions at their entries and their return instructions. It returns nil if there are none.
func attachReturning(p siteProgram, path string, sites []probeSite, pid int) (io.Closer, error) {
	if len(sites) == 0 {
		return nil, nil
	}
	var exits []probeSite
	for _, s := range sites {
		for _, at := range s.returns {
			exits = append(exits, probeSite{cookie: s.cookie, offset: at})
		}
	}
	leave, err := attachHere(p, path, marked(exits, bpf.CookieReturn), pid)
	if err != nil {
		return nil, err
	}
	enter, err := attachHere(p, path, sites, pid)
	if err != nil {
		return nil, errors.Join(err, leave.Close())
	}
	return closeInOrder{enter, leave}, nil
}

// attachReturnProbes probes functions at their entries and behind their returns. It returns nil if there are none.
func attachReturnProbes(p siteProgram, path string, sites []probeSite, pid int) (io.Closer, error) {
	if len(sites) == 0 {
		return nil, nil
	}
	leave, err := attachBehind(p, path, marked(sites, bpf.CookieBehind), pid)
	if err != nil {
		return nil, err
	}
	enter, err := attachHere(p, path, sites, pid)
	if err != nil {
		return nil, errors.Join(err, leave.Close())
	}
	return closeInOrder{enter, leave}, nil
}

// marked returns the sites with a further bit in their cookies.
func marked(sites []probeSite, bit uint64) []probeSite {
	sites = slices.Clone(sites)
	for i := range sites {
		sites[i].cookie |= bit
	}
	return sites
}

// attachHere probes instructions.
func attachHere(p siteProgram, path string, sites []probeSite, pid int) (io.Closer, error) {
	if p.mode == modeMulti {
		return attachMulti(p.Program, 0, path, sites, pid)
	}
	return attachSingles(p.Program, path, sites, false, pid)
}

// attachBehind makes return probes.
func attachBehind(p siteProgram, path string, sites []probeSite, pid int) (io.Closer, error) {
	if p.mode == modeMulti {
		return attachMulti(p.Program, uprobeMultiReturn, path, sites, pid)
	}
	return attachSingles(p.Program, path, sites, true, pid)
}

// attachSingles makes one perf event per site.
func attachSingles(program *ebpf.Program, path string, sites []probeSite, atReturn bool, pid int) (io.Closer, error) {
	var probes together
	for _, s := range sites {
		l, err := attachSingle(program, path, s, atReturn, pid)
		if err != nil {
			return nil, errors.Join(err, probes.Close())
		}
		probes = append(probes, l)
	}
	return probes, nil
}

// closeInOrder closes one link after the other.
type closeInOrder []io.Closer

// Close closes all links, even if some cannot be closed.
func (links closeInOrder) Close() error {
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// together closes all links at the same time.
type together []io.Closer

func (t together) Close() error { return closeTogether(t) }

// singly lists the links that make up others.
func singly(links []io.Closer) (all []io.Closer) {
	for _, l := range links {
		switch l := l.(type) {
		case closeInOrder:
			all = append(all, singly(l)...)
		case together:
			all = append(all, singly(l)...)
		default:
			all = append(all, l)
		}
	}
	return all
}

// closeTogether closes all links at the same time. For each of them the kernel waits until no
// processor runs the probe any more, tens of milliseconds perhaps, and these waits can overlap.
func closeTogether(links []io.Closer) error {
	errs := make([]error, len(links))
	var closing sync.WaitGroup
	for i, l := range links {
		closing.Go(func() { errs[i] = l.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// Numbers of the kernel's user-space ABI (linux/bpf.h).
const (
	linkCreate        = 28 // BPF_LINK_CREATE
	traceUprobeMulti  = 48 // BPF_TRACE_UPROBE_MULTI
	uprobeMultiReturn = 1  // BPF_F_UPROBE_MULTI_RETURN
)

// linkCreateAttr is the part of union bpf_attr that makes a uprobe_multi link.
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

func attachMulti(program *ebpf.Program, flags uint32, path string, sites []probeSite, pid int) (io.Closer, error) {
	offsets, cookies := make([]uint64, len(sites)), make([]uint64, len(sites))
	for i, s := range sites {
		offsets[i], cookies[i] = s.offset, s.cookie
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, err
	}
	attr := linkCreateAttr{
		program: uint32(program.FD()), attachType: traceUprobeMulti, multiFlags: flags, pid: uint32(pid),
		count: uint32(len(sites)),
		path:  unsafe.Pointer(name), offsets: unsafe.Pointer(unsafe.SliceData(offsets)),
		cookies: unsafe.Pointer(unsafe.SliceData(cookies)),
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
	l, err := attachMulti(program, 0, "/", []probeSite{{offset: 1}}, -1)
	if err == nil {
		return errors.Join(errors.New("the kernel probed a folder"), l.Close())
	}
	if !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("uprobe_multi filters by thread: %w", err)
	}
	return nil
}

// warmUp makes the next probe quick, in the background: after a pause the kernel waits some 10 ms, for a grace period
// of RCU, before it puts the first uprobe. Nothing runs where this one is, and no error of it matters.
func warmUp(p siteProgram) {
	program, err := p.Clone() // the other one may be closed meanwhile
	if err != nil {
		return
	}
	go func() {
		var link io.Closer
		file, err := loopFile()
		if err == nil {
			link, err = attachHere(siteProgram{program, p.mode}, procfs.OpenFile(file), []probeSite{{offset: loopStart}}, os.Getpid())
			file.Close()
		}
		program.Close()
		if err == nil {
			link.Close() // takes longer than all else
		}
	}()
}

// perfEvent is BPF_PERF_EVENT of linux/bpf.h.
const perfEvent = 41

// perfLinkAttr is the part of union bpf_attr that links a program to a perf event. (The library
// that loads the program asks first whether the kernel has such links. Where this process cannot
// read its own memory, as with file capabilities, it gets no answer.)
type perfLinkAttr struct {
	program, target, attachType, flags uint32
	cookie                             uint64
}

// attachSingle runs a program at the entry of a function in one process, or at its return. The
// link keeps the perf event.
func attachSingle(program *ebpf.Program, path string, s probeSite, atReturn bool, pid int) (io.Closer, error) {
	event, err := openEvent(path, s.offset, atReturn, pid)
	if err != nil {
		return nil, err
	}
	attr := perfLinkAttr{program: uint32(program.FD()), target: uint32(event), attachType: perfEvent, cookie: s.cookie}
	l, err := createLink(unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(program)
	if closed := unix.Close(event); err == nil && closed != nil {
		return nil, errors.Join(closed, l.Close())
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// checkSingle returns an error if this process may not probe functions with perf events. Besides
// CAP_PERFMON kernels of July 2025 and later ask for CAP_SYS_ADMIN, and so do updates of older
// ones: 5.15.189, 6.1.146, 6.6.99. The kernel checks the rights before the path, and refuses a
// folder.
func checkSingle() error {
	event, err := openEvent("/", 1, false, os.Getpid())
	switch r := readRights(); {
	case err == nil:
		return errors.Join(errors.New("the kernel probed a folder"), unix.Close(event))
	case isPermission(err) && len(lacking(r.effective)) == 0 && !grants(r.effective, capSysAdmin):
		return &PermissionError{Missing: []string{capSysAdmin}, rights: r, cause: err}
	case isPermission(err):
		return err
	}
	return nil
}

// openEvent makes the perf event of a function's entry or return.
func openEvent(path string, offset uint64, atReturn bool, pid int) (fd int, err error) {
	u, err := readPerfUnit()
	if err != nil {
		return 0, err
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return 0, err
	}
	attr := unix.PerfEventAttr{
		Type: u.number, Size: unix.PERF_ATTR_SIZE_VER1, Ext1: uint64(uintptr(unsafe.Pointer(name))), Ext2: offset,
	}
	if atReturn {
		attr.Config = 1 << u.returnBit
	}
	fd, err = unix.PerfEventOpen(&attr, pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	runtime.KeepAlive(name)
	if errors.Is(err, errNotSupported) {
		return 0, fmt.Errorf("there is no probe on the instruction at %#x: %w", offset, err)
	}
	return fd, err
}

// errNotSupported is the kernel's ENOTSUPP, which is not among the numbers of user space.
const errNotSupported = unix.Errno(524)

// A perfUnit is how the kernel numbers its perf events for uprobes.
type perfUnit struct {
	number    uint32
	returnBit uint
}

// readPerfUnit reads the numbers once.
var readPerfUnit = sync.OnceValues(func() (u perfUnit, err error) {
	const folder = "/sys/bus/event_source/devices/uprobe/"
	return u, errors.Join(scanFile(folder+"type", "%d", &u.number), scanFile(folder+"format/retprobe", "config:%d",
		&u.returnBit))
})

// scanFile reads a number from a file.
func scanFile(path, format string, to any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(strings.TrimSpace(string(text)), format, to); err != nil {
		return fmt.Errorf("%s has %q: %w", path, text, err)
	}
	return nil
}
