package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// An unseen looks for processes of the program's tree that use CUDA and never say hello to the
// recorder: they run unrecorded.
type unseen struct {
	setting     string            // of the environment, by which the driver loads the injected library
	library     string            // path of the injected library
	owner       uint32            // the user who can load it
	opened      int               // descriptor that tells when the library is opened, -1 without one
	first       string            // what was told first
	raisedOther string            // a process that was seen to run with raised rights
	strangers   map[int]*stranger // the processes that ran at the last look, by PID
	tree        []int             // the processes below the program, as they were when newest was the newest process
	newest      string
	looked      time.Time     // of the last look
	full        time.Time     // of the last look at those processes, too, that were started with the setting
	gap         time.Duration // the longest time for which a process may have used CUDA and have ended between two looks
	doubt       bool          // a process may have started CUDA and have ended in such a time
	faults      uint64        // of the ended children of all processes that ran at the last look
}

// A stranger is a process below the program, or one that was and is followed since it was started without the setting: what is
// known of it outside the session, where it may have no object. That decides what a person reads, not what is recorded. It
// belongs to the goroutine that looks.
type stranger struct {
	start   procfs.StartTime
	has     met
	heir    bool      // it has the library from its parent, and CUDA does not work in it
	told    bool      // it was said that it runs unrecorded
	since   time.Time // when it was first seen on its way to a hello; 0: it was not
	cleaned string    // names it while it is followed: started without the setting, and not seen to use CUDA; "" else
	alive   time.Time // of the last look that found it so
	looks   int       // that found it so; the first may have come while it began a program, and has no environment
}

func newUnseen(setting string, as *invoker.Invoker) *unseen {
	_, library, _ := strings.Cut(setting, "=")
	u := &unseen{setting: setting, library: library, owner: as.User()}
	var err error
	if u.opened, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		u.opened = -1
	} else if _, err := unix.InotifyAddWatch(u.opened, library, unix.IN_OPEN); err != nil {
		u.close()
	}
	return u
}

func (u *unseen) close() {
	if u.opened >= 0 {
		unix.Close(u.opened)
		u.opened = -1
	}
}

const (
	unseenPatience = 3 * time.Second // in which a process that has loaded the library says hello, at the latest
	lookInterval   = 20 * time.Millisecond
	fullInterval   = 200 * time.Millisecond // between looks at processes that were started with the setting: they say hello by themselves
	cudaStart      = 40 * time.Millisecond  // CUDA takes longer to start; measured: 40 to 480 ms
	loadPatience   = 20 * time.Second       // in which the driver loads the library, at the latest: it initialises all GPUs meanwhile
)

// A met says what a process has said to the recorder.
type met uint32

const (
	silent   met = iota // nothing
	formerly            // hello, and its end: it may run another program now
	running             // hello
)

// watch looks for processes until the recording is over. The looks follow each other so soon that none can start CUDA
// between two of them, unless they would take more than a twentieth of the time.
func (u *unseen) watch(over <-chan struct{}, look func()) {
	runtime.LockOSThread() // whose processor time is measured: on a busy machine a look is long and costs little
	defer runtime.UnlockOSThread()
	for {
		before := threadTime()
		look()
		select {
		case <-over:
			return
		case <-time.After(max(lookInterval, 20*(threadTime()-before))):
		}
	}
}

// threadTime is the processor time that the calling thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // every Linux has this clock
	return time.Duration(t.Nano())
}

// look finds the processes of the tree below the program that use CUDA and run unrecorded. know says what a process has said to
// the recorder.
func (u *unseen) look(program int, know func(pid int, start procfs.StartTime) met, miss func(pid uint32, text string)) {
	began, faults := time.Now(), uint64(0)
	full := began.Sub(u.full) >= fullInterval
	if full {
		u.full = began
	}
	all, gone := u.processes(program), u.strangers
	u.strangers = map[int]*stranger{}
	for _, pid := range all {
		stat, ok := procfs.StatOf(pid)
		faults += stat.ChildFaults
		if !ok || stat.Ended {
			continue
		}
		x := gone[pid]
		if x != nil && x.start == stat.Start {
			delete(gone, pid)
		} else {
			x = &stranger{start: stat.Start}
		}
		u.strangers[pid] = x
		x.has = know(pid, x.start)
		parent := u.strangers[stat.Parent] // it comes first
		x.heir = x.has == silent && stat.Forked && parent != nil && (parent.heir || parent.told || parent.has != silent)
		u.lookAt(pid, x, full, miss)
	}
	if !u.looked.IsZero() {
		u.between(time.Since(u.looked), faults, gone)
	}
	for pid, x := range gone {
		u.ended(pid, x, miss)
	}
	u.faults, u.looked = faults, began
}

