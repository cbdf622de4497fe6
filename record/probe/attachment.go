package probe

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// An Attachment says what is probed in a process.
type Attachment struct {
	PID       int
	Libraries []Library // in the order of the process's mappings; empty if it has no CUDA library yet
}

// A Library is a file of a process that holds the runtime's or the driver's functions.
type Library struct {
	Path      string // in the process's own mount namespace
	Side      cudaapi.Library
	Functions []*cudaapi.Function // functions that are probed, in the order of cudaapi's table
	Refused   []string            // functions that the kernel cannot probe, with its reason
	New       bool                // this call added probes
}

// attachment lists the probed libraries of the process.
func (proc *process) attachment(pid int) Attachment {
	a := Attachment{PID: pid}
	for _, id := range proc.order {
		l := proc.files[id].library
		l.Functions = slices.Clone(l.Functions)
		a.Libraries = append(a.Libraries, l)
	}
	return a
}
