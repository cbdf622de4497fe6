package pyframes

import (
	"encoding/binary"
	"errors"
	"runtime"
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
	latest map[uint64]*Code  // by address
	codes  map[codeKey]*Code
	frames [2][]rawFrame
	header []byte
	texts  [40]byte           // lengths and hashes of a code object's texts, size of its line table
	ends   [2 * tableEnd]byte // of a line table
}

// A codeKey is one of the code objects that lay at an address, one after the other.
type codeKey struct{ at, identity uint64 }

// NewWalker returns a walker for an interpreter of a process.
func NewWalker(pid int, in *Interpreter) *Walker {
	return &Walker{memory: procfs.Memory{PID: pid}, in: in, states: map[uint32]uint64{}, latest: map[uint64]*Code{},
		codes:  map[codeKey]*Code{},
		header: make([]byte, in.Layout.Code.Size())}
}

// Interpreter returns the interpreter that the walker is for.
func (w *Walker) Interpreter() *Interpreter { return w.in }

// A Code is a code object.
type Code struct {
	File, Function string // qualified name, where there is one
	FirstLine      int

	layout   *Layout
	table    []byte
	noTable  bool // it is too long
	parts    codeParts
	identity uint64
}

// codeParts is what a code object itself has: addresses of other objects, and numbers.
type codeParts struct {
	file, name, table uint64
	numbers           uint64 // first line and, in the upper half, version
	tableSize         uint64
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
	for i > 0 && j > 0 && first[i-1].at == second[j-1].at && first[i-1].code == second[j-1].code &&
		first[i-1].previous == second[j-1].previous {
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

// PthreadTID is the place of a thread's ID in glibc's struct pthread, to which pthread_self points, by processor.
var PthreadTID = map[string]uint64{"amd64": 720, "arm64": 208}

var pthreadTID = PthreadTID[runtime.GOARCH]

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

// Holder returns the thread that had the GIL last whose lock or condition is at an address, 0 if unknown, and how often
// the GIL has been handed over: a pointer to that thread's state is just before the lock, and the number behind that.
// The ID is that of the process's own PID namespace.
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
	size := l.Frame.Size()
	var b [128]byte
	for n := 0; err == nil && at != 0 && n < MaxDepth+maxSkipped; n++ {
		if len(list) == MaxDepth {
			return list, true, nil
		}
		if err = w.readAt(at, b[:size]); err != nil {
			break
		}
		word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
		f := rawFrame{at: at, code: word(l.Frame.Code) &^ CodeTag, previous: word(l.Frame.Previous)}
		if unit := l.Frame.InstructionUnit; unit != 0 {
			f.offset = max(int(int32(word(l.Frame.Instruction)))*unit, 0)
		} else if from := f.code + uint64(l.Code.First); word(l.Frame.Instruction) > from {
			f.offset = int(min(word(l.Frame.Instruction)-from, 1<<30))
		}
		if l.Frame.Owner == None || b[l.Frame.Owner] < OwnerC {
			list = append(list, f)
		}
		at = f.previous
	}
	return list, false, err
}

// code returns the code object at an address, nil if there is none.
func (w *Walker) code(at uint64) (*Code, error) {
	if c := w.latest[at]; c != nil {
		if id, err := w.identity(at, &c.parts); err == nil && id == c.identity {
			return c, nil
		}
	}
	if err := w.readAt(at, w.header); err != nil {
		return nil, err
	}
	parts, isCode := w.parts()
	if !isCode {
		return nil, nil
	}
	c := &Code{layout: w.in.Layout, FirstLine: int(int32(parts.numbers))}
	var err1, err2, err3, err4 error
	parts.tableSize, err1 = w.word(parts.table + BytesSize)
	c.parts = parts
	c.File, err2 = w.text(parts.file, maxFile)
	c.Function, err3 = w.text(parts.name, maxName)
	if c.noTable = parts.tableSize > maxTable; !c.noTable {
		c.table = make([]byte, parts.tableSize)
		err4 = w.readAt(parts.table+BytesData, c.table)
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	var err error
	if c.identity, err = w.identity(at, &parts); err != nil { // it is the same still, so that all this was its own
		return nil, err
	}
	if len(w.codes) >= maxCodes {
		clear(w.codes)
		clear(w.latest)
	}
	w.codes[codeKey{at, c.identity}], w.latest[at] = c, c
	return c, nil
}

// Frame returns the frame that was in the code object with an identity at an address, at an offset of its instructions.
// It returns [ErrChanged] if that code object is there no more, and its names are not known.
func (w *Walker) Frame(at, identity, offset uint64) (Frame, error) {
	f := Frame{w.codes[codeKey{at, identity}], int(min(offset, 1<<30))}
	if f.Code != nil {
		return f, nil
	}
	c, err := w.code(at)
	if err == nil && (c == nil || c.identity != identity) {
		err = ErrChanged
	}
	f.Code = c
	return f, err
}

// parts returns the parts of the code object in the header, but for the size of its line table.
func (w *Walker) parts() (p codeParts, isCode bool) {
	l := &w.in.Layout.Code
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(w.header[at:]) }
	p = codeParts{
		file: word(l.File), name: word(l.Name), table: word(l.LineTable), numbers: word(l.FirstLine) & 0xffffffff,
	}
	if l.Version != None {
		p.numbers |= word(l.Version) << 32
	}
	return p, word(8) == w.in.CodeType
}

// tableEnd is the bytes of a line table that count for its code object's identity, at each end.
const tableEnd = 32

// identity returns a number that tells the code object at an address from others, also from one that later lies there:
// from its parts, and the lengths, hashes and ends of what these are. It returns [ErrChanged] if the object has other
// parts than the given ones. The eBPF program computes the same number at a sample (bpf/python.bpf.c).
func (w *Walker) identity(at uint64, p *codeParts) (uint64, error) {
	head, tail := min(p.tableSize, tableEnd), uint64(0)
	if p.tableSize > tableEnd {
		tail = tableEnd
	}
	clear(w.ends[:])
	err := w.memory.ReadAll(
		procfs.Span{At: at, To: w.header},
		procfs.Span{At: p.file + TextLength, To: w.texts[:16]}, procfs.Span{At: p.name + TextLength, To: w.texts[16:32]},
		procfs.Span{At: p.table + BytesSize, To: w.texts[32:]}, procfs.Span{At: p.table + BytesData, To: w.ends[:head]},
		procfs.Span{At: p.table + BytesData + p.tableSize - tail, To: w.ends[tableEnd:][:tail]})
	if err != nil {
		return 0, err
	}
	now, isCode := w.parts()
	if now.tableSize = binary.LittleEndian.Uint64(w.texts[32:]); !isCode || now != *p {
		return 0, ErrChanged
	}
	sum := uint64(0)
	mix := func(v uint64) {
		sum = (sum ^ v) * 0x9e3779b97f4a7c15
		sum ^= sum >> 32
	}
	for _, v := range []uint64{p.file, p.name, p.table, p.numbers} {
		mix(v)
	}
	for b := w.texts[:]; len(b) > 0; b = b[8:] {
		mix(binary.LittleEndian.Uint64(b))
	}
	for b := w.ends[:tableEnd+tail]; len(b) > 0; b = b[8:] {
		mix(binary.LittleEndian.Uint64(b))
	}
	return sum, nil
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

// Threads returns the threads with a Python state, by the IDs that the process knows. cut reports that there may be
// more.
func (w *Walker) Threads() (list map[uint32]bool, cut bool, err error) {
	_, err = w.state(0)
	list = make(map[uint32]bool, len(w.states))
	for tid := range w.states {
		list[tid] = true
	}
	return list, len(list) >= maxThreads, err
}
