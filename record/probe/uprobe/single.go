package uprobe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

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
func attachSingle(program *ebpf.Program, path string, s Site, atReturn bool, pid int) (io.Closer, error) {
	event, err := openEvent(path, s.Offset, atReturn, pid)
	if err != nil {
		return nil, err
	}
	attr := perfLinkAttr{program: uint32(program.FD()), target: uint32(event), attachType: perfEvent, cookie: s.Cookie}
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
	case IsPermission(err) && len(lacking(r.effective)) == 0 && !grants(r.effective, capSysAdmin):
		return &PermissionError{Missing: []string{capSysAdmin}, rights: r, cause: err}
	case IsPermission(err):
		return err
	}
	return nil
}

// openEvent makes the perf event of a function's entry or return.
func openEvent(path string, offset uint64, atReturn bool, pid int) (fd int, err error) {
	u, err := readUnit()
	if err != nil {
		return 0, err
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return 0, err
	}
	attr := unix.PerfEventAttr{Type: u.number, Size: unix.PERF_ATTR_SIZE_VER1, Ext1: uint64(uintptr(unsafe.Pointer(name))), Ext2: offset}
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

// A unit is how the kernel numbers its perf events for uprobes.
type unit struct {
	number    uint32
	returnBit uint
}

// readUnit reads the numbers once.
var readUnit = sync.OnceValues(func() (u unit, err error) {
	const folder = "/sys/bus/event_source/devices/uprobe/"
	return u, errors.Join(scanFile(folder+"type", "%d", &u.number), scanFile(folder+"format/retprobe", "config:%d", &u.returnBit))
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
