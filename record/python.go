package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/pyframes"
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
	found    *pyframes.Interpreter
	refused  bool      // no more of its frames are read
	codeSize uint64    // KiB of code that the process had mapped at the last look
	looked   time.Time // when that was
}

// pythonLook is the least time between two looks at a process.
const pythonLook = 2 * time.Second

// readsPython reports whether frames are read in processes with an interpreter that is known.
func (s *session) readsPython() bool {
	return s.opts.Python == PythonAuto && s.opts.GPU != GPUNone && pyframes.Machine()
}

// findPython finds the interpreter of a process that waits for the answer to its hello. It returns nil where no frames are read.
func (s *session) findPython(f *follower) *python {
	if !s.readsPython() {
		return nil
	}
	p := &python{looked: time.Now()}
	p.codeSize, _ = procfs.CodeSize(int(f.peer.PID)) // 0 of a process that has just ended
	var err error
	p.found, err = pyframes.Find(int(f.peer.PID))
	why := pyframes.Unusable("")
	switch {
	case errors.As(err, &why):
	case err != nil || p.found == nil:
		return p
	case f.armed:
		why = "it had started CUDA before it was attached to"
	case s.opts.Runtime:
		why = "where the runtime's calls are recorded, CUPTI does not ask for the time of the driver's"
	default:
		return p
	}
	s.refusePython(f.peer.PID, p, string(why))
	return p
}

// refusePython says why the frames of a process are not read.
func (s *session) refusePython(pid uint32, p *python, why string) {
	p.refused = true
	s.report.remark(pid, fmt.Sprintf("Python lines of process %d are not recorded: %s", pid, why))
}

// configure adds to the answer to a process's hello what it needs to read frames.
func (p *python) configure(c *cupti.GoConfig) {
	if p != nil && !p.refused && !c.Late && !c.NoCUPTI {
		c.Python, c.Interpreter = true, p.found
	}
}

// findPythonAgain looks at a process that may have opened a libpython since the last look.
func (s *session) findPythonAgain(pid uint32, p *python) {
	if p == nil || p.refused || time.Since(p.looked) < pythonLook {
		return
	}
	p.looked = time.Now()
	size, err := procfs.CodeSize(int(pid))
	if err != nil || size == p.codeSize {
		return
	}
	p.codeSize = size
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
