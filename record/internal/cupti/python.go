package cupti

import (
	"math"
	"path"
	"sync"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// The Go side of Python frames. inject/python.c sends code objects and stacks, each once, with numbers of the process;
// here they become records of the log.

// leftOut are the frames that stand for frames that are left out, by the reason.
var leftOut = map[uint32]tracelog.PythonFrame{
	leftOutDeep: {Function: "(frames further out are left out)"},
	leftOutCut:  {Function: "(frames further out cannot be read)"},
}

// putPython encodes a struct ct_python; nil says that there is no interpreter, or more than one.
func putPython(b []byte, i *pyframes.Interpreter) {
	if i == nil {
		return
	}
	le.PutUint64(b[pythonRuntimeAt:], i.Runtime)
	le.PutUint64(b[pythonGilStateAt:], i.GILState)
	le.PutUint64(b[pythonCodeTypeAt:], i.CodeType)
	l, version := i.Layout, i.Layout.Code.Version
	if i.Embedded {
		version = pyframes.None // code objects are told apart by their contents, as before 3.12
	}
	for at, n := range map[int]int{
		pythonMinorAt: l.Minor, pythonFinalizingAt: l.Runtime.Finalizing, pythonInterpretersAt: l.Runtime.Interpreters,
		pythonThreadInterpreterAt: l.Thread.Interpreter, pythonThreadIdAt: l.Thread.ID, pythonThreadFrameAt: l.Thread.Frame,
		pythonThreadCframeAt: l.Thread.CFrame, pythonThreadChunkAt: l.Thread.Chunk,
		pythonFrameCodeAt: l.Frame.Code, pythonFramePreviousAt: l.Frame.Previous,
		pythonFrameInstructionAt: l.Frame.Instruction,
		pythonInstructionUnitAt:  l.Frame.InstructionUnit, pythonFrameOwnerAt: l.Frame.Owner,
		pythonCodeFirstAt: l.Code.First, pythonCodeFirstLineAt: l.Code.FirstLine, pythonCodeFileAt: l.Code.File,
		pythonCodeNameAt: l.Code.Name, pythonCodeLineTableAt: l.Code.LineTable, pythonCodeVersionAt: version,
		pythonTextAsciiAt: l.Text.ASCII, pythonTextCompactAt: l.Text.Compact,
	} {
		le.PutUint32(b[at:], uint32(int32(n)))
	}
}

// A pythonTable holds the code objects and the stacks of a process.
type pythonTable struct {
	layout atomic.Pointer[pyframes.Layout] // nil: the process sends none
	log    *PythonLog
	codes  map[uint32]code
	stacks map[uint32]uint32 // IDs of the log, or noRoom
	taken  int               // bytes of memory
}

// noRoom is in place of the ID of a stack that the log lacks.
const noRoom = math.MaxUint32

// A code is a code object, as its process saw it first.
type code struct {
	function, file string
	firstLine      int
	table          string // the line table
	noTable        bool   // it was left out
}

// stackCost and codeCost are the memory of a stack, and of a code object beside its texts.
const stackCost, codeCost = 64, 192

// use takes the interpreter of the process.
func (t *pythonTable) use(i *pyframes.Interpreter) {
	if i != nil {
		t.layout.Store(i.Layout)
	}
}

// addCode adds a code object of a process.
func (t *pythonTable) addCode(m *peerMemory, pid uint32, b []byte) error {
	if len(b) < codeSize {
		return malformed("a code object in %d bytes", len(b))
	}
	id, name, file, table := le.Uint32(b[codeIdAt:]), le.Uint32(b[codeNameSizeAt:]), le.Uint32(b[codeFileSizeAt:]),
		le.Uint32(b[codeTableSizeAt:])
	nameWidth, fileWidth := int(b[codeNameWidthAt]), int(b[codeFileWidthAt])
	if t.layout.Load() == nil || id == 0 || id >= codesMax || t.has(id) {
		return malformed("code object number %d, out of range or sent before", id)
	}
	if !isWidth(nameWidth) || !isWidth(fileWidth) || name > pythonNameMax*4 || file > pythonFileMax*4 ||
		table > pythonTableMax ||
		int(name+file+table) > len(b)-codeSize {
		return malformed("a code object with texts of %d, %d and %d bytes in %d", name, file, table, len(b))
	}
	cost := codeCost + int(name+file+table)
	if !m.reserve(cost) {
		return nil // stacks with it have no number
	}
	t.taken += cost
	texts := b[codeSize:]
	if t.codes == nil {
		t.codes = map[uint32]code{}
	}
	c := code{
		function:  pyframes.Characters(texts[:name], nameWidth),
		file:      pyframes.Characters(texts[name:name+file], fileWidth),
		firstLine: int(int32(le.Uint32(b[codeFirstLineAt:]))),
		table:     string(texts[name+file : name+file+table]),
		noTable:   b[codeNoTableAt] != 0,
	}
	t.codes[id] = c
	t.log.learn(pid, c.file)
	return nil
}

func (t *pythonTable) has(id uint32) bool { _, ok := t.codes[id]; return ok }

// addStack adds a stack. Stacks for which there is no room are 0.
func (t *pythonTable) addStack(m *peerMemory, sink Sink, b []byte) error {
	if len(b) < stackSize {
		return malformed("a Python stack in %d bytes", len(b))
	}
	id, parent, number, offset := le.Uint32(b[stackIdAt:]), le.Uint32(b[stackParentAt:]), le.Uint32(b[stackCodeAt:]),
		le.Uint32(b[stackOffsetAt:])
	if _, again := t.stacks[id]; t.layout.Load() == nil || id == 0 || id >= stacksMax || again {
		return malformed("Python stack number %d, out of range or sent before", id)
	}
	above, known := t.stacks[parent]
	if parent != 0 && !known {
		above = noRoom
	}
	if t.stacks == nil {
		t.stacks = map[uint32]uint32{}
	}
	if !m.reserve(stackCost) {
		return nil // the calls have none, and neither have stacks above
	}
	t.taken += stackCost
	frame, isLine := t.frame(number, offset)
	switch {
	case above == noRoom:
		t.stacks[id] = noRoom
	case isLine:
		t.stacks[id] = t.log.stack(sink, above, frame)
	default:
		t.stacks[id] = above // a frame of the interpreter's own
	}
	return nil
}

// frame returns the frame that an instruction of a code object is in. isLine is false for code without lines.
func (t *pythonTable) frame(number, offset uint32) (f tracelog.PythonFrame, isLine bool) {
	if number == 0 {
		f, isLine = leftOut[offset]
		return f, isLine
	}
	c, known := t.codes[number]
	if !known {
		return tracelog.PythonFrame{Function: "(unknown)"}, true
	}
	f = tracelog.PythonFrame{File: c.file, Function: c.function, FirstLine: uint32(max(c.firstLine, 0))}
	if c.noTable {
		return f, true
	}
	f.Line = uint32(t.layout.Load().Line([]byte(c.table), c.firstLine, int(offset)))
	return f, f.Line != 0
}

// stack returns the log's ID of a stack; stack 0 has none.
func (t *pythonTable) stack(number uint32) (uint32, error) {
	if number == 0 {
		return 0, nil
	}
	id, known := t.stacks[number]
	switch {
	case !known && (number >= stacksMax || t.layout.Load() == nil):
		return 0, malformed("Python stack number %d, which was never sent", number)
	case id == noRoom:
		return 0, nil
	}
	return id, nil
}

// release gives the memory back.
func (t *pythonTable) release(m *peerMemory) { m.give(t.taken) }

func isWidth(n int) bool { return n == 1 || n == 2 || n == 4 }

// A PythonLog gives frames and stacks of all processes their IDs in the log, and adds the records.
type PythonLog struct {
	BareFiles bool                                 // leave the folders of files out
	Generated func(pid uint32, file string) []byte // reads a file of PyTorch's compiler; nil: none is read

	mu       sync.Mutex
	frames   map[tracelog.PythonFrame]uint32 // with ID 0
	stacks   map[tracelog.PythonStack]uint32 // likewise
	compiled map[string]map[uint32]string    // operators by the name of a generated file, and its line
	lines    int                             // of all generated files
}

// Stack returns the ID of a frame with its callers. ok is false if the log has no room for more, or lacks the callers.
// Records with the ID have been added when it returns.
func (l *PythonLog) Stack(sink Sink, parent uint32, f tracelog.PythonFrame) (id uint32, ok bool) {
	id = l.stack(sink, parent, f)
	return id, id != noRoom
}

// pythonStacksMost is the most stacks of a log, and of frames: conversion takes 1<<20 definitions in all. Calls with
// others have none.
const pythonStacksMost = 1 << 18

// stack returns the ID of a frame with its callers, noRoom without room. Records with it have been added when it
// returns.
func (l *PythonLog) stack(sink Sink, parent uint32, f tracelog.PythonFrame) uint32 {
	if l.BareFiles && f.File != "" {
		f.File = path.Base(f.File)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.compiled) > 0 {
		f.Compiled = l.compiled[path.Base(f.File)][f.Line]
	}
	if l.frames == nil {
		l.frames, l.stacks = map[tracelog.PythonFrame]uint32{}, map[tracelog.PythonStack]uint32{}
	}
	frame, known := l.frames[f]
	if !known {
		if len(l.frames) >= pythonStacksMost {
			return noRoom
		}
		frame = uint32(len(l.frames)) + 1
		l.frames[f] = frame
		f.ID = frame
		sink.Add(&f)
	}
	s := tracelog.PythonStack{Parent: parent, Frame: frame}
	id, known := l.stacks[s]
	if !known {
		if len(l.stacks) >= pythonStacksMost {
			return noRoom
		}
		id = uint32(len(l.stacks)) + 1
		l.stacks[s] = id
		s.ID = id
		sink.Add(&s)
	}
	return id
}
