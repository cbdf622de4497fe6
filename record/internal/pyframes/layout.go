// Package pyframes knows CPython's frames. Input: a process, or the bytes of a code object. Output: the interpreter
// in the process with the layout of its structures ([Find]), and the lines of code ([Layout.Line]).
//
// The layouts stand in one table, [Layouts]. Each was compared with its version's headers and proved by walks in a
// running interpreter. A version that is not in the table is not walked.
package pyframes

// None is the offset of a field that a version lacks.
const None = -1

// A Layout says where a version of CPython keeps what leads to a thread's frames. All but Minor, InstructionUnit,
// Lines and Published are offsets in bytes.
type Layout struct {
	Minor int // of Python 3

	Runtime RuntimeLayout
	Threads int // in an interpreter: pointer to the state of its newest thread
	Thread  ThreadLayout
	Frame   FrameLayout
	Code    CodeLayout
	Text    TextLayout
	Lines   LineTable

	Published PublishedLayout
}

// A RuntimeLayout is the layout of _PyRuntime.
type RuntimeLayout struct {
	Finalizing   int // pointer, not null while the interpreter ends
	Interpreters int // pointer to the newest interpreter; that to the first one follows
}

// A ThreadLayout is the layout of PyThreadState.
type ThreadLayout struct {
	Next        int // pointer to the state of the thread before
	Interpreter int
	ID          int // pthread_self
	NativeID    int // the kernel's
	Frame       int // pointer to the innermost frame or, with CFrame, to a _PyCFrame
	CFrame      int // in a _PyCFrame: pointer to the innermost frame
	Chunk       int // pointer to the newest chunk of the data stack: the one before, its size, the end of its use, data
}

// A FrameLayout is the layout of _PyInterpreterFrame or, before 3.11, PyFrameObject.
type FrameLayout struct {
	Code        int
	Previous    int
	Instruction int
	// InstructionUnit is the bytes of an instruction in the 32-bit number at Instruction. 0: a pointer is there, to an
	// instruction in the code object.
	InstructionUnit int
	Owner           int // a byte; OwnerC marks a frame of the interpreter's own
}

// Size is the bytes of a frame up to the end of its last known field.
func (f *FrameLayout) Size() int { return max(f.Code, f.Previous, f.Instruction, f.Owner) + 8 }

// OwnerC is the owner of a frame that the interpreter makes for itself, FRAME_OWNED_BY_CSTACK or, from 3.14 on,
// FRAME_OWNED_BY_INTERPRETER. It has no code. Those above are the same.
const OwnerC = 3

// CodeTag is the bits that 3.14 and later may set in a frame's pointer to its code (_PyStackRef).
const CodeTag = 3

// A CodeLayout is the layout of PyCodeObject.
type CodeLayout struct {
	First     int // instruction, None where they are in an object of their own
	FirstLine int // int
	File      int
	Name      int // the qualified one, where there is one
	LineTable int // bytes
	Version   int // 32 bits: a number that no other code object has
}

// Size is the bytes of a code object up to the end of its last known field.
func (c *CodeLayout) Size() int { return max(c.FirstLine, c.File, c.Name, c.LineTable, c.Version) + 8 }

// A TextLayout says where the text of a str begins.
type TextLayout struct {
	ASCII   int
	Compact int
}

// What all versions have in common: a str's length, hash and state, the size and data of bytes.
const (
	TextLength = 16
	TextHash   = 24
	TextState  = 32
	BytesSize  = 16
	BytesData  = 32
)

