package main

import (
	"fmt"
	"os"
	"slices"
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
	for _, log := range recordingLogs(pids) {
		all, err := convert.ReadStanding(log.open, by)
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s, which a recording is writing, was not read: %v", log.name, err))
		}
		for _, pid := range pids {
			if s := all[uint32(pid)]; s != nil {
				known[pid] = recordedOf(s, log.name)
			}
		}
		_ = log.file.Close() // it was read only
	}
	return known, notes
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

// recordingLogs finds the logs that recorders of some processes are writing, among the descriptors of cudatrace's processes.
func recordingLogs(of []int) (logs []*recordingLog) {
	pids, err := procfs.PIDs()
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	for _, pid := range pids {
		if name, _ := procfs.ThreadName(uint32(pid), uint32(pid)); pid == os.Getpid() || name != "cudatrace" || !slices.ContainsFunc(of, func(p int) bool { return mayRecord(pid, p) }) {
			continue
		}
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it has ended, or is another user's
		}
		for _, e := range entries {
			path := dir + "/" + e.Name()
			to, err := os.Readlink(path)
			if err != nil || seen[to] || !strings.Contains(to, ".cudatrace") || strings.HasSuffix(to, " (deleted)") {
				continue
			}
			if file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
				seen[to] = true
				logs = append(logs, &recordingLog{to, file})
			}
		}
	}
	return logs
}

// mayRecord reports whether a recorder may record a process: it has started the process, or one that has, or was given PIDs. One whose
// parent has ended may be recorded by any.
func mayRecord(recorder, pid int) bool {
	arguments := strings.Split(procfs.Describe(recorder).Args, "\x00")
	if slices.ContainsFunc(arguments, func(a string) bool { return strings.HasPrefix(a, "-p") || strings.HasPrefix(a, "--pid") }) {
		return true
	}
	for n := range ancestorsMost {
		if pid == recorder {
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

func recordedOf(s *convert.Standing, log string) *stuck.Recorded {
	now := host.Monotonic()
	since := func(at uint64) float64 { return float64(now-min(at, now)) / 1e9 }
	r := &stuck.Recorded{Log: log, GPU: s.GPU, Calls: map[uint32]*stuck.Call{}}
	for _, x := range s.Streams {
		r.Streams = append(r.Streams, stuck.Stream{Name: x.Name, Work: x.Work, Ended: x.Ended, Since: since(x.Time), Queued: x.Queued})
	}
	for _, c := range s.Collectives {
		r.Collectives = append(r.Collectives, stuck.Collective{Communicator: fmt.Sprintf("%#x", c.Communicator), Name: c.Name, Count: c.Count, Since: since(c.Time), TID: c.TID})
	}
	for _, c := range s.Calls {
		r.Calls[c.TID] = &stuck.Call{Name: c.Name, Since: since(c.Time), Waits: c.Waits}
	}
	return r
}
