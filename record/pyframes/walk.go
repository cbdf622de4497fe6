package pyframes

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// Bounds of what is read of a process.
const (
	// MaxDepth is the most frames of a stack that are read.
	MaxDepth = 64

	maxCodes   = 1 << 14 // code objects that are remembered
	maxThreads = 1 << 12 // states of threads that are looked through
	maxSkipped = 256     // frames of the interpreter's own
	maxName    = 256     // characters of a function's name
	maxFile    = 1024    // characters of a file's name
	maxTable   = 32 << 10
)

// A Walker reads Python stacks of one process from outside, while its threads run: it stops nobody. What it reads may
// change meanwhile, so frames are read twice, and only those count that both readings show. It is for one goroutine.
type Walker struct {
	memory procfs.Memory
	in     *Interpreter
	states map[uint32]uint64 // of threads, by the ID that the process knows
	codes  map[uint64]*Code
	frames [2][]rawFrame
	header []byte
}

// NewWalker returns a walker for an interpreter of a process.
func NewWalker(pid int, in *Interpreter) *Walker {
	return &Walker{memory: procfs.Memory{PID: pid}, in: in, states: map[uint32]uint64{}, codes: map[uint64]*Code{}, header: make([]byte, max(in.Layout.Code.LineTable, in.Layout.Code.Name)+8)}
}

// A Code is a code object.
type Code struct {
	File, Function string // qualified name, where there is one
	FirstLine      int

	layout   *Layout
	table    []byte
	noTable  bool // it is too long
	identity [4]uint64
}

// A Frame is a frame of a thread.
type Frame struct {
	Code   *Code
	offset int // of the instruction
}

// Line is the line that the frame is in, 0 if unknown.
func (f Frame) Line() int {
	if f.Code.noTable {
		return 0
	}
	return f.Code.layout.Line(f.Code.table, f.Code.FirstLine, f.offset)
}

// A rawFrame is a frame as memory has it.
type rawFrame struct {
	at, code, previous uint64
	offset             int
}

// ErrChanged says that a stack changed too fast to be read.
var ErrChanged = errors.New("the stack changed while it was read")

// maxTries is how often a stack is read that changes meanwhile.
const maxTries = 4

// Stack appends the frames of a thread to a list, the innermost first. tid is the thread's ID in the process's own PID
// namespace. It appends none for a thread without Python frames. cut reports that there are more frames.
func (w *Walker) Stack(tid uint32, list []Frame) (frames []Frame, cut bool, err error) {
	state, err := w.state(tid)
	if err != nil || state == 0 {
		return list, false, err
	}
	var stable []rawFrame
	for range maxTries {
		first, _, err := w.read(state, w.frames[0][:0])
		w.frames[0] = first
		if err != nil {
			return list, false, err
		}
		second, more, err := w.read(state, w.frames[1][:0])
		w.frames[1] = second
		if err != nil {
			return list, false, err
		}
		if stable, cut = common(first, second), more; len(stable) == len(second) {
			break
		}
	}
	if len(stable) == 0 && len(w.frames[1]) > 0 {
		return list, false, ErrChanged
	}
	n := len(list)
	for i := range stable {
		c, err := w.code(stable[i].code)
		if err != nil {
			return list[:n], false, err
		}
		if c != nil {
			list = append(list, Frame{c, stable[i].offset})
		}
	}
	return list, cut, nil
}

// common returns the frames of the second reading from the innermost one on from which both readings are the same.
func common(first, second []rawFrame) []rawFrame {
	i, j := len(first), len(second)
	for i > 0 && j > 0 && first[i-1].at == second[j-1].at && first[i-1].code == second[j-1].code && first[i-1].previous == second[j-1].previous {
		i, j = i-1, j-1
	}
	return second[j:]
}

// state returns the address of the state of a thread, 0 if it has none.
func (w *Walker) state(tid uint32) (uint64, error) {
	if at := w.states[tid]; at != 0 {
		if id, err := w.threadID(at); err == nil && id == tid {
			return at, nil
		}
		delete(w.states, tid)
	}
	l := w.in.Layout
	if ends, err := w.word(w.in.Runtime + uint64(l.Runtime.Finalizing)); err != nil || ends != 0 {
		return 0, err
	}
	main, err := w.word(w.in.Runtime + uint64(l.Runtime.Interpreters) + 8)
	if err != nil || main == 0 {
		return 0, err
	}
	at, err := w.word(main + uint64(l.Threads))
	clear(w.states)
	for n := 0; err == nil && at != 0 && n < maxThreads; n++ {
		var id uint32
		if id, err = w.threadID(at); err == nil {
			w.states[id] = at
			at, err = w.word(at + uint64(l.Thread.Next))
		}
	}
	return w.states[tid], err
}

// pthreadTID is the place of a thread's ID in glibc's struct pthread, on x86-64, to which pthread_self points.
const pthreadTID = 720

// threadID reads which thread a state is of.
func (w *Walker) threadID(state uint64) (uint32, error) {
	t := &w.in.Layout.Thread
	if t.NativeID != None {
		id, err := w.word(state + uint64(t.NativeID))
		return uint32(id), err
	}
	self, err := w.word(state + uint64(t.ID))
	if err != nil {
		return 0, err
	}
	id, err := w.word(self + pthreadTID)
	return uint32(id), err
}

// Owns reports whether an address lies in the variable of the interpreter that has its locks.
func (w *Walker) Owns(address uint64) bool {
	return w.in.RuntimeSize > 0 && address >= w.in.Runtime && address-w.in.Runtime < w.in.RuntimeSize
}

