package record

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/internal/torchmem"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A torchMemory records what the allocators of PyTorch do in the processes of a session.
type torchMemory struct {
	recorder *torchmem.Recorder // nil: nothing is recorded
	python   bool               // with the Python lines that ask for memory
	report   *report
	found    atomic.Bool // a process has PyTorch
}

// A memoryLook is what is known of the allocator of a process. Whoever looks at the process owns it.
type memoryLook struct {
	done  bool // it is probed, or cannot be
	lines bool // its Python interpreter is known, or there will be none
	code  codeWatch
}

const memoryMissing = "memory inside PyTorch's cache is not recorded: "

// startMemory makes ready to record what PyTorch's allocators do, if somebody wants that.
func (s *session) startMemory() {
	m := &s.memory
	if !s.opts.PyTorchMemory {
		return
	}
	m.report, m.python = s.report, s.opts.Python == PythonAuto
	o := torchmem.Options{Log: s.log.Writer, Note: func(text string) { s.report.note(0, tracelog.NoteInfo, text) }}
	if m.python {
		o.Stack = func(parent uint32, f tracelog.PythonFrame) (uint32, bool) {
			return s.pythons.Stack(s.records(), parent, f)
		}
	}
	var err error
	if m.recorder, err = torchmem.Start(o); err != nil {
		s.report.miss(0, memoryMissing+err.Error())
		return
	}
	m.pause(s.opts.Delay > 0)
}

// look probes the allocator of a process that may have opened PyTorch since the last look. p is what is known of its
// Python interpreter, nil for nothing.
func (m *torchMemory) look(pid uint32, l *memoryLook, p *python) {
	if m.recorder == nil || l.done && (l.lines || !m.python) {
		return
	}
	every := time.Duration(0)
	if l.done {
		every = codeLook
	}
	if !l.code.changed(pid, every) {
		return
	}
	var in *pyframes.Interpreter
	if p != nil {
		in = p.found
	}
	if m.python && in == nil {
		in, _ = pyframes.Find(int(pid)) // without one there are no lines, which Options.PythonAsked has said
	}
	l.lines = in != nil
	var err error
	if l.done {
		err = m.recorder.SetPython(pid, in)
	} else {
		l.done, err = m.recorder.Add(pid, in)
		m.found.Store(m.found.Load() || l.done)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has not just ended
		m.report.miss(pid, memoryMissing+"libc10: "+err.Error())
	}
}

func (m *torchMemory) pause(paused bool) {
	if m.recorder != nil {
		m.recorder.Pause(paused)
	}
}

// end writes the last records. A second call does nothing.
func (m *torchMemory) end() {
	if m.recorder != nil {
		m.recorder.End()
	}
}

// endMemory ends the recording of PyTorch's memory, and says if there was no PyTorch.
func (s *session) endMemory() {
	s.memory.end()
	if s.memory.recorder != nil && !s.memory.found.Load() {
		s.report.remark(0, memoryMissing+"no process that uses CUDA has loaded PyTorch's libc10.so")
	}
}