// Layouts has a row for each version that can be walked.
var Layouts = []Layout{
	{Minor: 9, Lines: LineNumberTable,
		Runtime: RuntimeLayout{Finalizing: 16, Interpreters: 32},
		Threads: 8,
		Thread:  ThreadLayout{Next: 8, Interpreter: 16, ID: 176, NativeID: None, Frame: 24, CFrame: None, Chunk: None},
		Frame:   FrameLayout{Code: 32, Previous: 24, Instruction: 104, InstructionUnit: 1, Owner: None},
		Code:    CodeLayout{First: None, FirstLine: 40, File: 104, Name: 112, LineTable: 120, Version: None},
		Text:    TextLayout{ASCII: 48, Compact: 72}},
	{Minor: 10, Lines: RangeTable,
		Runtime: RuntimeLayout{Finalizing: 16, Interpreters: 32},
		Threads: 8,
		Thread:  ThreadLayout{Next: 8, Interpreter: 16, ID: 176, NativeID: None, Frame: 24, CFrame: None, Chunk: None},
		Frame:   FrameLayout{Code: 32, Previous: 24, Instruction: 96, InstructionUnit: 2, Owner: None},
		Code:    CodeLayout{First: None, FirstLine: 40, File: 104, Name: 112, LineTable: 120, Version: None},
		Text:    TextLayout{ASCII: 48, Compact: 72}},
	{Minor: 11, Lines: LocationTable,
		Runtime: RuntimeLayout{Finalizing: 24, Interpreters: 40},
		Threads: 16,
		Thread:  ThreadLayout{Next: 8, Interpreter: 16, ID: 152, NativeID: 160, Frame: 56, CFrame: 8, Chunk: 296},
		Frame:   FrameLayout{Code: 32, Previous: 48, Instruction: 56, Owner: 69},
		Code:    CodeLayout{First: 184, FirstLine: 72, File: 112, Name: 128, LineTable: 136, Version: None},
		Text:    TextLayout{ASCII: 48, Compact: 72}},
	{Minor: 12, Lines: LocationTable,
		Runtime: RuntimeLayout{Finalizing: 24, Interpreters: 40},
		Threads: 72,
		Thread:  ThreadLayout{Next: 8, Interpreter: 16, ID: 136, NativeID: 144, Frame: 56, CFrame: 0, Chunk: 232},
		Frame:   FrameLayout{Code: 0, Previous: 8, Instruction: 56, Owner: 70},
		Code:    CodeLayout{First: 192, FirstLine: 68, File: 112, Name: 128, LineTable: 136, Version: 92},
		Text:    TextLayout{ASCII: 40, Compact: 56}},
	{Minor: 13, Lines: LocationTable,
		Runtime: RuntimeLayout{Finalizing: 608, Interpreters: 632},
		Threads: 7344,
		Thread:  ThreadLayout{Next: 8, Interpreter: 16, ID: 152, NativeID: 160, Frame: 72, CFrame: None, Chunk: 232},
		Frame:   FrameLayout{Code: 0, Previous: 8, Instruction: 56, Owner: 70},
		Code:    CodeLayout{First: 200, FirstLine: 68, File: 112, Name: 128, LineTable: 136, Version: 92},
		Text:    TextLayout{ASCII: 40, Compact: 56}, Published: PublishedLayout{22, 24, 29, 35}},
	{Minor: 14, Lines: LocationTable,
		Runtime: RuntimeLayout{Finalizing: 784, Interpreters: 808},
		Threads: 7344,
		Thread:  ThreadLayout{Next: 8, Interpreter: 16, ID: 152, NativeID: 160, Frame: 72, CFrame: None, Chunk: 232},
		Frame:   FrameLayout{Code: 0, Previous: 8, Instruction: 56, Owner: 74},
		Code:    CodeLayout{First: 208, FirstLine: 68, File: 112, Name: 128, LineTable: 136, Version: 92},
		Text:    TextLayout{ASCII: 40, Compact: 56}, Published: PublishedLayout{25, 27, 32, 40}},
	{Minor: 15, Lines: LocationTable,
		Runtime: RuntimeLayout{Finalizing: 912, Interpreters: 936},
		Threads: 7336,
		Thread:  ThreadLayout{Next: 8, Interpreter: 16, ID: 176, NativeID: 184, Frame: 72, CFrame: None, Chunk: 256},
		Frame:   FrameLayout{Code: 0, Previous: 8, Instruction: 56, Owner: 74},
		Code:    CodeLayout{First: 208, FirstLine: 68, File: 112, Name: 128, LineTable: 136, Version: 92},
		Text:    TextLayout{ASCII: 40, Compact: 56}, Published: PublishedLayout{25, 30, 40, 48}},
}

// layoutOf returns the row of a version, nil if it is not known.
func layoutOf(minor int) *Layout {
	for i := range Layouts {
		if Layouts[i].Minor == minor {
			return &Layouts[i]
		}
	}
	return nil
}
