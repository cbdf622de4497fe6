// Package bpf holds the eBPF program of cudatrace and what Go needs to load it.
//
// The program is entry and return probes for CUDA functions. It pairs the two in
// the kernel and writes one event per call to memory that Go maps (store.h): a header
// of HeaderSize bytes, then the recorded arguments, 8 bytes each, all little-endian.
//
//	offset  size  field
//	     0     8  enter   ns, CLOCK_MONOTONIC
//	     8     8  exit    ns, 0 when the call did not return
//	    16     4  pid     in the recorder's PID namespace
//	    20     4  tid
//	    24     2  func    the attach cookie: a cudaapi.ID
//	    26     1  nargs
//	    27     1  flags   tracelog.CallUnfinished, tracelog.CallNoReturn, Flag*
//	    28     4  ret     the returned value, signed
//	    32   8*n  args
//
// An event with FlagThread carries a thread's name instead of a call: 16 bytes in
// the place of two arguments, and in the third its id in its innermost PID namespace.
//
// An event with FlagRaw has the words that hold a plain function's arguments in their
// place, as its attach cookie says: LessRegisters or all argument registers, words of
// the stack, words of the struct that one of the first registers points to.
//
// An event with FlagSymbol carries what a kernel's handle stands for: the handle and
// the handle that it was made from in the place of two arguments, ret the length of
// the name behind them with its NUL, at most MaxName, or 0. It comes through a ring
// buffer.
//
// The objects are built for amd64 and arm64 with clang alone and are committed;
// go generate builds them again.
package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -go-package bpf -target amd64,arm64 -type event -type thread -type slot -type chunk -type supply -type recipe -type op -type lost -type process_end -type watch Probes cudatrace.bpf.c -- -O2 -mcpu=v3 -Wall -Wextra -Werror

// The numbers below are those of cudatrace.bpf.c; a test compares them with the
// type information in the objects.
const (
	HeaderSize   = 32
	MaxArgs      = 12
	MaxDepth     = 8    // calls of one thread that are open at the same time
	MaxFunctions = 1024 // attach cookies are smaller
	MaxStackArgs = 8
	BlockSize    = 128
	FlagThread   = 0x80
	FlagSymbol   = 0x40
	FlagQuiet    = 0x20 // of an open call in the map of threads: it is not wanted
	FlagRaw      = 0x10
	ChunkRoom    = 256  // bytes that a chunk has for an event
	MaxName      = 4096 // bytes of a symbol's name with its NUL
)

// Fields of a plain function's attach cookie. The lowest 16 bits are the function, of
// all cookies.
const (
	CookiePlain        = 1 << 16
	CookieAlways       = 1 << 17 // wanted while recording is paused too
	CookieAllRegisters = 1 << 18

	CookieStackWords    = 20 // bits to the left
	CookieBlockWords    = 24
	CookieBlockRegister = 28
	CookieBlockOffset   = 32

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

// What a function does to the range that is recorded.
const (
	RangeNone  = 0
	RangeBegin = 1 // recording begins when it returns
	RangeEnd   = 2 // recording ends when it is entered
)

// What a function makes of the handle that its first argument receives.
const (
	SymbolNone    = 0
	SymbolNamed   = 1 // its third argument is the kernel's name
	SymbolDerived = 2 // its second argument is a handle of the same kernel
)

// BlockAt is the byte offset of the block in what Op.Source indexes; the arguments
// lie below it, 8 bytes each.
const BlockAt = 128

// Indexes of the map of losses.
const (
	LostBufferFull  = 0
	LostThreadTable = 1
	LostNesting     = 2
	ReadFault       = 3 // an argument could not be read and is 0; the call is there
	CutName         = 4 // a symbol's name was longer than MaxName
)

// Signs that a process is about to end, as the map of ends keeps the last of them. The
// first two are the cookies of the probes on libc.
const (
	EndExit   = 1 // _exit
	EndExec   = 2 // execve and its like
	EndSignal = 3 // a signal that usually kills
)

// MaxFaultAsks is how often a process gets the exit signal for faults that it handles.
const MaxFaultAsks = 10
