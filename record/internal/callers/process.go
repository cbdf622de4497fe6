package callers

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/record/procfs"
)

const (
	maxSnapshots = 8 // of a process
	maxMappings  = 1 << 16
	maxLooks     = 3 // attempts to read the mappings while the epoch stands still
)

// A mappedProcess is the code that a process had mapped, at some epochs.
type mappedProcess struct {
	snapshots []snapshot // ascending by epoch
	program   uint64     // first epoch of the program that began last
	used      uint64     // number of the last use
	nameless  map[*module]bool
}

// A snapshot is the code that a process had mapped at a moment of an epoch.
type snapshot struct {
	epoch uint64
	code  []mapping // by address
	first bool      // the snapshots before it are of another program
	cut   bool      // there was no memory for all of it
}

// A mapping is a part of a file that is mapped as code.
type mapping struct {
	procfs.Mapping
	module *module // nil: the file cannot be read
}

// A place is an address in a file, as the file's headers count.
type place struct {
	module  *module
	address uint64
	path    string // of the file, in the process's own mount namespace
}

// mappings are the parts of files that a process had mapped as code, at some moment of an epoch.
type mappings struct {
	pid   int
	epoch uint64
	code  []procfs.Mapping
}

// readMappings reads a process's mappings. ok is false when the process has ended, or the epoch that now
// reads does not stand still. The process may end afterwards: the resolver still reads the files.
func readMappings(pid int, now func(pid int) uint64) (m mappings, ok bool) {
	for range maxLooks {
		epoch := now(pid)
		if epoch == 0 {
			return mappings{}, false
		}
		code, err := procfs.Code(pid)
		if err != nil || len(code) == 0 { // one that has ended, and for which nobody has waited, has given up its memory
			return mappings{}, false
		}
		if now(pid) == epoch {
			return mappings{pid, epoch, code}, true
		}
	}
	return mappings{}, false
}

// keepSnapshot keeps the code that a process has mapped.
func (r *resolver) keepSnapshot(m mappings) {
	p := r.process(m.pid)
	s := p.open(m, &r.modules)
	for i := range s.code {
		if !r.keep(m.pid, &s.code[i]) {
			s.code, s.cut = slices.Clone(s.code[:i]), true
			r.crowd()
			break
		}
	}
	for _, old := range p.addSnapshot(s) {
		r.budget.drop(old)
	}
}

// open finds the modules of mappings.
func (p *mappedProcess) open(read mappings, modules *moduleCache) snapshot {
	earlier := p.at(read.epoch)
	opened := map[procfs.FileID]*module{}
	var mappings []mapping
	for _, m := range read.code[:min(len(read.code), maxMappings)] {
		known := mapping{Mapping: m}
		if old := earlier.around(m.From); old != nil && old.Mapping == m {
			known = *old // and its texts
		} else if again, ok := opened[m.File]; ok {
			known.module = again
		} else if m.File.Inode != 0 {
			known.module = modules.open(read.pid, m)
			opened[m.File] = known.module
		}
		mappings = append(mappings, known)
	}
	return snapshot{epoch: read.epoch, code: mappings}
}

// addSnapshot keeps a snapshot, in the place of an earlier one of the same epoch: within an epoch mappings
// are only added. It returns those that it does not keep any more.
func (p *mappedProcess) addSnapshot(s snapshot) (gone []snapshot) {
	i, found := slices.BinarySearchFunc(p.snapshots, s.epoch, byEpoch)
	if found {
		gone = []snapshot{p.snapshots[i]}
		s.first = p.snapshots[i].first
		p.snapshots[i] = s
		return gone
	}
	s.first = s.epoch >= p.program && (i == 0 || p.snapshots[i-1].epoch < p.program)
	p.snapshots = slices.Insert(p.snapshots, i, s)
	if len(p.snapshots) > maxSnapshots {
		gone = []snapshot{p.snapshots[0]}
		p.snapshots = slices.Delete(p.snapshots, 0, 1)
	}
	return gone
}

// replace notes in which epoch another program began.
func (p *mappedProcess) replace(epoch uint64) {
	p.program = epoch
	clear(p.nameless)
	if i, _ := slices.BinarySearchFunc(p.snapshots, epoch, byEpoch); i < len(p.snapshots) {
		p.snapshots[i].first = true
	}
}

func byEpoch(s snapshot, epoch uint64) int { return cmp.Compare(s.epoch, epoch) }

// at returns the snapshot of an epoch, nil if there is none.
func (p *mappedProcess) at(epoch uint64) *snapshot {
	if i, found := slices.BinarySearchFunc(p.snapshots, epoch, byEpoch); found {
		return &p.snapshots[i]
	}
	return nil
}

// upTo returns the last snapshot of the epochs up to the given one, nil if there is none.
func (p *mappedProcess) upTo(epoch uint64) *snapshot {
	after, _ := slices.BinarySearchFunc(p.snapshots, epoch+1, byEpoch)
	if after == 0 {
		return nil
	}
	return &p.snapshots[after-1]
}

// around finds the mapping that holds an address.
func (s *snapshot) around(address uint64) *mapping {
	if s == nil {
		return nil
	}
	return procfs.Around(s.code, address)
}

// place finds the place in a file that an address showed. mapped is true if the address was
// mapped, though perhaps to no file that can be read.
func (s *snapshot) place(address uint64) (at place, mapped, ok bool) {
	m := s.around(address)
	if m == nil || m.module == nil {
		return place{}, m != nil || s != nil && s.cut, false
	}
	image := m.module.image()
	if image == nil {
		return place{}, true, false
	}
	code, ok := image.Address(m.Offset + (address - m.From))
	return place{m.module, code, m.Path}, true, ok
}

// A view is a process's memory in an epoch.
type view struct {
	pid      int
	epoch    uint64
	process  *mappedProcess
	resolver *resolver
	looked   bool
}

// place finds the place in a file that an address showed. An address that no snapshot of the epoch
// has is looked up in a new one. If the epoch has moved on, the snapshots before and after must
// agree, and be of one program.
func (v *view) place(address uint64) (place, bool) {
	if at, mapped, ok := v.process.at(v.epoch).place(address); mapped {
		return at, ok
	}
	if !v.looked {
		v.looked = true
		if m, ok := readMappings(v.pid, v.resolver.Epoch); ok {
			v.resolver.keepSnapshot(m)
		}
	}
	if s := v.process.at(v.epoch); s != nil {
		at, _, ok := s.place(address)
		return at, ok
	}
	after, _ := slices.BinarySearchFunc(v.process.snapshots, v.epoch, byEpoch)
	if after == 0 || after == len(v.process.snapshots) || v.process.snapshots[after].first {
		return place{}, false
	}
	then, _, ok1 := v.process.snapshots[after-1].place(address)
	later, _, ok2 := v.process.snapshots[after].place(address)
	return then, ok1 && ok2 && then == later
}
