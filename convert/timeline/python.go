package timeline

import (
	"fmt"
	"slices"
	"strings"
)

// A PythonFrame is a line of a Python function that called something.
type PythonFrame struct {
	File     string // as the program names it; "" for frames that are left out
	Function string // its qualified name, or why frames are left out
	Line     uint32 // 0 if unknown
}

// A Python is a Python frame of a thread that made calls, with the frames that called it.
type Python struct {
	*PythonFrame
	Parent *Python // nil for the outermost frame
	ID     uint32  // a number that no other stack in the log has, not 0
}

// maxPythonDepth bounds the frames of a stack that are looked at. A recorder reads fewer.
const maxPythonDepth = 256

// foreign are parts of the names of files that belong to the interpreter or to a package.
var foreign = []string{"/site-packages/", "/dist-packages/", "/lib/python3.", "/lib64/python3.", "<frozen "}

// own reports whether the frame is the program's own.
func (p *PythonFrame) own() bool {
	return p.File != "" && !slices.ContainsFunc(foreign, func(part string) bool { return strings.Contains(p.File, part) })
}

// Own is the innermost frame outside the folders of the interpreter and of packages, the innermost one
// where all are inside.
func (p *Python) Own() *Python {
	for f, n := p, 0; f != nil && n < maxPythonDepth; f, n = f.Parent, n+1 {
		if f.own() {
			return f
		}
	}
	return p
}

// Text is the frame as people see it: "/home/ann/train.py:40 main".
func (p *PythonFrame) Text() string {
	switch {
	case p.File == "":
		return p.Function
	case p.Line == 0:
		return p.File + " " + p.Function
	}
	return fmt.Sprintf("%s:%d %s", p.File, p.Line, p.Function)
}

// maxStackText bounds the text of a stack, but for its last frame: a program has tens of thousands of stacks.
const maxStackText = 1 << 12

// Stack is the text of the frame and of those that called it: "/home/ann/train.py:7 step <- /home/ann/train.py:40 main".
// It says how many frames further out have no room.
func (p *Python) Stack() string {
	text, more := p.Text(), 0
	for f, n := p.Parent, 1; f != nil && n < maxPythonDepth; f, n = f.Parent, n+1 {
		if len(text) < maxStackText {
			text += " <- " + f.Text()
		} else {
			more++
		}
	}
	if more > 0 {
		text += fmt.Sprintf(" <- (%d more frames)", more)
	}
	return text
}
