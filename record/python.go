package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A PythonSource says whether calls have the Python frames above them.
type PythonSource string

// The values of a PythonSource.
const (
	PythonAuto PythonSource = "auto" // where the interpreter is one whose frames can be read
	PythonOff  PythonSource = "off"
)

// A python is what is known of a process's Python interpreter. Whoever looks at the process owns it.
type python struct {
	found   *pyframes.Interpreter
	refused bool // no more of its frames are read
	code    codeWatch
}

// A codeWatch notices that a process has mapped other code than before: a library that it has opened.
type codeWatch struct {
	size   uint64    // KiB of code that the process had mapped at the last look
	looked time.Time // when that was
}

// codeLook is the usual time between two looks at a process.
const codeLook = 2 * time.Second

// changed looks at a process, unless the last look is too recent, and reports whether its code is another one since.
func (w *codeWatch) changed(pid uint32, every time.Duration) bool {
	if time.Since(w.looked) < every {
		return false
	}
	w.looked = time.Now()
	size, err := procfs.CodeSize(int(pid))
	if err != nil || size == w.size { // it has just ended
		return false
	}
	w.size = size
	return true
}

// pythonLines begins what a person hears about missing frames, also from the injected library.
const pythonLines = "Python lines "

// readsPython reports whether frames are read in processes with an interpreter that is known.
func (s *session) readsPython() bool {
	return s.opts.Python == PythonAuto && s.opts.withoutPython() == ""
}

// withoutPython returns why no process of a recording can have frames; "" if some can.
func (o *Options) withoutPython() string {
	switch {
	case o.GPU == GPUNone:
		return "they come with CUPTI's records"
	case len(o.PIDs) > 0 && !o.Detach: // each recording would leave a key of thread-specific data, of 1,024, in the process
		return "of programs that run already only armed ones have them, with --detach"
	}
	return ""
}

// saysPython reports whether what takes frames away has to be said of them, too.
func (s *session) saysPython() bool { return s.opts.PythonAsked && s.readsPython() }

// remarkPython says why no process can have frames, to a person who has asked for them.
func (s *session) remarkPython() {
	if why := s.opts.withoutPython(); why != "" && s.opts.PythonAsked && s.opts.Python == PythonAuto {
		s.report.remark(0, pythonLines+"of calls are not recorded: "+why)
	}
}

// findPython finds the interpreter of a process that waits for the answer to its hello. It returns nil where no frames
// are read.
func (s *session) findPython(pid uint32) *python {
	if !s.readsPython() {
		return nil
	}
	p := &python{}
	p.code.changed(pid, 0)
	var err error
	p.found, err = pyframes.Find(int(pid))
	if why := pyframes.Unusable(""); errors.As(err, &why) {
		s.refusePython(pid, p, string(why))
	}
	return p
}

// refusePython says why the frames of a process are not read: once for all processes with the same reason, unless
// somebody has asked for frames.
func (s *session) refusePython(pid uint32, p *python, why string) {
	p.refused = true
	text := fmt.Sprintf(pythonLines+"of process %d are not recorded: %s", pid, why)
	if s.opts.PythonAsked {
		s.report.remark(pid, text)
		return
	}
	s.report.note(pid, tracelog.NoteInfo, text)
	s.report.sayOnce(why, text)
}

// configure adds to the answer to a process's hello what it needs to read frames.
func (p *python) configure(c *cupti.GoConfig) {
	if p != nil && !p.refused && !c.NoCUPTI {
		c.Python, c.Interpreter = true, p.found
	}
}

// findPythonAgain looks at a process that may have opened a libpython since the last look.
func (s *session) findPythonAgain(pid uint32, p *python) {
	if p == nil || p.refused || !p.code.changed(pid, codeLook) {
		return
	}
	i, err := pyframes.Find(int(pid))
	why := pyframes.Unusable("")
	switch {
	case errors.As(err, &why):
		s.refusePython(pid, p, string(why))
		s.server.SetPython(pid, nil)
	case i != nil && p.found == nil:
		p.found = i
		s.server.SetPython(pid, i)
	}
}
