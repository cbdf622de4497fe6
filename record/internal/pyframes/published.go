package pyframes

import (
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
)

// provedMachine is the kind of processor on which walks by the layouts were proved.
const provedMachine = elf.EM_X86_64

// The versions that are known, for messages.
var oldest, newest = fmt.Sprintf("3.%d", Layouts[0].Minor), fmt.Sprintf("3.%d", Layouts[len(Layouts)-1].Minor)

// Places in _Py_DebugOffsets of 3.13, in 8-byte words: the beginning of _PyRuntime.
const (
	publishedCookie       = 0 // "xdebugpy"
	publishedVersion      = 1 // PY_VERSION_HEX
	publishedFreeThreaded = 2
	publishedFinalizing   = 4
	publishedInterpreters = 5
	publishedInterpreter  = 22
	publishedFrame        = 23
	publishedThreadID     = 24
	publishedNativeID     = 25
	publishedChunk        = 26
	publishedPrevious     = 29
	publishedCode         = 30
	publishedInstruction  = 31
	publishedOwner        = 33
	publishedFile         = 35
	publishedName         = 37 // the qualified one
	publishedLineTable    = 38
	publishedFirstLine    = 39
	publishedFirst        = 43
	publishedWords        = 44
)

// agrees says whether the layout is the one that the interpreter publishes. Versions before 3.13 publish none.
func (l *Layout) agrees(image *elfsym.Image, runtime uint64) bool {
	if l.Minor < 13 {
		return true
	}
	b := image.Bytes(runtime, 8*publishedWords)
	if len(b) < 8*publishedWords || string(b[:8]) != "xdebugpy" {
		return false
	}
	word := func(i int) int { return int(binary.LittleEndian.Uint64(b[8*i:])) }
	for place, want := range map[int]int{
		publishedFreeThreaded: 0,
		publishedFinalizing:   l.Runtime.Finalizing,
		publishedInterpreters: l.Runtime.Interpreters,
		publishedInterpreter:  l.Thread.Interpreter,
		publishedFrame:        l.Thread.Frame,
		publishedThreadID:     l.Thread.ID,
		publishedNativeID:     l.Thread.NativeID,
		publishedChunk:        l.Thread.Chunk,
		publishedPrevious:     l.Frame.Previous,
		publishedCode:         l.Frame.Code,
		publishedInstruction:  l.Frame.Instruction,
		publishedOwner:        l.Frame.Owner,
		publishedFile:         l.Code.File,
		publishedName:         l.Code.Name,
		publishedLineTable:    l.Code.LineTable,
		publishedFirstLine:    l.Code.FirstLine,
		publishedFirst:        l.Code.First,
	} {
		if word(place) != want {
			return false
		}
	}
	return word(publishedVersion)>>16 == 3<<8|l.Minor
}
