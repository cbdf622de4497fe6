// Package callers finds out where calls of CUDA's functions were made. The return addresses above
// a call go in; out comes a caller record: the runtime's function that the program called, and the
// file, address and symbol of the code that called it.
//
// A chain of return addresses proves nothing by itself: a function that uses the frame pointer for
// something else breaks it. So each link is held against the files of the process:
//
//	driver function           the recorded one
//	  r0  in libcudart        behind a call instruction; the unwind tables say: the frame pointer leads to r1
//	  r1  in cudaLaunchKernel behind a call of the function around r0; the symbol around r1 is the name
//	  r2  in the program      behind a call instruction: the caller
//
// What cannot be proved is not said: a record may name the function without its caller, and a
// chain may have no record at all.
package callers

import (
	"sync"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A resolver finds out where calls were made. It is safe for concurrent use.
type resolver struct {
	Options

	mu        sync.Mutex
	modules   moduleCache
	processes map[int]*mappedProcess
	uses      uint64 // of processes
	budget    budget
	told      bool // Crowded was called
}

func newResolver(o Options) *resolver {
	return &resolver{Options: o, processes: map[int]*mappedProcess{}, budget: budget{most: DefaultBudget}}
}

// addMappings keeps what code a process has mapped. find reads the mappings by itself when it meets an unknown
// address; those of the start serve calls of a process that ends before they are resolved.
func (r *resolver) addMappings(m mappings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keepSnapshot(m)
}

// replace records that the PID runs another program from an epoch on.
func (r *resolver) replace(pid int, epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process(pid).replace(epoch)
}

func (r *resolver) crowd() {
	if r.Crowded != nil && !r.told {
		r.told = true
		r.Crowded()
	}
}

// close closes the files that are open.
func (r *resolver) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.modules.close()
}

func (r *resolver) process(pid int) *mappedProcess {
	p := r.processes[pid]
	if p == nil {
		p = &mappedProcess{nameless: map[*module]bool{}}
		r.processes[pid] = p
	}
	r.uses++
	p.used = r.uses
	return p
}

// makeRoom drops what is known of the process that was used least recently. It returns false if there is none but
// the given one. A process that lives is read again when there is need.
func (r *resolver) makeRoom(pid int) bool {
	oldest := 0
	var p *mappedProcess
	for other, q := range r.processes {
		if other != pid && (p == nil || q.used < p.used) {
			oldest, p = other, q
		}
	}
	if p == nil {
		return false
	}
	for _, s := range p.snapshots {
		r.budget.drop(s)
	}
	delete(r.processes, oldest)
	return true
}

// keep takes memory for a mapping of a process, and returns false if there is none.
func (r *resolver) keep(pid int, m *mapping) bool {
	for !r.budget.keep(m) {
		if !r.makeRoom(pid) {
			return false
		}
	}
	return true
}

// find returns the record of where a call was made, without an ID; the zero record if nothing is
// certain. The return addresses of the chain come innermost first, as they were in the given epoch. depth
// is the number of addresses that were looked at. It is one more than the chain has where the next
// one was missing.
func (r *resolver) find(pid int, epoch uint64, function string, chain []uint64) (c tracelog.Caller, depth int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.process(pid)
	w := walk{chain: chain, view: view{pid: pid, epoch: epoch, process: p, resolver: r}}
	w.run(function)
	if w.hidden != nil && !p.nameless[w.hidden] && r.Nameless != nil {
		p.nameless[w.hidden] = true
		r.Nameless(pid, w.hidden.path)
	}
	if w.function == "" && w.caller.module == nil {
		return tracelog.Caller{}, w.depth
	}
	return w.record(), w.depth
}

// driverFunction is Log.DriverFunction.
func (r *resolver) driverFunction(pid int, epoch, address uint64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.processes[pid]
	if p == nil {
		return ""
	}
	at, _, ok := p.upTo(epoch).place(address)
	if !ok || at.module.kind != driverLibrary {
		return ""
	}
	for _, s := range at.module.symbols().At(at.address - 1) {
		if f := cudaapi.ByName(s.Name); s.Exported && f != nil && f.Library == cudaapi.Driver {
			return s.Name
		}
	}
	return ""
}
