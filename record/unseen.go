package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// An unseen looks for processes of the program's tree that use CUDA and never say hello to the
// recorder: they run unrecorded.
type unseen struct {
	setting     string // of the environment, by which the driver loads the injected library
	library     string // path of the injected library
	owner       uint32 // the user who can load it
	opened      int    // descriptor that tells when the library is opened, -1 without one
	told        map[int]bool
	first       string            // what was told first
	raisedOther string            // a process that was seen to run with raised rights
	since       map[int]time.Time // when a process was first seen on its way to a hello
	next        time.Time         // of the next look
}

func newUnseen(setting string, as *invoker.Invoker) *unseen {
	_, library, _ := strings.Cut(setting, "=")
	u := &unseen{setting: setting, library: library, owner: as.User(), told: map[int]bool{}, since: map[int]time.Time{}}
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
	unseenPatience = 3 * time.Second  // in which a process that has loaded the library says hello, at the latest
	loadPatience   = 20 * time.Second // in which the driver loads the library, at the latest: it initialises all GPUs meanwhile
)

// A met says what a process has said to the recorder.
type met uint32

const (
	stranger met = iota // nothing
	formerly            // hello, and its end: it may run another program now
	running             // hello
)

// look finds the processes of the tree below the program that use CUDA and run unrecorded. It takes at
// most a twentieth of the time.
func (u *unseen) look(program int, know func(pid uint32) met, miss func(pid uint32, text string)) {
	began := time.Now()
	if began.Before(u.next) {
		return
	}
	heirs := map[int]bool{}
	for _, pid := range procfs.Tree(program) { // parents first
		has := know(uint32(pid))
		if has == running || u.told[pid] {
			delete(u.since, pid)
			continue
		}
		if parent, forked := procfs.Forked(pid); has == stranger && forked && (heirs[parent] || u.told[parent] || know(uint32(parent)) != stranger) {
			heirs[pid] = true // it has the library from its parent, and CUDA does not work in it
			continue
		}
		if u.raisedOther == "" && procfs.Raised(pid) {
			u.raisedOther = processList([]int{pid})
		}
		if why := u.obstacle(pid, has); why != "" {
			text := fmt.Sprintf("%s is not recorded: %s", processList([]int{pid}), why)
			u.told[pid], u.first = true, cmp.Or(u.first, text)
			miss(uint32(pid), text)
		}
	}
	u.next = began.Add(20 * time.Since(began))
}

// obstacle says what keeps a process that uses CUDA from saying hello, "" if it does not use CUDA, or
// if nothing does.
func (u *unseen) obstacle(pid int, has met) string {
	files, err := procfs.Files(pid)
	if err != nil || !slices.ContainsFunc(files, isDriver) {
		return ""
	}
	if !slices.Contains(files, u.library) {
		if !slices.ContainsFunc(files, isDevice) {
			return "" // CUDA is not initialised: NVML maps the driver library as well (580.159.04), but no device
		}
		return u.barrier(pid)
	}
	if has == formerly {
		return "" // it is ending
	}
	if u.seenFor(pid) < unseenPatience {
		return ""
	}
	if procfs.Filters(uint32(pid), uint32(pid)) > 0 {
		return "it has loaded the injected library, but a seccomp filter keeps it from the recorder's socket"
	}
	return noWay
}

// seenFor is the time since the first look that found a process on its way to a hello.
func (u *unseen) seenFor(pid int) time.Duration {
	first, seen := u.since[pid]
	if !seen {
		first = time.Now()
		u.since[pid] = first
	}
	return time.Since(first)
}

// barrier says what keeps the driver from loading the library into a process, "" if nothing does that is known.
func (u *unseen) barrier(pid int) string {
	if user, ok := procfs.User(pid); ok && user != u.owner && user != 0 {
		return fmt.Sprintf("it runs as user %d, who cannot load the injected library of user %d (start cudatrace as user %d)", user, u.owner, user)
	}
	name, _, _ := strings.Cut(u.setting, "=")
	environ, err := procfs.Environment(pid)
	switch {
	case err != nil && !errors.Is(err, procfs.ErrCut):
		return "" // it has just ended
	case slices.Contains(environ, u.setting), slices.ContainsFunc(environ, isNoSetting): // the latter: overwritten by a title
		if u.seenFor(pid) < loadPatience {
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
	return fmt.Sprintf("it was started without %s in its environment (env -i and sudo leave it out): pass that variable on", name)
}

// hasStarted says whether a process has initialised CUDA.
func hasStarted(pid int) bool {
	files, err := procfs.Files(pid)
	return err == nil && slices.ContainsFunc(files, isDevice)
}

// isDevice says whether a path is that of a GPU's device.
func isDevice(path string) bool {
	return strings.Contains(path, "/dev/nvidia") || strings.HasSuffix(path, "/dev/dxg") // the latter under Windows
}

// isNoSetting says whether an entry of an environment is not of the form NAME=VALUE.
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

// raised says whether a program runs with other rights than the user who starts it: with those of the file's
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
