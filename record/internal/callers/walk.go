package callers

import (
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A walk goes up a chain of return addresses until it meets the code that called CUDA.
type walk struct {
	view
	chain []uint64

	function string // the runtime's function that was called, "" if the recorded one was
	caller   place  // without a module if not known
	depth    int
	hidden   *module // the file whose runtime has no names
}

// A step is a return address on the way.
type step struct {
	place
	*frame
}

// at examines the return address number i. mapped is false if there is none, or no file is mapped there.
func (w *walk) at(i int) (s step, mapped bool) {
	w.depth = max(w.depth, i+1)
	if i >= len(w.chain) {
		return step{}, false
	}
	p, ok := w.place(w.chain[i])
	if !ok {
		return step{}, false
	}
	return step{p, p.module.frame(p.address)}, true
}

// run finds function and caller.
func (w *walk) run(function string) {
	i, s := w.skipDriver()
	if s.frame == nil {
		return
	}
	s.module.judge(s.address)
	switch {
	case s.role == program, s.role == unknown && cudaapi.IsRuntimeName(function):
		w.caller = s.place
	case s.role == unknown && s.module.kind == runtimeHidden:
		w.hidden = s.module
	case s.role == unknown && s.found && !s.Linked: // the runtime's functions keep frame pointers
		w.caller = s.place
	default:
		w.climb(i, s)
	}
}

// skipDriver returns the first step outside of the driver and CUPTI, and its number.
func (w *walk) skipDriver() (int, step) {
	for i := range w.chain {
		s, mapped := w.at(i)
		if !mapped || !s.called {
			break
		}
		if s.module.kind != driverLibrary {
			return i, s
		}
		if s.found && !s.Linked {
			break
		}
	}
	return 0, step{}
}

// climb goes up from step i, in the runtime, to the exported function.
func (w *walk) climb(i int, s step) {
	for s.role == internal || s.role == unknown {
		next, ok := w.next(i, s)
		if !ok {
			return
		}
		i, s = i+1, next
	}
	if s.role == exported {
		w.leave(i, s)
	}
}

// next returns the step above step i if it is proved to be its caller, in the same file.
func (w *walk) next(i int, s step) (step, bool) {
	if !s.Linked {
		return step{}, false
	}
	next, mapped := w.at(i + 1)
	if !mapped || !next.called || next.module != s.module {
		return step{}, false
	}
	next.module.judge(next.address)
	return next, next.calls(s)
}

// calls reports whether the code of a step calls the function of another one in the same file.
func (s step) calls(lower step) bool {
	return s.direct && (lower.begins(s.target) || s.module.jumps(s.target, lower.From))
}

// leave names the exported function of step i, and finds its caller.
func (w *walk) leave(i int, s step) {
	w.function = s.name
	if !s.Linked {
		return
	}
	next, mapped := w.at(i + 1)
	switch {
	case !mapped: // generated code, or the trampoline of a probe
	case !next.called:
		w.function = ""
	case next.module.kind == driverLibrary:
	case next.module != s.module:
		w.caller = next.place
	default:
		w.stay(i+1, next, s)
	}
}

// stay finds out whether step i, which called the exported function of the step below, in the same file,
// is the program's or itself the runtime's.
func (w *walk) stay(i int, s, below step) {
	s.module.judge(s.address)
	switch s.role {
	case program:
		w.caller = s.place
		return
	case internal, exported, doubtful:
		w.function = ""
		if s.calls(below) {
			w.climb(i, s)
		}
		return
	}
	w.caller = s.place
	for ok := s.calls(below); ok; i++ {
		if s, ok = w.next(i, s); !ok {
			return
		}
		if s.role == exported {
			w.caller = place{}
			w.leave(i+1, s)
			return
		}
	}
}

// record says what was found.
func (w *walk) record() tracelog.Caller {
	c := tracelog.Caller{Function: w.function}
	if w.caller.module == nil {
		return c
	}
	m := w.caller.module
	c.Module, c.BuildID, c.Address = w.caller.path, m.buildID, w.caller.address
	if f := m.frame(w.caller.address); len(f.symbols) > 0 {
		c.Symbol, c.SymbolOffset = f.symbols[0].Name, uint32(c.Address-f.symbols[0].From)
	}
	return c
}
