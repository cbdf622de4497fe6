package cupti

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// armedThread is the name of the thread that waits: inject/wire.h, CT_ARMED_THREAD.
const armedThread = "cudatrace-armed"

// An ArmedState is what became of a process that 'cudatrace run --armed' started.
//
// The library in such a process sleeps on a page beside it. A recorder opens a socket in the same folder, writes
// the process into the page and rings. The folder is its user's, who may be hostile to a recorder that runs as
// root: all is done with that user's rights to files.
type ArmedState int

// The states.
const (
	NotArmed      ArmedState = iota // it is not armed
	ArmedFresh                      // it has not started CUDA yet
	ArmedWaiting                    // it waits for a recorder
	ArmedRecorded                   // a recorder records it, or has just ended
)

// An ArmedProcess is one that may be armed.
type ArmedProcess struct {
	PID     int
	State   ArmedState
	library string // path of the library, in the process's root
}

// LookForArmed finds out whether a process is armed.
func LookForArmed(pid int) ArmedProcess {
	p := ArmedProcess{PID: pid}
	files, err := procfs.Files(pid)
	if err != nil {
		return p
	}
	if i := slices.IndexFunc(files, isInjectedLibrary); i >= 0 {
		p.library = files[i]
	} else {
		p.library, p.State = injectionSetting(pid), ArmedFresh
	}
	dir, err := p.folder()
	if err != nil {
		return ArmedProcess{PID: pid}
	}
	defer unix.Close(dir)
	var s unix.Stat_t
	switch {
	case unix.Fstatat(dir, privatefolder.ArmedName, &s, unix.AT_SYMLINK_NOFOLLOW) != nil:
		return ArmedProcess{PID: pid}
	case p.State == ArmedFresh:
	case waitsArmed(pid):
		p.State = ArmedWaiting
	case slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, "/libcuda.so") }):
		p.State = ArmedRecorded
	default:
		p.State = ArmedFresh // NVTX alone has loaded the library
	}
	return p
}

func isInjectedLibrary(path string) bool { return filepath.Base(path) == privatefolder.LibraryName }

// injectionSetting is the library that the driver loads when the process starts CUDA, "" without one of ours.
func injectionSetting(pid int) string {
	environ, err := procfs.Environment(pid)
	if err != nil {
		return ""
	}
	return LibrarySetting(environ)
}

// LibrarySetting is the library that an environment has the driver load, "" without one of ours.
func LibrarySetting(environ []string) string {
	for _, e := range environ {
		if path, ok := strings.CutPrefix(e, InjectionVar+"="); ok && isInjectedLibrary(path) {
			return path
		}
	}
	return ""
}

func waitsArmed(pid int) bool {
	for _, name := range procfs.ThreadNames(uint32(pid)) {
		if name == armedThread {
			return true
		}
	}
	return false
}

// Family is the same for all processes that one 'cudatrace run --armed' started.
func (p *ArmedProcess) Family() string { return filepath.Dir(p.library) }

