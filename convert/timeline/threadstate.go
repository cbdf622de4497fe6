package timeline

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// A ThreadState is what a thread does.
type ThreadState uint8

// The states.
const (
	Running  ThreadState = iota
	Runnable             // ready to run, and another thread has the processor
	Blocked
)

var threadStates = [...]string{Running: "running", Runnable: "runnable", Blocked: "blocked"}

func (s ThreadState) String() string { return threadStates[s] }

// A State is a time in which a thread was in one state.
type State struct {
	Start, End uint64
	ThreadState
	CPU uint32
	Why *Block // of a blocked thread, nil if unknown
}

// A Block is why a thread was blocked. Equal ones of a log are one value.
type Block struct {
	Call   string  // system call; BlockFault, BlockStopped
	On     string  // what it waited for: the kind of its files, BlockLock, BlockGIL, BlockThread; "" if unknown
	Holder *Thread // that has the lock, or that is to end; nil if unknown
	Python *Python // nil if unknown
}

// Special values of a Block.
const (
	BlockFault   = "page fault"
	BlockStopped = "stopped"
	BlockLock    = "lock"
	BlockGIL     = "GIL"
	BlockThread  = "thread"
)

// States are states of a thread, in the order of time.
type States struct {
	Thread *Thread
	List   []State
}

// A StackSample is what a thread ran at a moment.
type StackSample struct {
	Time   uint64
	Native *Native // nil if unknown
	Python *Python // nil without Python frames
	SampleMode
	Unread bool // Python frames could not be read
}

// A SampleMode says where a thread was.
type SampleMode uint8

// The modes.
const (
	InProgram SampleMode = iota
	InKernel             // for an unknown reason
	InCall               // in a system call
	InFault              // in the kernel, because of a page fault or another exception
)

var sampleModes = [...]string{
	InProgram: "program", InKernel: "kernel", InCall: "system call", InFault: "page fault or interrupt",
}

func (m SampleMode) String() string { return sampleModes[m] }

// StackSamples are samples of a thread, in the order of time.
type StackSamples struct {
	Thread *Thread
	Period uint64 // ns that a sample stands for, 0 if unknown
	List   []StackSample
}

// A NativeFrame is a place in the code of a program or a library.
type NativeFrame struct {
	Module string // path of the file, "" if unknown
	Symbol string // mangled, "" if unknown
}

// A Native is a native frame of a thread, with the frames that called it.
type Native struct {
	*NativeFrame
	Parent *Native // nil for the outermost frame
	ID     uint32  // a number that no other stack in the log has, not 0
}

// maxNativeDepth bounds the frames of a stack that are looked at. A recorder reads fewer.
const maxNativeDepth = 128

// Frames are the frame and those that called it, from the inside out.
func (n *Native) Frames() iter.Seq[*Native] {
	return func(yield func(*Native) bool) {
		for f, i := n, 0; f != nil && i < maxNativeDepth && yield(f); i++ {
			f = f.Parent
		}
	}
}

// Function is the demangled name of the function without its parameters, "" if unknown.
func (f *NativeFrame) Function() string { return demangle.Filter(f.Symbol, demangle.NoParams) }

// Text is the frame as people see it: "libtorch_cpu.so: at::add", "libc.so.6".
func (f *NativeFrame) Text() string {
	switch {
	case f.Module == "":
		return "(code of no file)"
	case f.Symbol == "":
		return path.Base(f.Module)
	}
	return path.Base(f.Module) + ": " + f.Function()
}

// Short is the frame without its folder: "train.py:40 main".
func (p *PythonFrame) Short() string {
	short := *p
	short.File = path.Base(p.File)
	if p.File == "" {
		short.File = ""
	}
	return short.Text()
}

// A Blocker is the kind of thing that blocks a thread.
type Blocker uint8

// The kinds of blocker.
const (
	OtherBlocker Blocker = iota // a file, a pipe, a socket, memory, the end of a thread
	OwnSleep                    // the thread sleeps by itself
	SomeLock
)

// By returns the kind of thing that a thread waits for.
func (b *Block) By() Blocker {
	switch {
	case b.Call == BlockFault || b.Call == BlockStopped:
		return OtherBlocker
	case b.On == BlockGIL || b.On == BlockLock:
		return SomeLock
	case b.On == BlockThread:
		return OtherBlocker
	case strings.HasSuffix(b.Call, "nanosleep"), b.On == "" &&
		(strings.HasSuffix(b.Call, "poll") || strings.Contains(b.Call, "select")):
		return OwnSleep
	}
	return OtherBlocker
}

// ByOthers reports whether a thread waits for what somebody else puts into a pipe, a socket or an eventfd.
func (b *Block) ByOthers() bool {
	in := func(kind string) bool { return strings.Contains(b.On, kind) }
	return slices.ContainsFunc([]string{"pipe", "socket", "eventfd"}, in)
}

// Text says what a thread waits for, for people: "blocked in poll on a pipe", "waits for a lock of thread 12 (loader)".
func (b *Block) Text() string {
	switch {
	case b.Call == BlockFault:
		return "waits for a page of memory"
	case b.Call == BlockStopped:
		return "is stopped"
	case b.On == BlockGIL:
		return "waits for the GIL" + b.holder(" that %s has")
	case b.On == BlockLock:
		return "waits for a lock" + b.holder(" that %s has")
	case b.On == BlockThread && b.Holder != nil:
		return "waits for the end of" + b.holder(" %s")
	case b.On == BlockThread:
		return "waits for the end of a thread"
	case b.By() == OwnSleep:
		return "sleeps in " + b.Call
	case b.On == "":
		return "blocked in " + b.Call
	case strings.ContainsAny(b.On[:1], "aeiou"):
		return "blocked in " + b.Call + " on an " + b.On
	}
	return "blocked in " + b.Call + " on a " + b.On
}

func (b *Block) holder(form string) string {
	if b.Holder == nil {
		return ""
	}
	name := fmt.Sprintf("thread %d", b.Holder.TID)
	if t := b.Holder.Title(); t != "" {
		name += " (" + t + ")"
	}
	return fmt.Sprintf(form, name)
}

func (s *States) move(c *Clock) {
	for i := range s.List {
		s.List[i].Start, s.List[i].End = c.At(s.List[i].Start), c.At(s.List[i].End)
	}
}

func (s *StackSamples) move(c *Clock) {
	for i := range s.List {
		s.List[i].Time = c.At(s.List[i].Time)
	}
}
