package probe

import "github.com/cudatrace/cudatrace/record/procfs"

// rescanEvery is the number of looks after which the mappings are read whatever their
// size says, as a library can take the place of another of the same size.
const rescanEvery = 32

// A codeSize tells that a process has mapped other code, for a fraction of what it
// costs to read its mappings.
type codeSize struct {
	kibibytes uint64 // of executable mappings
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
	mappings, err := procfs.CodeFiles(pid)
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
	size, err := procfs.CodeSize(pid)
	if err != nil {
		return false, err
	}
	c.looks++
	if size == c.kibibytes && c.looks < rescanEvery {
		return false, nil
	}
	*c = codeSize{kibibytes: size}
	return true, nil
}

// unseen returns the files that were not mapped at the last look, and takes note of
// all that are.
func (proc *process) unseen(mappings []procfs.Mapping) []procfs.Mapping {
	var fresh []procfs.Mapping
	seen := make(map[procfs.FileID]bool, len(mappings))
	for _, m := range mappings {
		examined, known := proc.seen[m.File]
		if !known {
			fresh = append(fresh, m)
		}
		seen[m.File] = examined
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
