package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/procfs"
)

const checkProcess = "process"

// lookAtPID reads the files that a process has mapped.
func lookAtPID(pid int) (*target, error) {
	files, err := procfs.Files(pid)
	if err != nil {
		return nil, err
	}
	return &target{process: pid, path: procfs.Describe(pid).Executable, mapped: files}, nil
}

// lookAtProcess looks at a process that runs already.
func (x *examination) lookAtProcess(t *target) {
	name := fmt.Sprintf("%s (PID %d)", procfs.Name(t.process), t.process)
	x.addCheck(processCheck(name, procfs.CommandLine(t.process), cupti.LookForArmed(t.process).State))
	if path := withPrefix(t.mapped, "libcuda.so"); path != "" {
		x.addCheck(Check{Name: checkCUDA, Status: OK, Found: path})
	} else {
		x.addCheck(Check{Name: checkCUDA, Status: Note, Found: name + " has not loaded libcuda: it does not use CUDA yet"})
	}
	x.lookAtRuntime(t)
	if path := withPrefix(t.mapped, "libcupti.so"); path != "" {
		x.addCheck(Check{
			Name: checkCUPTI, Status: Note, Found: path + " is loaded: a profiler, or PyTorch, may record the process",
		})
	}
	if slices.ContainsFunc(t.mapped, isInjected) && cupti.LookForArmed(t.process).State == cupti.NotArmed {
		x.addCheck(Check{
			Name: checkInjection, Status: Note,
			Found: "cudatrace has been loaded into the process: it is being recorded, or was",
		})
	}
}

// processCheck says what a recording gets of a process, which may wait for a recorder. line is its command line.
func processCheck(name, line string, s cupti.ArmedState) Check {
	c := Check{Name: checkProcess, Status: Less, Found: name +
		" runs already: its calls can be recorded, its GPU work cannot",
		Remedy: "to have it wait for a recorder, start it so: cudatrace run --armed " + line}
	switch s {
	case cupti.ArmedWaiting, cupti.ArmedFresh:
		return Check{
			Name: checkProcess, Status: OK, Found: name + " is armed: it waits for a recorder, and hands over its GPU work, too",
		}
	case cupti.ArmedRecorded:
		c.Found = name + " is armed and being recorded: its calls can be recorded a second time meanwhile, its GPU " +
			"work cannot"
	}
	return c
}

// isInjected reports whether a file is the library that a recording injects.
func isInjected(path string) bool {
	return strings.HasPrefix(filepath.Base(path), "libcudatrace.so")
}