// lookAt looks at a process.
func (u *unseen) lookAt(pid int, x *stranger, full bool, miss func(pid uint32, text string)) {
	switch {
	case x.has == running, x.told:
		x.since, x.cleaned = time.Time{}, ""
		return
	case x.heir:
		return
	}
	hasSetting, err := procfs.EnvironmentHas(pid, u.setting)
	if hasSetting && !full {
		x.cleaned = ""
		return
	}
	if u.raisedOther == "" && procfs.Raised(pid) {
		u.raisedOther = processList([]int{pid})
	}
	files, _ := procfs.Files(pid) // none once it has ended
	if why := u.obstacle(pid, x, files); why != "" {
		text := fmt.Sprintf("%s is not recorded: %s", processList([]int{pid}), why)
		x.told, u.first = true, cmp.Or(u.first, text)
		miss(uint32(pid), text)
	}
	switch {
	case err != nil || hasSetting || x.told || x.has != silent:
		x.cleaned = ""
	case len(files) == 0: // it is ending
		u.ended(pid, x, miss)
	default:
		if x.cleaned == "" {
			x.cleaned, x.looks = processList([]int{pid}), 0
		}
		x.alive = time.Now()
		x.looks++
	}
}

// between takes in the time from the beginning of a look to the end of the next one: each process is looked at once in either.
// A process that no look has met leaves traces behind: one that has waited for it has its page faults, one that has not is gone,
// too, and was unrecorded.
func (u *unseen) between(time time.Duration, faults uint64, gone map[int]*stranger) {
	u.gap = max(u.gap, time)
	traces := faults > u.faults
	for _, x := range gone {
		traces = traces || x.has == silent
	}
	u.doubt = u.doubt || time >= cudaStart && traces
}

// processes lists the processes of the tree below the program, parents first, and those outside that are followed and whose
// parents have ended.
func (u *unseen) processes(program int) []int {
	if newest, err := procfs.Newest(); err != nil || newest != u.newest || u.tree == nil {
		u.newest, u.tree = newest, procfs.Tree(program)
	}
	all := slices.Clone(u.tree)
	for pid, x := range u.strangers {
		if x.cleaned != "" && !slices.Contains(u.tree, pid) {
			all = append(all, pid)
		}
	}
	return all
}

// ended notes that a process is no longer there. It says so of one that is followed if it may have used CUDA since the last look.
func (u *unseen) ended(pid int, x *stranger, miss func(pid uint32, text string)) {
	if x.cleaned != "" && x.looks >= 2 && time.Since(x.alive) >= cudaStart {
		name, _, _ := strings.Cut(u.setting, "=")
		text := fmt.Sprintf("%s may have used CUDA unrecorded: it was started without %s in its environment (env -i and sudo leave it out), and ended between two looks at it%s", x.cleaned, name, passOn(name))
		u.first = cmp.Or(u.first, text)
		miss(uint32(pid), text)
	}
	x.cleaned = ""
}

// watched says how closely processes were watched. How long a process ran does not matter: a look notices it from the start of
// CUDA in it to its end.
func (u *unseen) watched() string {
	name, _, _ := strings.Cut(u.setting, "=")
	return fmt.Sprintf("a process started without %s in its environment (env -i and sudo leave it out) may have gone unnoticed if it used CUDA for less than %s", name, figures.Duration(uint64(u.gap)))
}

