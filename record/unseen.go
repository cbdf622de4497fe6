package record

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// An unseen knows which processes of the program's tree use CUDA and never say hello to the recorder: they run
// unrecorded. The kernel tells of each opening of the driver's device, and which processes are of the tree.
type unseen struct {
	setting           string     // of the environment, by which the driver loads the injected library
	variable, library string     // name of the setting, and path of the injected library
	owner             uint32     // the user who can load it
	loads             *openWatch // of the library, nil where the kernel cannot tell
	device            string     // that CUDA opens
	wakes             int        // an eventfd that ends await; -1: there is none

	mu      sync.Mutex
	unknown string      // why processes may use CUDA that nobody knows of; "" if none can
	opens   *openWatch  // of the device; nil: there is none
	tree    *probe.Tree // nil where unknown
	openers map[member]*opener
	loaded  bool   // some process has loaded the library
	first   string // what was told first
}

// A member is a program that a process of the tree runs.
type member struct {
	pid   uint32
	began uint64 // ns, CLOCK_MONOTONIC
}

// An opener has opened the driver's device, or the library.
type opener struct {
	name    string
	device  uint64 // ns, CLOCK_MONOTONIC: when that was noted; 0: not the device
	library bool
	mapped  bool // it was seen to have a device mapped, as CUDA has it
	ours    bool // it was seen to have our setting in its environment
	judged  bool
}

// driverDevice is the device that CUDA opens and maps when it starts. NVML opens it, too (H100, driver 580).
const driverDevice = "/dev/nvidia-uvm"

// deviceVar names a file that stands for the device in tests, where the driver is a simulated one.
const deviceVar = "CUDATRACE_TEST_DEVICE"

func newUnseen(setting string, as *invoker.Invoker) *unseen {
	variable, library, _ := strings.Cut(setting, "=")
	u := &unseen{setting: setting, variable: variable, library: library, owner: as.User(), openers: map[member]*opener{}}
	u.device = cmp.Or(os.Getenv(deviceVar), driverDevice)
	u.wakes, _ = unix.Eventfd(0, unix.EFD_CLOEXEC) // without it the end of recording waits for a look
	u.loads, _ = watchOpens(library)               // without it a reason is less sharp
	if err := u.follow(); err != nil {
		u.unknown = err.Error()
	}
	return u
}

// follow has the kernel tell of the tree and of the device.
func (u *unseen) follow() (err error) {
	if _, err := os.Stat("/dev/dxg"); err == nil {
		return errors.New("under Windows CUDA has no device of its own")
	}
	if !procfs.Capable(unix.CAP_SYS_ADMIN) { // it does not tell others which process opens a file
		remedy := "run with sudo"
		if os.Geteuid() == 0 {
			remedy = "start the container with --cap-add SYS_ADMIN"
		}
		return fmt.Errorf("without CAP_SYS_ADMIN the kernel does not tell who opens %s (%s)", driverDevice, remedy)
	}
	u.opens, err = watchOpens(u.device)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("the kernel does not tell who opens %s: %w", u.device, errno.Plain(err))
	}
	u.tree, err = probe.FollowTree()
	return err
}

func (u *unseen) close() {
	u.loads.close()
	u.opens.close()
	unix.Close(u.wakes)
	if u.tree != nil {
		_ = u.tree.Close() // the kernel removes its hooks with us
	}
}

// start starts the program by calling start.
func (u *unseen) start(start func()) {
	if u == nil || u.tree == nil {
		start()
		return
	}
	if err := u.tree.Start(start); err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.unknown = cmp.Or(u.unknown, err.Error())
	}
}

const (
	unseenPatience = 3 * time.Second // in which a process that has loaded the library says hello, at the latest
	lookInterval   = 200 * time.Millisecond
	// while a process that has opened the device has said no hello: by what it maps CUDA is told from NVML
	closeInterval = 10 * time.Millisecond
	// in which the driver loads the library, at the latest: it initialises all GPUs meanwhile
	loadPatience = 20 * time.Second
)

// hear takes in what has been opened. It is called while a process waits for the answer to its hello, too, so that what
// it has opened is noted before it can run another program.
func (u *unseen) hear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, pid := range u.opens.read() {
		if o := u.openerOf(pid); o != nil && o.device == 0 {
			o.device = host.Monotonic()
		}
	}
	for _, pid := range u.loads.read() {
		u.loaded = true
		if o := u.openerOf(pid); o != nil {
			o.library = true
		}
	}
}

// openerOf returns what is known of the program that a process runs, nil if it is none of the tree.
func (u *unseen) openerOf(pid uint32) *opener {
	if u.tree == nil {
		return nil
	}
	m, ok := u.tree.Find(pid)
	if !ok {
		return nil
	}
	p := member{pid, m.Began}
	if u.openers[p] == nil {
		u.openers[p] = &opener{name: m.Name}
	}
	return u.openers[p]
}

