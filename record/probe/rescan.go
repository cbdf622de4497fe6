package probe

import "github.com/cudatrace/cudatrace/record/procfs"

// rescanEvery is the number of looks after which the mappings are read even if the code has the
// same size: a library can take the place of another that is as large.
const rescanEvery = 32

// A codeSize tells that a process has mapped other code. To ask for the size costs a fraction of
// reading the mappings.
type codeSize struct {
	kibibytes uint64 // of executable mappings
	looks     int    // since the mappings were read
}

// Rescan probes what a process that was attached has mapped since, and says whether that was
// anything. It is cheap enough to be called several times a second: the mappings are read
// only if their code has another size than at the last look. An error is reported once for
// each file; Attach tries such a file again.
func (p *Prober) Rescan(pid int) (changed bool, err error) { return p.processes.rescan(pid) }

func (ps *processes) rescan(pid int) (changed bool, err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	proc := ps.byPID[pid]
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
	files := proc.newFiles(mappings)
	if len(files) == 0 {
		return false, nil
	}
	libraries, clients := len(proc.files), len(proc.clients)
	err = ps.probe(pid, proc, files)
	return len(proc.files) > libraries || len(proc.clients) > clients, err
}

// changed says whether the process's mappings are to be read.
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
