package recipe

import (
	"runtime"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A convention is a calling convention: where C functions find their arguments. The eBPF
// program numbers the registers in order, then the 8-byte words on the stack.
type convention struct {
	registers int
	// A struct of more than 16 bytes is passed as a pointer to a copy. Otherwise it lies on the
	// stack and takes no registers.
	pointers bool
	// Once an argument is on the stack, all later ones are on the stack, too.
	closes bool
}

// A place is the word in which an argument begins.
type place struct {
	word    int
	pointer bool // the word points to a struct that the prototype passes by value
}

var (
	sysV  = convention{registers: 6}                               // x86-64 System V
	aapcs = convention{registers: 8, pointers: true, closes: true} // AArch64
)

var ownConvention = map[string]convention{"amd64": sysV, "arm64": aapcs}[runtime.GOARCH]

// places finds the arguments of a function, up to the last recorded one. Every argument has an
// integer type or is a struct of integers.
func (c convention) places(f *cudaapi.Function) []place {
	last := -1
	for _, a := range f.Args {
		last = a.Index
	}
	bytes := make([]int, last+1)
	for _, s := range f.Structs {
		if s.Index <= last {
			bytes[s.Index] = s.Bytes
		}
	}
	places := make([]place, last+1)
	register, stack := 0, 0
	for i, size := range bytes {
		pointer := size > 16 && c.pointers
		words := max(size+7, 8) / 8
		if pointer {
			words = 1
		}
		if register+words <= c.registers && (size <= 16 || pointer) {
			places[i] = place{register, pointer}
			register += words
			continue
		}
		places[i] = place{c.registers + stack, pointer}
		stack += words
		if c.closes {
			register = c.registers
		}
	}
	return places
}