// folder opens the folder of the library as the process sees it.
func (p *ArmedProcess) folder() (fd int, err error) {
	if p.library == "" {
		return -1, os.ErrNotExist
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", p.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return unix.Openat2(root, filepath.Dir(p.library), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// An ArmedCall is a recorder's claim to the armed processes of one folder. Nobody else can call them until Close.
type ArmedCall struct {
	Entrance Entrance
	PIDs     []int // those that are called

	dir  int
	page *os.File // locked
	as   *invoker.Invoker
}

// errBusy says that another recorder has called processes of the same folder.
var errBusy = errors.New("another recorder records processes that were armed with it")

// CallArmed opens a socket for processes, by the folders that they are of. A refusal says why a process cannot be
// called.
func CallArmed(processes []ArmedProcess) (calls []*ArmedCall, refused map[int]error) {
	refused = map[int]error{}
	for _, p := range processes {
		var err error
		if calls, err = addArmed(calls, p); err != nil {
			refused[p.PID] = err
		}
	}
	return calls, refused
}

// addArmed adds a process to the call of its folder, or makes one.
func addArmed(calls []*ArmedCall, p ArmedProcess) ([]*ArmedCall, error) {
	dir, err := p.folder()
	if err != nil {
		return calls, err
	}
	c := &ArmedCall{dir: dir}
	for _, other := range calls {
		if sameFile(dir, other.dir) {
			unix.Close(dir)
			if err := sandboxed(p.PID, other.page); err != nil {
				return calls, err
			}
			other.PIDs = append(other.PIDs, p.PID)
			return calls, nil
		}
	}
	if err := c.open(p.PID); err != nil {
		return calls, errors.Join(err, c.Close())
	}
	c.PIDs = []int{p.PID}
	return append(calls, c), nil
}

func sameFile(a, b int) bool {
	var s, t unix.Stat_t
	return unix.Fstat(a, &s) == nil && unix.Fstat(b, &t) == nil && s.Dev == t.Dev && s.Ino == t.Ino
}

// open claims the folder and opens the socket.
func (c *ArmedCall) open(pid int) error {
	var s unix.Stat_t
	if err := unix.Fstat(c.dir, &s); err != nil {
		return err
	}
	// The folder is named by the process's environment, which whoever started the process decided. Else root would remove
	// a socket from a folder of root's.
	user, ok1 := procfs.User(pid)
	starter, ok2 := procfs.Owner(pid)
	if !ok1 || !ok2 || s.Mode&0o077 != 0 || s.Uid != user || s.Uid != starter {
		return errors.New("its folder is not its user's own")
	}
	if int(s.Uid) != os.Geteuid() {
		c.as = &invoker.Invoker{UID: s.Uid, GID: s.Gid}
	}
	c.Entrance.Owner = Owner{UID: int(user), GID: int(s.Gid)}
	return c.as.Do(func() error { return c.claim(pid) })
}

func (c *ArmedCall) claim(pid int) error {
	fd, err := unix.Openat(c.dir, privatefolder.ArmedName, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.page = os.NewFile(uintptr(fd), privatefolder.ArmedName)
	var s unix.Stat_t
	switch err := unix.Fstat(fd, &s); {
	case err != nil:
		return err
	case s.Mode&unix.S_IFMT != unix.S_IFREG || s.Size != privatefolder.PageSize:
		return errors.New("the page in its folder is not one of cudatrace's")
	case unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil:
		return errBusy
	}
	if err := sandboxed(pid, c.page); err != nil {
		return err
	}
	if err := unix.Unlinkat(c.dir, privatefolder.SocketName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err // what a recorder that was killed left
	}
	path := fmt.Sprintf("/proc/self/fd/%d/%s", c.dir, privatefolder.SocketName)
	c.Entrance.Listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		c.Entrance.Listener.SetUnlinkOnClose(false)
	}
	return err
}

// Ring has the processes connect.
func (c *ArmedCall) Ring() error {
	var pids []uint32
	for _, pid := range c.PIDs {
		own := procfs.NamespaceTID(uint32(pid), uint32(pid))
		if own == 0 {
			own = uint32(pid)
		}
		pids = append(pids, own)
	}
	return privatefolder.Want(c.page, pids)
}

// Close gives the claim up. Processes that were called and did not come wait on.
func (c *ArmedCall) Close() error {
	var err error
	if c.Entrance.Listener != nil {
		if failed := c.Entrance.Listener.Close(); !errors.Is(failed, net.ErrClosed) {
			err = failed
		}
		if gone := c.as.Do(func() error { return unix.Unlinkat(c.dir, privatefolder.SocketName, 0) }); !errors.Is(gone,
			unix.ENOENT) {
			err = errors.Join(err, gone)
		}
		err = errors.Join(err, privatefolder.Want(c.page, nil))
	}
	if c.page != nil {
		err = errors.Join(err, c.page.Close())
	}
	return errors.Join(err, unix.Close(c.dir))
}

// sandboxed is an error if a thread of the process has entered a sandbox since the program was started: there the
// calls that are new to it could kill it.
func sandboxed(pid int, page *os.File) error {
	before, err := privatefolder.Filters(page)
	if err != nil {
		return err
	}
	for tid := range procfs.Threads(uint32(pid)) {
		if procfs.Filters(uint32(pid), tid) > before {
			return errors.New("it has entered a sandbox (seccomp), in which starting CUPTI could kill it")
		}
	}
	return nil
}