// await waits until a file is opened, it is time for a look, or wake was called.
func (u *unseen) await(suspects bool) {
	wait, watched := lookInterval, []unix.PollFd{{Fd: int32(u.wakes), Events: unix.POLLIN}}
	if u.opens != nil {
		watched = append(watched, unix.PollFd{Fd: int32(u.opens.fd), Events: unix.POLLIN})
	}
	if suspects {
		wait = closeInterval
	}
	_, _ = unix.Poll(watched, int(wait.Milliseconds())) // after a signal there is another look
}

func (u *unseen) wake() {
	if u != nil {
		_, _ = unix.Write(u.wakes, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// look finds the processes that have opened the device and run unrecorded. hellos are the times of all hellos that a
// process has said, in ns of CLOCK_MONOTONIC; last says that no look follows. suspects reports whether a process runs
// that may be one.
func (u *unseen) look(last bool, hellos func(pid uint32) []uint64, miss func(pid uint32, text string)) (suspects bool) {
	began := host.Monotonic()
	u.hear()
	u.mu.Lock()
	defer u.mu.Unlock()
	for p, o := range u.openers {
		if o.device == 0 || o.judged {
			continue
		}
		until := ^uint64(0) // the next program of the process began then
		for q := range u.openers {
			if q.pid == p.pid && q.began > p.began {
				until = min(until, q.began)
			}
		}
		why, judged := u.obstacle(p, o) // before it is asked for hellos: one that has ended says none any more
		if slices.ContainsFunc(hellos(p.pid), func(at uint64) bool { return p.began <= at && at < until }) {
			o.judged = true
			continue
		}
		o.judged = judged
		suspects = suspects || !judged && time.Duration(host.Monotonic()-o.device) < time.Second
		if why != "" {
			text := fmt.Sprintf("%s (%d) %s", o.name, p.pid, why)
			u.first = cmp.Or(u.first, text)
			miss(p.pid, text)
		}
	}
	if u.tree == nil {
		return false
	}
	switch lost, err := u.tree.Forget(began); {
	case err != nil:
		u.unknown = cmp.Or(u.unknown, "the kernel no longer tells which processes the program starts: "+errno.Words(err))
	case lost || u.opens != nil && u.opens.lost:
		u.unknown = cmp.Or(u.unknown, "more processes ran at the same time than are followed")
	}
	if _, err := os.Stat(u.device); last && u.opens == nil && err == nil {
		u.unknown = cmp.Or(u.unknown, "the GPU driver was loaded after recording began")
	}
	return suspects
}

// runs reports whether a program still runs.
func (u *unseen) runs(p member) bool {
	m, ok := u.tree.Find(p.pid)
	return ok && !m.Ended && m.Began == p.began
}

// obstacle says of a process that has opened the device what kept it from saying hello, "" if nothing did that is
// known. judged says that nothing else will be known.
func (u *unseen) obstacle(p member, o *opener) (why string, judged bool) {
	const not = "is not recorded: "
	age, pid := time.Duration(host.Monotonic()-o.device), int(p.pid)
	ours, err := procfs.EnvironmentHas(pid, u.setting)
	mapped := hasStarted(pid)
	switch {
	case o.library && age < unseenPatience: // if recording ends, it has done nothing that is missing
	case o.library && procfs.Filters(p.pid, p.pid) > 0:
		why = not + "it has loaded the injected library, but a seccomp filter keeps it from the recorder's socket"
	case o.library:
		why = not + noWay
	case mapped:
		if why = u.barrier(pid, age); why != "" {
			why = not + why
		}
	}
	if u.runs(p) { // it was this program that was looked at
		o.mapped, o.ours = o.mapped || mapped, o.ours || ours && err == nil
		return why, why != ""
	}
	started := startedWithout(u.variable)
	switch {
	case o.library:
		return not + noWay, true
	case o.mapped && o.ours:
		return not + "it ended before the driver loaded the injected library, or removed " + u.variable +
			" from its environment", true
	case o.mapped:
		return not + started + ", or with another tool's", true
	case o.ours:
		return "", true // it used NVML
	}
	return "may have used CUDA unrecorded: it opened the GPU driver's device, as NVML does, too, and never loaded the " +
		"injected library: perhaps " + started, true
}

// barrier says what keeps the driver from loading the library into a process that opened the device a time ago, "" if
// nothing does that is known.
func (u *unseen) barrier(pid int, age time.Duration) string {
	if user, ok := procfs.User(pid); ok && user != u.owner && user != 0 {
		return fmt.Sprintf("it runs as user %d, who cannot load the injected library of user %d (start cudatrace as user "+
			"%d; of a program that changes its user itself 'cudatrace record -p %d' records the calls)", user, u.owner, user,
			pid)
	}
	name := u.variable
	environ, err := procfs.Environment(pid)
	switch {
	case err != nil && !errors.Is(err, procfs.ErrCut):
		return "" // it has just ended
	// the latter: overwritten by a title
	case slices.Contains(environ, u.setting), slices.ContainsFunc(environ, isNoSetting):
		if age < loadPatience {
			return ""
		}
		return fmt.Sprintf("the driver has not loaded the injected library into it: the program removed %s from its "+
			"environment, or may not read that file", name)
	}
	for _, e := range environ {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return fmt.Sprintf("its %s is %s, and not the recorder's library: another tool has set it", name, value)
		}
	}
	if err != nil {
		return fmt.Sprintf("the driver has not loaded the injected library into it, and its environment is too long to "+
			"look for %s there", name)
	}
	return startedWithout(name)
}

// startedWithout says that a program lacks a variable of the environment, and how it gets there.
func startedWithout(name string) string {
	return fmt.Sprintf("it was started without %[1]s in its environment (env -i and sudo leave it out): "+
		`pass it on (env -i %[1]s="$%[1]s" PROGRAM, sudo --preserve-env=%[1]s PROGRAM)`, name)
}

// hasStarted reports whether a process has initialised CUDA.
func hasStarted(pid int) bool { return mapsFile(pid, startsCUDA) }

// mapsFile reports whether a process maps a file for which a condition holds.
func mapsFile(pid int, holds func(path string) bool) bool {
	files, err := procfs.Files(pid)
	return err == nil && slices.ContainsFunc(files, holds)
}

// startsCUDA reports whether a mapped file is a device that CUDA maps and NVML does not.
func startsCUDA(path string) bool {
	return strings.HasSuffix(path, driverDevice) || strings.HasSuffix(path, "/dev/dxg") // the latter under Windows
}

// isNoSetting reports whether an entry of an environment is not of the form NAME=VALUE.
func isNoSetting(e string) bool { return strings.Index(e, "=") < 1 }

// noWay says that a process loaded the library and did not say hello.
const noWay = "it has loaded the injected library and did not reach the recorder: " +
	"a seccomp filter keeps it from sockets, or it runs with raised rights (setuid, file capabilities)"

// others says which processes may have used CUDA unrecorded, "" if none can have.
func (u *unseen) others() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.unknown
}

// reason says why nothing was recorded although the program used CUDA, or may have; "" if it did not, as
// far as is known.
func (u *unseen) reason(program string) string {
	u.hear()
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.first != "":
		return u.first
	case u.raised(program) && u.loaded:
		return fmt.Sprintf("%s runs with raised rights (setuid): the library that is injected leaves such programs alone",
			filepath.Base(program))
	case u.raised(program):
		return fmt.Sprintf("%s runs with raised rights (setuid): if it used CUDA, that was not recorded, since the library "+
			"that is injected leaves such programs alone", filepath.Base(program))
	case u.loaded:
		return "a process used CUDA: " + noWay
	}
	return ""
}

