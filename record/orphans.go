package record

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/procfs"
)

const (
	// orphanInterval is the least time between two looks for processes that outlive the program.
	orphanInterval = 50 * time.Millisecond
	// orphanLook is that time while one of them uses CUDA.
	orphanLook = time.Second
	// orphanGrace is the time in which a process that outlives the program, such as a daemon,
	// has to open the driver. Recording does not wait for it any longer.
	orphanGrace = 2 * time.Second
	// orphanHint is the time after which a person is told which processes recording waits for.
	orphanHint = time.Second
)

// wait waits until no process of the program's tree uses CUDA or may be about to.
// connected waits for a time until no process is connected, and returns the number of those that are.
func (w *orphans) wait(connected func(time.Duration) int, say func(string)) {
	defer w.forget()
	began, told := time.Now(), false
	for {
		waited := time.Since(began)
		if connected(orphanInterval) == 0 && w.over(waited > orphanGrace) {
			return
		}
		if waited > orphanHint && !told {
			told = true
			say(fmt.Sprintf("%s has ended, but processes that it started still run%s; recording goes on until those that use "+
				"CUDA end (Ctrl-C or SIGTERM stops it)",
				w.program, w.names()))
		}
	}
}

// orphans are the processes of the program's tree that outlive the program. A look at every
// process of the machine takes long beside hundreds of them, so there is one only when the known
// orphans do not tell whether recording is over.
type orphans struct {
	program string
	leaves  func(pid uint32) bool // a process is not recorded, and need not be waited for
	setting string                // is in the environment of each process of the tree
	owner   uint32                // the user who starts these processes
	since   procfs.StartTime      // before which none of them was started
	known   []orphan
	looked  time.Time
	looks   int
}

type orphan struct {
	pid      int
	end      int // descriptor that tells of the end, -1 if the kernel gives none
	usesCUDA bool
}

// newOrphans returns the orphans of a program that a user has started at a time.
func newOrphans(program string, owner uint32, since procfs.StartTime, setting string,
	leaves func(pid uint32) bool) *orphans {
	return &orphans{program: program, leaves: leaves, setting: setting, owner: owner, since: since}
}

// over reports whether there is no orphan to wait for. If there is one, it waits a moment for an end.
// Within the grace, an orphan may still open the driver.
func (w *orphans) over(graceIsOver bool) bool {
	w.await(0)
	if age := time.Since(w.looked); len(w.known) == 0 || graceIsOver && (!w.useCUDA() || age > orphanLook) {
		time.Sleep(orphanInterval - age)
		w.look()
	}
	if len(w.known) == 0 || graceIsOver && !w.useCUDA() {
		return true
	}
	w.await(orphanInterval)
	return false
}

// look finds the processes whose environment has the setting. It reads no environment of another user's process, nor of
// one that was there before the program: what is in it is theirs to decide. A process whose environment is too long is
// none, as far as is known; it is waited for if it is connected.
func (w *orphans) look() {
	w.forget()
	w.looked = time.Now()
	w.looks++
	pids, err := procfs.PIDs()
	if err != nil {
		return // without /proc, the connected processes are known all the same
	}
	for _, pid := range pids {
		if pid == os.Getpid() || w.leaves(uint32(pid)) || !w.mayBeOne(pid) {
			continue
		}
		if has, err := procfs.EnvironmentHas(pid, w.setting); err == nil && has {
			end, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				end = -1
			}
			w.known = append(w.known, orphan{pid: pid, end: end, usesCUDA: usesCUDA(pid)})
		}
	}
}

// mayBeOne reports whether the program's user has started a process since the program's start.
func (w *orphans) mayBeOne(pid int) bool {
	at, ok := procfs.Started(pid)
	if !ok || at < w.since {
		return false
	}
	owner, ok := procfs.Owner(pid)
	return ok && owner == w.owner
}

// await waits until a known orphan ends or the time is over, and forgets those that have ended.
func (w *orphans) await(timeout time.Duration) {
	ends := make([]unix.PollFd, len(w.known))
	for i, s := range w.known {
		ends[i] = unix.PollFd{Fd: int32(s.end), Events: unix.POLLIN} // a negative one is left out
	}
	_, _ = unix.Poll(ends, int(timeout.Milliseconds())) // after a signal there is another time
	left := w.known[:0]
	for i, s := range w.known {
		if ends[i].Revents != 0 || s.end < 0 && errors.Is(unix.Kill(s.pid, 0), unix.ESRCH) {
			s.forget()
			continue
		}
		left = append(left, s)
	}
	w.known = left
}

func (w *orphans) forget() {
	for _, s := range w.known {
		s.forget()
	}
	w.known = nil
}

func (s orphan) forget() {
	if s.end >= 0 {
		unix.Close(s.end)
	}
}

// useCUDA reports whether an orphan used CUDA at the last look.
func (w *orphans) useCUDA() bool {
	return slices.ContainsFunc(w.known, func(s orphan) bool { return s.usesCUDA })
}

// names lists a few orphans for a person: " (python3 (4711))".
func (w *orphans) names() string {
	if len(w.known) == 0 {
		w.look()
	}
	var pids []int
	for _, s := range w.known[:min(len(w.known), 5)] {
		pids = append(pids, s.pid)
	}
	if len(pids) == 0 {
		return ""
	}
	return " (" + processList(pids) + ")"
}

// usesCUDA reports whether a process has the driver library mapped.
func usesCUDA(pid int) bool { return mapsFile(pid, isDriver) }

// isDriver reports whether a path is that of the driver library.
func isDriver(path string) bool { return strings.Contains(path, "/libcuda.so") }

// processList names processes for a person: "python3 (4711), sh (4712)".
func processList(pids []int) string {
	var words []string
	for _, pid := range pids {
		words = append(words, fmt.Sprintf("%s (%d)", procfs.Name(pid), pid))
	}
	return strings.Join(words, ", ")
}
