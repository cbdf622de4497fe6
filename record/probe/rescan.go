package probe

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// rescanEvery is the number of looks after which the mappings are read whatever their
// size says, as a library can take the place of another of the same size.
const rescanEvery = 32

// A codeSize tells that a process has mapped other code, for a fraction of what it
// costs to read its mappings.
type codeSize struct {
	kilobytes uint64 // of executable mappings
	looks     int    // since the mappings were read
}

// Rescan probes what a process that was attached has mapped since, and says whether
// that was anything. It is cheap enough to be called several times a second: the
// mappings are read only when their code has another size than at the last look. An
// error is reported once for each file; Attach tries such a file again.
func (p *Prober) Rescan(pid int) (changed bool, err error) {
	p.attached.Lock()
	defer p.attached.Unlock()
	proc := p.processes[pid]
	if proc == nil {
		return false, nil
	}
	grown, err := proc.code.changed(pid)
	if err != nil || !grown {
		return false, err
	}
	mappings, err := readMappings(pid)
	if err != nil {
		return false, err
	}
	fresh := proc.unseen(mappings)
	if len(fresh) == 0 {
		return false, nil
	}
	files, watches := len(proc.files), len(proc.watches)
	err = p.attachAll(pid, proc, fresh)
	return len(proc.files) > files || len(proc.watches) > watches, err
}

// changed looks at the size of the process's code.
func (c *codeSize) changed(pid int) (bool, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false, processError(pid, err)
	}
	kilobytes := statusNumber(status, "VmExe:") + statusNumber(status, "VmLib:")
	c.looks++
	if kilobytes == c.kilobytes && c.looks < rescanEvery {
		return false, nil
	}
	*c = codeSize{kilobytes: kilobytes}
	return true, nil
}

// statusNumber finds a line of /proc/PID/status, "VmLib:      1234 kB"; 0 for a process
// that has given up its memory.
func statusNumber(status []byte, key string) uint64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+key))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// unseen returns the files that were not mapped at the last look, and takes note of
// all that are.
func (proc *process) unseen(mappings []mapping) []mapping {
	var fresh []mapping
	seen := make(map[fileID]bool, len(mappings))
	for _, m := range mappings {
		examined, known := proc.seen[m.file]
		if !known {
			fresh = append(fresh, m)
		}
		seen[m.file] = examined
	}
	proc.seen = seen
	return fresh
}

// forgetFailures has the files that could not be examined tried again.
func (proc *process) forgetFailures() {
	for id, examined := range proc.seen {
		if !examined {
			delete(proc.seen, id)
		}
	}
}
