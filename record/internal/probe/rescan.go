package probe

import "github.com/cudatrace/cudatrace/record/procfs"

// rescanEvery is the number of looks after which the mappings are read even if the size of the
// code is unchanged: a library can take the place of another of the same size.
const rescanEvery = 32

// A codeSize tells whether a process has mapped other code. Asking for the size is far cheaper
// than reading the mappings.
type codeSize struct {
	kibibytes uint64 // size of the executable mappings
	looks     int    // number of looks since the mappings were read
}

// Rescan probes the libraries that an attached process has mapped since the last look, and says
// whether there were any. It is cheap enough to be called several times a second: it reads the
// mappings only if the size of the code has changed. An error is reported once per file; Attach
// tries such a file again.
func (p *Prober) Rescan(pid int) (changed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	proc := p.byPID[pid]
	if proc == nil || proc.execs.closing != nil || p.options.probesNothing() {
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
	libraries, others := len(proc.files), len(proc.others)
	err = p.probe(pid, proc, files)
	return len(proc.files) > libraries || len(proc.others) > others, err
}

// changed reports whether the process's mappings have to be read.
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
