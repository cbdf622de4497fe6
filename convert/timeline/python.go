package timeline

import (
	"fmt"
	"iter"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A PythonFrame is a line of a Python function that called something.
type PythonFrame struct {
	File     string // as the program names it; "" for frames that are left out
	Function string // its qualified name, or why frames are left out
	First    uint32 // the first line of the function
	Line     uint32 // 0 if unknown
	Compiled string // of a line that launches a compiled kernel: "aten.add, aten.mul", the operators it was compiled of
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

// IsOwn reports whether the frame is the program's own: outside the folders of the interpreter and of packages.
func (p *PythonFrame) IsOwn() bool {
	return p.File != "" && !slices.ContainsFunc(foreign, func(part string) bool { return strings.Contains(p.File, part) })
}

// Own is the innermost frame outside the folders of the interpreter and of packages, the innermost one
// where all are inside.
func (p *Python) Own() *Python {
	for f := range p.Frames() {
		if f.IsOwn() {
			return f
		}
	}
	return p
}

// Frames are the frame and those that called it, from the inside out.
func (p *Python) Frames() iter.Seq[*Python] {
	return func(yield func(*Python) bool) {
		for f, n := p, 0; f != nil && n < maxPythonDepth && yield(f); n++ {
			f = f.Parent
		}
	}
}

// autograd is how the names of the threads begin on which PyTorch runs backward passes.
const autograd = "pt_autograd_"

// Autograd reports whether the thread runs PyTorch's backward passes.
func (t *Thread) Autograd() bool { return strings.HasPrefix(t.Name, autograd) }

// NoPython is what stands for the frame of a thread's calls that have none. A nil thread is one that is not known.
func (t *Thread) NoPython() string {
	if t != nil && t.Autograd() {
		return "(no Python frame: autograd)"
	}
	return "(no Python frame)"
}

// Common returns the innermost frame that is in both stacks, nil for none.
func (p *Python) Common(o *Python) *Python {
	for f := range p.Frames() {
		for g := range o.Frames() {
			if f == g {
				return f
			}
		}
	}
	return nil
}

// byAutograd is the stack of the launches of a backward pass that have no frames.
var byAutograd = &Python{PythonFrame: &PythonFrame{Function: (&Thread{Name: autograd}).NoPython()}, ID: math.MaxInt32}

// Launching is the stack of a launch of the thread: its own, or where it has none, a frame that says so for PyTorch's
// backward pass; else nil.
func (t *Thread) Launching(own *Python) *Python {
	if own == nil && t != nil && t.Python && t.Autograd() {
		return byAutograd
	}
	return own
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

// folder matches a folder that Python imports from, with what is before it.
var folder = regexp.MustCompile(`.*(/(site|dist)-packages/|/lib(64)?/python3[^/]*/)`)

// ShortFile is the file without its folders, a package's with those within the package: "torch/nn/functional.py".
func (p *PythonFrame) ShortFile() string {
	if within := folder.ReplaceAllString(p.File, ""); within != p.File {
		return within
	}
	return path.Base(p.File)
}

// Title is the function of the frame as PyTorch's profiler names it: "train.py(38): main".
func (p *PythonFrame) Title() string {
	if p.File == "" {
		return p.Function
	}
	return fmt.Sprintf("%s(%d): %s", p.ShortFile(), p.First, p.Function)
}

// SameFunction reports whether two frames are of one function.
func (p *PythonFrame) SameFunction(o *PythonFrame) bool {
	return p.First == o.First && p.Function == o.Function && p.File == o.File
}

// maxStackText bounds the text of a stack, but for its last frame: a program has tens of thousands of stacks.
const maxStackText = 1 << 12

// Stack is the text of the frame and of those that called it: "/home/ann/train.py:7 step <- /home/ann/train.py:40
// main". It says how many frames further out have no room.
func (p *Python) Stack() string {
	text, more := "", 0
	for f := range p.Frames() {
		switch {
		case f == p:
			text = f.Text()
		case len(text) < maxStackText:
			text += " <- " + f.Text()
		default:
			more++
		}
	}
	if more > 0 {
		text += fmt.Sprintf(" <- (%d more frames)", more)
	}
	return text
}
