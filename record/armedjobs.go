package record

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// An ArmedProcess is a process that 'cudatrace run --armed' started, and that has started CUDA.
type ArmedProcess struct {
	PID   int
	Start procfs.StartTime // tells it from an earlier process with its PID
	// Job is what the processes of one distributed program have in common, "" for a program by itself; Family is the same
	// for all that one 'cudatrace run --armed' started.
	Job, Family string
	Recorded    bool // a recorder records it, or has just ended
}

// ArmedProcesses lists the armed processes that we see, by PID.
func ArmedProcesses() (list []ArmedProcess, err error) {
	pids, err := procfs.PIDs()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		environ, err := procfs.Environment(pid)
		if err != nil || cupti.LibrarySetting(environ) == "" {
			continue // most: this is the cheaper look
		}
		found := cupti.LookForArmed(pid)
		start, ok := procfs.Started(pid)
		if ok && (found.State == cupti.ArmedWaiting || found.State == cupti.ArmedRecorded) {
			list = append(list, ArmedProcess{PID: pid, Start: start, Job: ranks.Program(ranks.Variables(environ)),
				Family: found.Family(), Recorded: found.State == cupti.ArmedRecorded})
		}
	}
	slices.SortFunc(list, func(a, b ArmedProcess) int { return cmp.Compare(a.PID, b.PID) })
	return list, nil
}

// Steps are what the Python module cudatrace counts in an armed process, recorded or not:
// packaging/python/cudatrace/_marks.py. steps.go has the steps themselves.
type Steps struct {
	Last  uint64 // beginning of the latest step, ns of CLOCK_MONOTONIC
	Count uint64 // of steps that have begun
}

// stepsFile is the name of the memory that they are in, as /proc/PID/maps has it.
const stepsFile = "/memfd:cudatrace-steps"

// StepsOf reads the steps of a process; ok is false if it counts none. The process writes what it likes there.
func StepsOf(pid int) (s Steps, ok bool) {
	m, ok := procfs.FindMapping(pid, stepsFile, 0)
	if !ok {
		return s, false
	}
	memory := procfs.Memory{PID: pid}
	var before [16]byte
	for range 3 { // the process may have begun a step between the two numbers
		var b [16]byte
		if memory.Read(m.From, b[:]) != nil {
			return s, false
		}
		if s = (Steps{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}); b == before {
			break
		}
		before = b
	}
	return s, s.Count > 0
}