// raised reports whether a program runs with other rights than the user who starts it: with those of the file's
// owner or group, or with capabilities of the file.
func (u *unseen) raised(program string) bool {
	info, err := os.Stat(program)
	if err != nil {
		return false
	}
	if info.Mode()&os.ModeSetuid != 0 && owner(info) != u.owner || info.Mode()&os.ModeSetgid != 0 {
		return true
	}
	n, err := unix.Getxattr(program, "security.capability", nil)
	return u.owner != 0 && err == nil && n > 0
}

func owner(info os.FileInfo) uint32 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Uid
	}
	return 0
}

// An openWatch hears who opens a file.
type openWatch struct {
	fd   int
	lost bool // there were more than the kernel keeps
}

// watchOpens begins to hear of a file. It does not open it: devices take notice of that.
func watchOpens(path string) (*openWatch, error) {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN, unix.AT_FDCWD, path); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &openWatch{fd: fd}, nil
}

// read lists the processes that have opened the file since the last call, 0 for one that the kernel does not name.
func (w *openWatch) read() (pids []uint32) {
	if w == nil {
		return nil
	}
	const header = 24 // of struct fanotify_event_metadata
	events := make([]byte, 16<<10)
	for {
		n, err := unix.Read(w.fd, events)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return pids // there are no more
		}
		for b := events[:n]; len(b) >= header; {
			length, mask := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint64(b[8:])
			if mask&unix.FAN_Q_OVERFLOW != 0 {
				w.lost = true
			} else {
				pids = append(pids, binary.NativeEndian.Uint32(b[20:]))
			}
			b = b[min(max(int(length), header), len(b)):]
		}
	}
}

func (w *openWatch) close() {
	if w != nil {
		unix.Close(w.fd)
	}
}