// obstacle says what keeps a process that uses CUDA from saying hello, "" if it does not use CUDA, or
// if nothing does.
func (u *unseen) obstacle(pid int, x *stranger, files []string) string {
	if !slices.ContainsFunc(files, isDriver) {
		return ""
	}
	if !slices.Contains(files, u.library) {
		if !slices.ContainsFunc(files, isDevice) {
			return "" // CUDA is not initialised: NVML maps the driver library as well (580.159.04), but no device
		}
		return u.barrier(pid, x)
	}
	if x.has == formerly {
		return "" // it is ending
	}
	if x.seenFor() < unseenPatience {
		return ""
	}
	if procfs.Filters(uint32(pid), uint32(pid)) > 0 {
		return "it has loaded the injected library, but a seccomp filter keeps it from the recorder's socket"
	}
	return noWay
}

// seenFor is the time since the first look that found the process on its way to a hello.
func (x *stranger) seenFor() time.Duration {
	if x.since.IsZero() {
		x.since = time.Now()
	}
	return time.Since(x.since)
}

// barrier says what keeps the driver from loading the library into a process, "" if nothing does that is known.
func (u *unseen) barrier(pid int, x *stranger) string {
	if user, ok := procfs.User(pid); ok && user != u.owner && user != 0 {
		return fmt.Sprintf("it runs as user %d, who cannot load the injected library of user %d (start cudatrace as user %d)", user, u.owner, user)
	}
	name, _, _ := strings.Cut(u.setting, "=")
	environ, err := procfs.Environment(pid)
	switch {
	case err != nil && !errors.Is(err, procfs.ErrCut):
		return "" // it has just ended
	case slices.Contains(environ, u.setting), slices.ContainsFunc(environ, isNoSetting): // the latter: overwritten by a title
		if x.seenFor() < loadPatience {
			return ""
		}
		return fmt.Sprintf("the driver has not loaded the injected library into it: the program removed %s from its environment, or may not read that file", name)
	}
	for _, e := range environ {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return fmt.Sprintf("its %s is %s, and not the recorder's library: another tool has set it", name, value)
		}
	}
	if err != nil {
		return fmt.Sprintf("the driver has not loaded the injected library into it, and its environment is too long to look for %s there", name)
	}
	return fmt.Sprintf("it was started without %s in its environment (env -i and sudo leave it out)%s", name, passOn(name))
}

// passOn says how a variable of the environment gets to a program.
func passOn(name string) string {
	return fmt.Sprintf(`: pass it on (env -i %[1]s="$%[1]s" PROGRAM, sudo --preserve-env=%[1]s PROGRAM)`, name)
}

// hasStarted reports whether a process has initialised CUDA.
func hasStarted(pid int) bool {
	files, err := procfs.Files(pid)
	return err == nil && slices.ContainsFunc(files, isDevice)
}

// isDevice reports whether a path is that of a GPU's device.
func isDevice(path string) bool {
	return strings.Contains(path, "/dev/nvidia") || strings.HasSuffix(path, "/dev/dxg") // the latter under Windows
}

// isNoSetting reports whether an entry of an environment is not of the form NAME=VALUE.
func isNoSetting(e string) bool { return strings.Index(e, "=") < 1 }

// noWay says that a process loaded the library and did not say hello.
const noWay = "it has loaded the injected library and did not reach the recorder: " +
	"a seccomp filter keeps it from sockets, or it runs with raised rights (setuid, file capabilities)"

// reason says why nothing was recorded although the program used CUDA, or may have; "" if it did not, as
// far as is known.
func (u *unseen) reason(program string) string {
	if u.first != "" {
		return u.first
	}
	var events [4096]byte
	n, err := unix.Read(u.opened, events[:]) // without a descriptor, nothing is known
	used := err == nil && n > 0
	switch {
	case u.raised(program) && used:
		return fmt.Sprintf("%s runs with raised rights (setuid): the library that is injected leaves such programs alone", filepath.Base(program))
	case u.raised(program):
		return fmt.Sprintf("%s runs with raised rights (setuid): if it used CUDA, that was not recorded, since the library that is injected leaves such programs alone", filepath.Base(program))
	case used && u.raisedOther != "":
		return fmt.Sprintf("%s runs with raised rights (setuid): the library that is injected leaves such programs alone", u.raisedOther)
	case used:
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
