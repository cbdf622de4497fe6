// Package bpf holds the eBPF program of cudatrace and what Go needs to load it.
//
// Input: the entry and the return of each call of a probed CUDA function. The program pairs the
// two in the kernel. Output: one event per call, in memory that the recorder maps (store.h). An
// event is a header of HeaderSize bytes, then the recorded arguments, 8 bytes each, all
// little-endian.
//
//	offset  size  field
//	     0     8  enter   ns, CLOCK_MONOTONIC
//	     8     8  exit    ns, 0 when the call did not return, or its entry alone is recorded
//	    16     4  pid     in the recorder's PID namespace
//	    20     4  tid
//	    24     2  func    the attach cookie: a cudaapi.ID
//	    26     1  nargs
//	    27     1  flags   tracelog.CallUnfinished, tracelog.CallNoReturn, Flag*
//	    28     4  ret     the returned value, signed
//	    32     8  chain   of return addresses above the call, 0 when not known
//	    40   8*n  args
//
// An event with FlagThread has a thread's name instead of a call: 16 bytes in the place of two
// arguments, and as the third argument its ID in its innermost PID namespace.
//
// An event with FlagChain stands in front of the first call of a chain. It has the process's epoch, and
// the return addresses of the chain from the innermost up, in the place of arguments.
//
// An event with FlagRaw has whole words in the place of arguments. The attach cookie of a plain
// function says which: LessRegisters or all argument registers, words of the stack, words of
// the struct that one of the first registers points to.
//
// An event with FlagSymbol says what a kernel's handle stands for. It has the handle, and the
// handle that it was made from, in the place of two arguments. Behind them is the name; ret is
// the length of the name with its NUL, at most MaxName, or 0. Such events come through a ring
// buffer.
//
// Functions of any library have numbers from MaxFunctions on. The entry of one is an event without exit, with flags of
// tracelog.CallNoReturn if none of its returns is told, its return an event of which enter and exit are equal, with the
// whole returned value in the place of an argument. Both have the stack pointer at entry in the place of the chain.
//
// Other programs read Python frames at samples of threads, and where PyTorch's allocator hands out memory
// (python.bpf.c).
//
// The objects are built for amd64 and arm64 with clang alone and are committed; go generate
// rebuilds them.
package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -go-package bpf -target amd64,arm64 -type event -type thread -type slot -type chunk -type supply -type caller_table -type target -type recipe -type op -type lost -type process_end -type watch -type member Probes cudatrace.bpf.c -- -O2 -mcpu=v3 -Wall -Wextra -Werror
//go:generate go tool bpf2go -cc clang -strip llvm-strip -go-package bpf -target amd64,arm64 -type python_thread -type python_frame -type torch_event Python python.bpf.c -- -O2 -mcpu=v3 -Wall -Wextra -Werror

// The numbers below are those of cudatrace.bpf.c; a test compares them with the
// type information in the objects.
const (
	HeaderSize   = 40
	MaxArgs      = 12
	MaxDepth     = 8    // most open calls of one thread
	MaxNested    = 32   // most open functions of any library of one thread
	MaxFunctions = 1024 // attach cookies are smaller
	MaxProcesses = 4096 // recorded at the same time; places in the table of epochs
	MaxStackArgs = 8
	BlockSize    = 128
	FlagThread   = 0x80
	FlagSymbol   = 0x40
	FlagQuiet    = 0x20 // of an open call in the map of threads: it is not recorded
	FlagRaw      = 0x10
	FlagChain    = 0x08
	FlagFailure  = 0x04 // the call is recorded only if it fails
	MaxChain     = 7    // most return addresses of a chain
	SiteLength   = 7    // bits of a site in the map of callers that say how long its chains are
	ChunkRoom    = 256  // bytes that a chunk reserves for an event
	MaxName      = 4096 // bytes of a symbol's name with its NUL

	PythonHead      = 16 // bytes of a sample's Python frames before the first one: see struct python_sample
	PythonFrameSize = 24

	TorchHead        = 56      // bytes of an event of PyTorch's allocator before those of its sample: struct torch_event
	TorchOutOfMemory = 1 << 32 // in the attach cookie beside the slot: at c10::reportOutOfMemoryToProfiler
)

// Fields of a plain function's attach cookie. In all cookies, the lowest 16 bits are the
// function.
const (
	CookiePlain        = 1 << 16
	CookieAlways       = 1 << 17 // recorded even while recording is paused
	CookieAllRegisters = 1 << 18
	CookieLaunch       = 1 << 19 // it launches a kernel, at the driver
	CookieAlone        = 1 << 23 // only its entry is recorded; also of a function of any library

	CookieStackWords    = 20 // bits to the left
	CookieBlockWords    = 24
	CookieBlockRegister = 28
	CookieBlockOffset   = 32
	CookieChain         = 48 // most return addresses of a chain

	// What the site is. Without these bits it is an entry.
	CookieReturn = 1 << 30 // a return instruction
	CookieBehind = 1 << 31 // behind the return: the return probe

	// In place of those from CookieStackWords on, that of a function of any library has:
	CookieWords = 20 // words to record, at most MaxFunctionWords

	MaxFunctionWords = 6

	MaxStackWords = 7
	MaxBlockWords = 7
	LessRegisters = 4
)

// How a recipe's operation gets its value.
const (
	OpCopy  = 0 // from the arguments, or from the block read at entry
	OpField = 1 // through an argument that is a pointer, at entry
	OpOut   = 2 // through an argument that is a pointer, when the call returned 0
)

// The effect of a function on the range that is recorded.
const (
	RangeNone  = 0
	RangeBegin = 1 // recording begins when it returns
	RangeEnd   = 2 // recording ends when it is entered
)

// What a function says of the handle that its first argument receives.
const (
	SymbolNone    = 0
	SymbolNamed   = 1 // its third argument is the kernel's name
	SymbolDerived = 2 // its second argument is a handle of the same kernel
)

// BlockAt is the byte offset of the block in the area that Op.Source indexes; the arguments lie
// below it, 8 bytes each.
const BlockAt = 128

// Indexes of the map of losses.
const (
	LostBufferFull  = 0
	LostThreadTable = 1
	LostNesting     = 2
	ReadFault       = 3 // an argument could not be read and is 0; the call is there
	CutName         = 4 // a symbol's name was longer than MaxName
	LostCalibration = 5 // a call of a process that is TargetCalibration, for any cause

	LostFunctionRate   = 6 // entries of functions of any library, beyond their rate
	LostFunctionBuffer = 7 // events of such functions

	LostFunctionNesting = 8 // such functions within others, beyond MaxNested
)

// TargetCalibration is the range in the map of targets of the process whose calls measure the
// cost of a probed call.
const TargetCalibration = 2

// Signs that a process is about to end. The map of ends keeps the last one. The first two are
// the cookies of the probes on libc.
const (
	EndExit   = 1 // _exit
	EndExec   = 2 // execve and its like
	EndSignal = 3 // a signal that usually kills
)

// MaxFaultAsks is the most exit signals that a process gets for faults that it handles.
const MaxFaultAsks = 10