// Holder returns the thread that had the GIL last whose lock or condition is at an address, 0 if unknown, and how often the GIL
// has been handed over: a pointer to that thread's state is just before the lock, and the number behind that. The ID is that of
// the process's own PID namespace.
func (w *Walker) Holder(address uint64) (tid uint32, handovers uint64) {
	const before, number = 128, 16
	var b [before]byte
	address &^= 7 // a condition has two words, of which a thread waits for one
	if w.readAt(address-before, b[:]) != nil {
		return 0, 0
	}
	for at := before - number - 8; at >= 0; at -= 8 {
		state := binary.LittleEndian.Uint64(b[at:])
		for tid, of := range w.states {
			if of == state && state != 0 {
				return tid, binary.LittleEndian.Uint64(b[at+number:])
			}
		}
	}
	return 0, 0
}

// read reads the frames of a thread once.
func (w *Walker) read(state uint64, list []rawFrame) (frames []rawFrame, cut bool, err error) {
	l := w.in.Layout
	at, err := w.word(state + uint64(l.Thread.Frame))
	if err == nil && at != 0 && l.Thread.CFrame != None {
		at, err = w.word(at + uint64(l.Thread.CFrame))
	}
	size := max(l.Frame.Code, l.Frame.Previous, l.Frame.Instruction, l.Frame.Owner) + 8
	var b [128]byte
	for n := 0; err == nil && at != 0 && n < MaxDepth+maxSkipped; n++ {
		if len(list) == MaxDepth {
			return list, true, nil
		}
		if err = w.readAt(at, b[:size]); err != nil {
			break
		}
		word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
		f := rawFrame{at: at, code: word(l.Frame.Code), previous: word(l.Frame.Previous)}
		if unit := l.Frame.InstructionUnit; unit != 0 {
			f.offset = max(int(int32(word(l.Frame.Instruction)))*unit, 0)
		} else if from := f.code + uint64(l.Code.First); word(l.Frame.Instruction) > from {
			f.offset = int(min(word(l.Frame.Instruction)-from, 1<<30))
		}
		if l.Frame.Owner == None || b[l.Frame.Owner] != OwnerC {
			list = append(list, f)
		}
		at = f.previous
	}
	return list, false, err
}

// code returns the code object at an address, nil if there is none.
func (w *Walker) code(at uint64) (*Code, error) {
	l := w.in.Layout
	if err := w.readAt(at, w.header); err != nil {
		return nil, err
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(w.header[at:]) }
	if word(8) != w.in.CodeType {
		return nil, nil
	}
	identity := [4]uint64{word(l.Code.File), word(l.Code.Name), word(l.Code.LineTable), word(l.Code.FirstLine) & 0xffffffff}
	if l.Code.Version != None {
		identity[3] |= word(l.Code.Version) << 32
	}
	if c := w.codes[at]; c != nil && c.identity == identity {
		return c, nil
	}
	c := &Code{layout: l, identity: identity, FirstLine: int(int32(identity[3]))}
	var err1, err2, err3 error
	c.File, err1 = w.text(identity[0], maxFile)
	c.Function, err2 = w.text(identity[1], maxName)
	c.table, c.noTable, err3 = w.bytesAt(identity[2], maxTable)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if len(w.codes) >= maxCodes {
		clear(w.codes)
	}
	w.codes[at] = c
	return c, nil
}

// text reads a str, up to a number of characters.
func (w *Walker) text(at uint64, most int) (string, error) {
	var b [TextState + 8]byte
	if err := w.readAt(at, b[:]); err != nil {
		return "", err
	}
	l := &w.in.Layout.Text
	state := b[TextState]
	width, compact, ascii := int(state>>2&7), state>>5&1 != 0, state>>6&1 != 0
	if !compact || width != 1 && width != 2 && width != 4 {
		return "", nil
	}
	if at += uint64(l.Compact); ascii {
		at += uint64(l.ASCII) - uint64(l.Compact)
	}
	text := make([]byte, width*int(min(binary.LittleEndian.Uint64(b[TextLength:]), uint64(most))))
	err := w.readAt(at, text)
	return Characters(text, width), err
}

// bytesAt reads bytes; long reports that they are more than that.
func (w *Walker) bytesAt(at uint64, most int) (b []byte, long bool, err error) {
	n, err := w.word(at + BytesSize)
	if err != nil || n > uint64(most) {
		return nil, err == nil, err
	}
	b = make([]byte, n)
	err = w.readAt(at+BytesData, b)
	return b, false, err
}

func (w *Walker) word(at uint64) (uint64, error) {
	var b [8]byte
	err := w.readAt(at, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// readAt fills b with the process's memory.
func (w *Walker) readAt(at uint64, b []byte) error { return w.memory.Read(at, b) }

// Characters returns the text of characters of some bytes each, as a str of Python has them: code points.
func Characters(b []byte, width int) string {
	if width == 1 && !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x80 }) {
		return string(b)
	}
	var s strings.Builder
	for ; len(b) >= width; b = b[width:] {
		var r rune
		switch width {
		case 1:
			r = rune(b[0])
		case 2:
			r = rune(binary.LittleEndian.Uint16(b))
		default:
			r = rune(binary.LittleEndian.Uint32(b))
		}
		if utf16.IsSurrogate(r) && r >= 0xdc80 && r <= 0xdcff { // a byte of a file's name that is not UTF-8
			s.WriteByte(byte(r))
			continue
		}
		s.WriteRune(r)
	}
	return s.String()
}

// Threads returns the threads with a Python state, by the IDs that the process knows. cut reports that there may be more.
func (w *Walker) Threads() (list map[uint32]bool, cut bool, err error) {
	_, err = w.state(0)
	list = make(map[uint32]bool, len(w.states))
	for tid := range w.states {
		list[tid] = true
	}
	return list, len(list) >= maxThreads, err
}
