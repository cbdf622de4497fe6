package procfs

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
)

// ThreadNames reads the names of a process's threads, by TID. It gives none after the process's
// end.
func ThreadNames(pid uint32) iter.Seq2[uint32, string] {
	return func(yield func(uint32, string) bool) {
		for tid := range Threads(pid) {
			if name, ok := ThreadName(pid, tid); ok && !yield(tid, name) {
				return
			}
		}
	}
}

// Threads lists the threads of a process; none after its end.
func Threads(pid uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return
		}
		for _, t := range threads {
			tid, err := strconv.ParseUint(t.Name(), 10, 32)
			if err == nil && !yield(uint32(tid)) {
				return
			}
		}
	}
}

// A Schedule says how a thread and the scheduler got on, since the thread's start.
type Schedule struct {
	Ran, Waited uint64 // ns on a processor, and ready to run without one
}

// ThreadSchedule reads a thread's Schedule; ok is false if the thread has ended, or if the kernel does
// not count.
func ThreadSchedule(pid, tid uint32) (s Schedule, ok bool) {
	text, err := Read(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid), MaxFacts)
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return s, false
	}
	var err1, err2 error
	s.Ran, err1 = strconv.ParseUint(string(fields[0]), 10, 64)
	s.Waited, err2 = strconv.ParseUint(string(fields[1]), 10, 64)
	return s, err1 == nil && err2 == nil
}

// Stopped reports whether a thread is stopped, by a signal or a debugger.
func Stopped(pid, tid uint32) bool {
	fields := statFields(fmt.Sprintf("/proc/%d/task/%d", pid, tid))
	return len(fields) > 0 && (fields[0] == "T" || fields[0] == "t")
}

// ThreadName reads the name of a thread; ok is false if the thread has ended.
func ThreadName(pid, tid uint32) (name string, ok bool) {
	text, err := Read(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid), MaxFacts)
	return strings.TrimSuffix(string(text), "\n"), err == nil
}

// NamespaceTID is a thread's ID in its innermost PID namespace; 0 if that is tid itself, or if the
// thread has ended.
func NamespaceTID(pid, tid uint32) uint32 {
	status, err := Read(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid), MaxStatus)
	if err != nil {
		return 0
	}
	ids := statusFields(status, "NSpid:")
	if len(ids) == 0 {
		return 0
	}
	last, err := strconv.ParseUint(string(ids[len(ids)-1]), 10, 32)
	if err != nil || uint32(last) == tid {
		return 0
	}
	return uint32(last)
}

// statusFields splits a line of a status file: "NSpid:	1234	7".
func statusFields(status []byte, key string) [][]byte {
	_, rest, _ := bytes.Cut(status, []byte("\n"+key))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.Fields(line)
}

// Filters is the number of filters of system calls (seccomp) that a thread is under; 0 after its end. Kernels
// before 5.9 only tell whether there is any.
func Filters(pid, tid uint32) uint32 {
	status, err := Read(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid), MaxStatus)
	if err != nil {
		return 0
	}
	if statusFields(status, "Seccomp_filters:") == nil && statusNumber(status, "Seccomp:") > 0 {
		return 1
	}
	return uint32(statusNumber(status, "Seccomp_filters:"))
}

// A ThreadStat is what the kernel says of a thread at a moment.
type ThreadStat struct {
	Name string
	// R running, S and I sleeping, D sleeping without interruption, T stopped, t stopped by a tracer, Z and X ended
	State    byte
	Channel  string // function of the kernel in which it sleeps, "" if unknown
	Switches uint64 // how often it has given up a processor, or lost it
}

var stateNames = map[byte]string{
	'R': "running", 'S': "sleeping", 'I': "sleeping", 'D': "uninterruptible", 'T': "stopped", 't': "traced",
}

// StateName is the state in a word.
func (s *ThreadStat) StateName() string {
	return cmp.Or(stateNames[s.State], "state "+string(rune(s.State)))
}

// StatOfThread reads the ThreadStat of a thread; ok is false if the thread has ended.
func StatOfThread(pid, tid uint32) (s ThreadStat, ok bool) {
	dir := fmt.Sprintf("/proc/%d/task/%d", pid, tid)
	stat, err := Read(dir+"/stat", MaxFacts)
	from, to := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || from < 0 || to < from || len(stat) < to+3 {
		return s, false
	}
	s.Name, s.State = string(stat[from+1:to]), stat[to+2]
	channel, _ := Read(dir+"/wchan", MaxFacts) // "0" without the rights to read it
	if s.Channel = string(channel); s.Channel == "0" {
		s.Channel = ""
	}
	status, _ := Read(dir+"/status", MaxStatus) // without it nothing has been counted
	s.Switches = statusNumber(status, "voluntary_ctxt_switches:") + statusNumber(status, "nonvoluntary_ctxt_switches:")
	return s, true
}

// Tracer is the process that traces a thread, such as a debugger; 0 without one.
func Tracer(pid, tid uint32) uint32 {
	status, err := Read(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid), MaxStatus)
	if err != nil {
		return 0
	}
	return uint32(statusNumber(status, "TracerPid:"))
}
