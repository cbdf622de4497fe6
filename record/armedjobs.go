package record

import (
	"cmp"
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
