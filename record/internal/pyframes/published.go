package pyframes

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
)

// The versions that are known, for messages.
var oldest, newest = fmt.Sprintf("3.%d", Layouts[0].Minor), fmt.Sprintf("3.%d", Layouts[len(Layouts)-1].Minor)

// A PublishedLayout says where a version publishes offsets: in _Py_DebugOffsets, with which _PyRuntime begins from 3.13
// on. Each field is the place of the first of a group, in 8-byte words; all are 0 in a version that publishes none.
type PublishedLayout struct {
	Interpreter int // of a thread: interpreter, frame
	ID          int // of a thread: ID, native ID, chunk
	Previous    int // of a frame: previous, code, instruction, locals, owner
	File        int // of a code object: file, name, qualified name, line table, first line, three more, first instruction
}

// Places in _Py_DebugOffsets that all versions share.
const (
	publishedCookie       = 0 // "xdebugpy"
	publishedVersion      = 1 // PY_VERSION_HEX
	publishedFreeThreaded = 2
	publishedFinalizing   = 4
	publishedInterpreters = 5
	publishedThreads      = 9
)

// Why an interpreter cannot be walked by what it publishes.
var (
	errFreeThreaded = errors.New("a free-threaded build")
	errPublished    = errors.New("publishes another layout of its structures")
)

// maxState bounds the offsets in _PyRuntime and in an interpreter's state.
const maxState = 1 << 20

// published returns the layout with the offsets of the runtime's and of an interpreter's state that the interpreter
// publishes: releases of a version may differ in them. The others have to be those of the table. Versions before 3.13
// publish none.
func (l Layout) published(image *elfsym.Image, runtime uint64) (*Layout, error) {
	p := l.Published
	if p == (PublishedLayout{}) {
		return &l, nil
	}
	b := image.Bytes(runtime, 8*(p.File+9))
	if len(b) < 8*(p.File+9) || string(b[8*publishedCookie:][:8]) != "xdebugpy" {
		return nil, errPublished
	}
	word := func(i int) int { return int(binary.LittleEndian.Uint64(b[8*i:])) }
	if word(publishedFreeThreaded) != 0 {
		return nil, errFreeThreaded
	}
	if word(publishedVersion)>>16 != 3<<8|l.Minor {
		return nil, errPublished
	}
	for place, want := range map[int]int{
		p.Interpreter: l.Thread.Interpreter, p.Interpreter + 1: l.Thread.Frame,
		p.ID: l.Thread.ID, p.ID + 1: l.Thread.NativeID, p.ID + 2: l.Thread.Chunk,
		p.Previous: l.Frame.Previous, p.Previous + 1: l.Frame.Code, p.Previous + 2: l.Frame.Instruction,
		p.Previous + 4: l.Frame.Owner,
		p.File:         l.Code.File, p.File + 2: l.Code.Name, p.File + 3: l.Code.LineTable, p.File + 4: l.Code.FirstLine,
		p.File + 8: l.Code.First,
	} {
		if word(place) != want {
			return nil, errPublished
		}
	}
	for place, to := range map[int]*int{publishedFinalizing: &l.Runtime.Finalizing,
		publishedInterpreters: &l.Runtime.Interpreters, publishedThreads: &l.Threads} {
		if *to = word(place); *to <= 0 || *to > maxState || *to%8 != 0 {
			return nil, errPublished
		}
	}
	return &l, nil
}
