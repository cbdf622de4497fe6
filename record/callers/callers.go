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

// A Resolver finds out where calls were made. It is safe for concurrent use.
type Resolver struct {
	// Nameless, if not nil, is told once per process and file that a file holds a runtime, or may
	// hold one, whose functions nothing names: calls out of it have no caller record. It must not
	// call the Resolver.
	Nameless func(pid int, path string)
	// Crowded, if not nil, is told once that there is no memory for all code that a process has mapped:
	// calls out of the rest have no caller record. It must not call the Resolver.
	Crowded func()

	mu        sync.Mutex
	now       func(pid int) uint64
	modules   moduleCache
	processes map[int]*process
	uses      uint64 // of processes
	budget    budget
	crowded   sync.Once
}

// New returns a Resolver. now reads a process's epoch, a number that rises whenever the process may have lost a
// mapping: within an epoch mappings are only added. It is 0 for a process that is not recorded.
func New(now func(pid int) uint64) *Resolver {
	return &Resolver{now: now, processes: map[int]*process{}, budget: budget{most: DefaultBudget}}
}

// Add tells what code a process has mapped. Find reads the mappings by itself when it meets an unknown
// address; those of the start serve calls of a process that ends before they are resolved.
func (r *Resolver) Add(m Mappings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(m)
}

// Replace tells that from an epoch on another program runs under the PID.
func (r *Resolver) Replace(pid int, epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process(pid).replace(epoch)
}

func (r *Resolver) crowd() {
	if r.Crowded != nil {
		r.crowded.Do(r.Crowded)
	}
}

// Close closes the files that are open.
func (r *Resolver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.modules.close()
}

func (r *Resolver) process(pid int) *process {
	p := r.processes[pid]
	if p == nil {
		p = &process{nameless: map[*module]bool{}}
		r.processes[pid] = p
	}
	r.uses++
	p.used = r.uses
	return p
}

// makeRoom drops what is known of the process that was used least recently. It returns false if there is none but
// the given one. A process that lives is read again when there is need.
func (r *Resolver) makeRoom(pid int) bool {
	oldest := 0
	var p *process
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
func (r *Resolver) keep(pid int, m *mapping) bool {
	for !r.budget.keep(m) {
		if !r.makeRoom(pid) {
			return false
		}
	}
	return true
}

// Find returns the record that says where a call was made, without an ID; the zero record if nothing is
// certain. The return addresses of the chain come innermost first, as they were in the given epoch. depth
// is the number of addresses that were looked at. It is one more than the chain has where the next
// one was missing.
func (r *Resolver) Find(pid int, epoch uint64, function string, chain []uint64) (c tracelog.Caller, depth int) {
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

// DriverFunction returns the name of libcuda's exported function around a return address, as it was in the given
// epoch; "" if it is not certain. The process may have ended, if it has been looked at: libcuda stays where it is.
func (r *Resolver) DriverFunction(pid int, epoch, address uint64) string {
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
