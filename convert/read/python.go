package read

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxPythonIDs bounds the IDs of Python frames and stacks. Calls with a larger ID have no frames.
const maxPythonIDs = 1 << 21

// Pythons are the Python stacks of a log, by ID.
type Pythons struct {
	frames map[uint32]*timeline.PythonFrame
	stacks map[uint32]*timeline.Python
	texts  int // bytes of their texts
}

func newPythons() Pythons {
	return Pythons{frames: make(map[uint32]*timeline.PythonFrame), stacks: make(map[uint32]*timeline.Python)}
}

func (l *Pythons) takeFrame(b *tracelog.Block, i int) {
	var r tracelog.PythonFrame
	r.Read(b, i)
	if r.ID == 0 || r.ID >= maxPythonIDs {
		return
	}
	*l.frame(r.ID) = timeline.PythonFrame{File: r.File, Function: r.Function, First: r.FirstLine, Line: r.Line}
	l.texts += len(r.File) + len(r.Function)
}

// takeStack takes a stack. Only stacks with lower IDs can call it, so that none calls itself.
func (l *Pythons) takeStack(b *tracelog.Block, i int) {
	var r tracelog.PythonStack
	r.Read(b, i)
	if r.ID == 0 || r.ID >= maxPythonIDs {
		return
	}
	s := l.stack(r.ID)
	s.PythonFrame, s.Parent = l.frame(r.Frame), nil
	if r.Parent != 0 && r.Parent < r.ID {
		s.Parent = l.stack(r.Parent)
	}
}

// frame returns the frame with an ID, an unknown one until its record is taken.
func (l *Pythons) frame(id uint32) *timeline.PythonFrame {
	f := l.frames[id]
	if f == nil {
		f = &timeline.PythonFrame{Function: "(unknown)"}
		l.frames[id] = f
	}
	return f
}

// stack returns the stack with an ID, one of an unknown frame until its record is taken.
func (l *Pythons) stack(id uint32) *timeline.Python {
	s := l.stacks[id]
	if s == nil {
		s = &timeline.Python{PythonFrame: l.frame(0), ID: id}
		l.stacks[id] = s
	}
	return s
}

// ByID returns the stack with an ID, nil if the log has no record of it.
func (l *Pythons) ByID(id uint32) *timeline.Python { return l.stacks[id] }

// Any reports whether the log has a stack.
func (l *Pythons) Any() bool { return len(l.stacks) > 0 }
