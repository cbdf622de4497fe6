package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/stuck"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// recordedWait is how long logs are read that recordings are writing.
const recordedWait = 1500 * time.Millisecond

// readRecorded reads what recordings that run know of processes, and says why nothing is known.
func readRecorded(pids []int) (known map[int]*stuck.Recorded, notes []string) {
	known = map[int]*stuck.Recorded{}
	by := time.Now().Add(recordedWait)
	recorders, _ := findRecorders() // what a person asks for by PID may have no recorder
	for _, r := range recorders {
		r := &r
		mine := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return !r.mayRecord(pid) })
		if len(mine) == 0 {
			continue
		}
		for _, log := range r.logs() {
			all, err := convert.ReadProgress(log.open, by)
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s, which a recording is writing, was not read: %v", log.name, err))
			}
			for _, pid := range mine {
				if s := all[uint32(pid)]; s != nil {
					known[pid] = recordedOf(s, log.name)
				}
			}
			_ = log.file.Close() // it was read only
		}
	}
	return known, notes
}

// recordedPIDs lists the processes that recordings of this machine record, and says which recordings could not be
// looked at.
func recordedPIDs() (pids []int, notes []string) {
	by := time.Now().Add(recordedWait)
	recorders, notes := findRecorders()
	for _, r := range recorders {
		for _, log := range r.logs() {
			list, err := convert.ReadRunning(log.open, by)
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s, which a recording is writing, was not read: %v", log.name, err))
			}
			for _, pid := range list {
				if s, ok := procfs.StatOf(int(pid)); ok && !s.Ended && r.hasRights(int(pid)) {
					pids = append(pids, int(pid))
				}
			}
			_ = log.file.Close() // it was read only
		}
	}
	return pids, notes
}

// A recorder is a process of cudatrace that may record others.
type recorder struct {
	pid  int
	user uint32
}

// findRecorders finds the processes of cudatrace whose files this user may open, and names the recorders among the
// others. Names prove nothing: see hasRights. PIDs in the log of a recorder in another PID namespace are those of other
// processes here.
func findRecorders() (list []recorder, notes []string) {
	pids, err := procfs.PIDs()
	if err != nil {
		return nil, nil
	}
	own, _ := os.Readlink("/proc/self/ns/pid") // every Linux has it
	for _, pid := range pids {
		name, _ := procfs.ThreadName(uint32(pid), uint32(pid))
		user, running := procfs.User(pid)
		if pid == os.Getpid() || name != "cudatrace" || !running || procfs.Raised(pid) {
			continue
		}
		_, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		namespace, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		arguments := strings.Split(procfs.Describe(pid).Args, "\x00")
		switch isRecord := slices.Contains(arguments, "record") || slices.Contains(arguments, "top"); {
		case err == nil && namespace == own:
			list = append(list, recorder{pid, user})
		case err == nil && isRecord:
			notes = append(notes, fmt.Sprintf("what process %d (cudatrace) records was not looked at: it is in another PID "+
				"namespace (run stuck in its container)", pid))
		case errors.Is(err, fs.ErrPermission) && isRecord:
			notes = append(notes, "what a recorder records was not looked at: "+procfs.Forbidden(pid))
		}
	}
	return list, notes
}

// hasRights reports whether a recorder has the rights to record a process. A log says nothing of processes of other
// users than its recorder's: anybody may call a process cudatrace, and write what they like.
func (r *recorder) hasRights(pid int) bool {
	owner, running := procfs.Owner(pid)
	return running && (r.user == 0 || r.user == owner)
}

// A recordingLog is a log that a recorder has open.
type recordingLog struct {
	name string
	file *os.File
}

func (l *recordingLog) open() (*tracelog.Reader, error) {
	info, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	return tracelog.NewReader(l.file, info.Size(), l.name)
}

// logs opens the logs that a recorder is writing.
func (r *recorder) logs() (logs []*recordingLog) {
	dir := fmt.Sprintf("/proc/%d/fd", r.pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it has ended
	}
	seen := map[string]bool{}
	for _, e := range entries {
		path := dir + "/" + e.Name()
		to, err := os.Readlink(path)
		if err != nil || seen[to] || !strings.Contains(to, ".cudatrace.partial-") || strings.HasSuffix(to, " (deleted)") ||
			!isWritten(r.pid, e.Name()) {
			continue
		}
		if file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			seen[to] = true
			logs = append(logs, &recordingLog{to, file})
		}
	}
	return logs
}

// isWritten reports whether a process may write to a file that it has open: others read logs.
func isWritten(pid int, fd string) bool {
	text, err := procfs.Read(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd), procfs.MaxFacts)
	if err != nil {
		return false
	}
	_, flags, _ := strings.Cut(string(text), "flags:")
	word, _, _ := strings.Cut(strings.TrimSpace(flags), "\n")
	n, err := strconv.ParseUint(word, 8, 32)
	return err == nil && n&unix.O_ACCMODE != unix.O_RDONLY
}

// mayRecord reports whether a recorder may record a process: it has started the process, or one that has, or was given
// PIDs. One whose parent has ended may be recorded by any.
func (r *recorder) mayRecord(pid int) bool {
	if !r.hasRights(pid) {
		return false
	}
	arguments := strings.Split(procfs.Describe(r.pid).Args, "\x00")
	if slices.ContainsFunc(arguments, func(a string) bool {
		return strings.HasPrefix(a, "-p") || strings.HasPrefix(a, "--pid")
	}) {
		return true
	}
	for n := range ancestorsMost {
		if pid == r.pid {
			return true
		}
		s, ok := procfs.StatOf(pid)
		if !ok || pid == 1 {
			return false
		}
		if pid = s.Parent; pid == 1 && n == 0 {
			return true
		}
	}
	return false
}

// ancestorsMost bounds the parents of a process that are looked at.
const ancestorsMost = 64

func recordedOf(s *convert.Progress, log string) *stuck.Recorded {
	now := host.Monotonic()
	since := func(at uint64) float64 { return float64(now-min(at, now)) / 1e9 }
	r := &stuck.Recorded{Log: log, GPU: s.GPU, Unrun: s.Unrun, Calls: map[uint32]*stuck.Call{}}
	for _, x := range s.Streams {
		r.Streams = append(r.Streams, stuck.Stream{
			Name: x.Name, Work: x.Work, Ended: x.Ended, Since: since(x.Time), Queued: x.Queued,
		})
	}
	for _, c := range s.Collectives {
		r.Collectives = append(r.Collectives, stuck.Collective{
			Communicator: fmt.Sprintf("%#x", c.Communicator), Name: c.Name, Count: c.Count, Since: since(c.Time), TID: c.TID,
		})
	}
	for _, c := range s.Calls {
		r.Calls[c.TID] = &stuck.Call{Name: c.Name, Since: since(c.Time), Waits: c.Waits}
	}
	return r
}
