package read

import (
	"cmp"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxStackIDs bounds the IDs of frames and stacks. Calls and samples with a larger ID have no frames.
const maxStackIDs = 1 << 21

// Stacks are the stacks of one kind that a log has, by ID: S has a frame F, and the stack that called it.
type Stacks[F, S any, K stackKind[F, S]] struct {
	frames map[uint32]*F
	stacks map[uint32]*S
	texts  int // bytes of their texts
	kind   K
}

// A stackKind makes frames and stacks of a kind.
type stackKind[F, S any] interface {
	unknown() F // a frame whose record has not been taken
	stack(id uint32, frame *F, parent *S) S
}

// Pythons are the Python stacks of a log.
type Pythons = Stacks[timeline.PythonFrame, timeline.Python, pythonKind]

// Natives are the native stacks of a log.
type Natives = Stacks[timeline.NativeFrame, timeline.Native, nativeKind]

type pythonKind struct{}

func (pythonKind) unknown() timeline.PythonFrame { return timeline.PythonFrame{Function: "(unknown)"} }

func (pythonKind) stack(id uint32, frame *timeline.PythonFrame, parent *timeline.Python) timeline.Python {
	return timeline.Python{PythonFrame: frame, Parent: parent, ID: id}
}

type nativeKind struct{}

func (nativeKind) unknown() timeline.NativeFrame { return timeline.NativeFrame{} }

func (nativeKind) stack(id uint32, frame *timeline.NativeFrame, parent *timeline.Native) timeline.Native {
	return timeline.Native{NativeFrame: frame, Parent: parent, ID: id}
}

func newStacks[F, S any, K stackKind[F, S]]() Stacks[F, S, K] {
	return Stacks[F, S, K]{frames: make(map[uint32]*F), stacks: make(map[uint32]*S)}
}

// takeFrames takes a record of a frame or of a stack.
func (c *Catalog) takeFrames(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindPythonFrame:
		var r tracelog.PythonFrame
		r.Read(b, i)
		f := timeline.PythonFrame{File: r.File, Function: r.Function, First: r.FirstLine, Line: r.Line, Compiled: r.Compiled}
		c.Pythons.takeFrame(r.ID, f, len(r.File)+len(r.Function)+len(r.Compiled))
		c.Operators.compiling = c.Operators.compiling || r.Compiled != ""
	case tracelog.KindPythonStack:
		var r tracelog.PythonStack
		r.Read(b, i)
		c.Pythons.takeStack(r.ID, r.Frame, r.Parent)
	case tracelog.KindNativeFrame:
		var r tracelog.NativeFrame
		r.Read(b, i)
		c.Natives.takeFrame(r.ID, timeline.NativeFrame{Module: r.Module, Symbol: r.Symbol}, len(r.Module)+len(r.Symbol))
	case tracelog.KindNativeStack:
		var r tracelog.NativeStack
		r.Read(b, i)
		c.Natives.takeStack(r.ID, r.Frame, r.Parent)
	}
}

func (l *Stacks[F, S, K]) takeFrame(id uint32, f F, texts int) {
	if id == 0 || id >= maxStackIDs {
		return
	}
	*l.frame(id) = f
	l.texts += texts
}

// takeStack takes a stack. Only stacks with lower IDs can call it, so that none calls itself.
func (l *Stacks[F, S, K]) takeStack(id, frame, parent uint32) {
	if id == 0 || id >= maxStackIDs {
		return
	}
	var caller *S
	if parent != 0 && parent < id {
		caller = l.stack(parent)
	}
	*l.stack(id) = l.kind.stack(id, l.frame(frame), caller)
}

// frame returns the frame with an ID, an unknown one until its record is taken.
func (l *Stacks[F, S, K]) frame(id uint32) *F {
	f := l.frames[id]
	if f == nil {
		f = new(F)
		*f = l.kind.unknown()
		l.frames[id] = f
	}
	return f
}

// stack returns the stack with an ID, one of an unknown frame until its record is taken.
func (l *Stacks[F, S, K]) stack(id uint32) *S {
	s := l.stacks[id]
	if s == nil {
		s = new(S)
		*s = l.kind.stack(id, l.frame(0), nil)
		l.stacks[id] = s
	}
	return s
}

// ByID returns the stack with an ID, nil if the log has no record of it.
func (l *Stacks[F, S, K]) ByID(id uint32) *S { return l.stacks[id] }

// Any reports whether the log has a stack.
func (l *Stacks[F, S, K]) Any() bool { return len(l.stacks) > 0 }

// Operators are the stacks of PyTorch's operators that a log has, by ID.
type Operators struct {
	stacks map[uint32]*timeline.Operator
	texts  int // bytes of their names

	compiling bool                                       // there are Python lines that launch compiled kernels
	launching map[*timeline.Python]*timeline.PythonFrame // that line of a stack, nil for none
	compiled  map[compiledIn]*timeline.Operator
}

// A compiledIn is a Python line that launches a compiled kernel within an operator, or in none.
type compiledIn struct {
	line   *timeline.PythonFrame
	around *timeline.Operator
}

func newOperators() Operators {
	return Operators{stacks: make(map[uint32]*timeline.Operator), compiled: make(map[compiledIn]*timeline.Operator),
		launching: make(map[*timeline.Python]*timeline.PythonFrame)}
}

// take takes a record of a stack. Only stacks with lower IDs can call it, or have made it.
func (l *Operators) take(b *tracelog.Block, i int) {
	var r tracelog.OperatorStack
	r.Read(b, i)
	if r.ID == 0 || r.ID >= maxStackIDs {
		return
	}
	o := l.stack(r.ID)
	*o = timeline.Operator{Name: r.Name, Scope: timeline.OperatorScope(r.Scope), ID: r.ID}
	if r.Parent != 0 && r.Parent < r.ID {
		o.Parent = l.stack(r.Parent)
	}
	if r.Forward != 0 && r.Forward < r.ID {
		o.Forward = l.stack(r.Forward)
	}
	l.texts += len(r.Name)
}

// stack returns the stack with an ID, an unknown one until its record is taken.
func (l *Operators) stack(id uint32) *timeline.Operator {
	o := l.stacks[id]
	if o == nil {
		o = &timeline.Operator{Name: "(unknown)", ID: id}
		l.stacks[id] = o
	}
	return o
}

// ByID returns the stack with an ID, nil if the log has no record of it.
func (l *Operators) ByID(id uint32) *timeline.Operator { return l.stacks[id] }

// Any reports whether the log has a stack.
func (l *Operators) Any() bool { return len(l.stacks) > 0 }

// in is the operator of a call with Python frames: of a line that launches a compiled kernel it is what the kernel was
// compiled of, unless the line has called an operator of PyTorch's own.
func (l *Operators) in(python *timeline.Python, o *timeline.Operator) *timeline.Operator {
	if !l.compiling || python == nil || o != nil && strings.HasPrefix(o.Name, "aten::") {
		return o
	}
	line, known := l.launching[python]
	if !known {
		for f := range python.Frames() {
			if f.Compiled != "" {
				line = f.PythonFrame
				break
			}
		}
		l.launching[python] = line
	}
	if line == nil {
		return o
	}
	key := compiledIn{line, o}
	c := l.compiled[key]
	if c == nil && len(l.compiled) < maxStackIDs {
		c = timeline.Compiled(line.Compiled, o, maxStackIDs+uint32(len(l.compiled)))
		l.compiled[key] = c
	}
	return cmp.Or(c, o)
}
