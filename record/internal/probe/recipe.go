package probe

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// compileRecipe makes the recipe that tells the eBPF program where the arguments of a function are.
func compileRecipe(f *cudaapi.Function) (*bpf.ProbesRecipe, error) {
	r := &bpf.ProbesRecipe{Nargs: uint8(len(f.Args))}
	places := ownConvention.places(f)
	block := chooseBlock(f.Args)
	if block.to > block.from {
		r.BlockSource = uint8(places[block.index].word * 8)
		r.BlockOffset, r.BlockSize = uint32(block.from), uint8(block.to-block.from)
	}
	for i, a := range f.Args {
		place := places[a.Index]
		used := place.word + 1
		if a.From == cudaapi.FromValue && !place.pointer {
			used += (a.Offset + a.Type.Bytes() - 1) / 8
		}
		stack := used - ownConvention.registers
		if stack > bpf.MaxStackArgs {
			return nil, fmt.Errorf("argument %s of %s lies too far up the stack", a.Name, f.Name)
		}
		r.StackArgs = max(r.StackArgs, uint8(max(stack, 0)))
		r.Ops[i] = compileArg(a, place, block)
		if r.Ops[i].Kind == bpf.OpOut {
			r.Later = 1
		}
	}
	return r, nil
}

// A structBlock is the part of a struct that the eBPF program reads in one go.
type structBlock struct {
	index    int // number of the argument that points to the struct
	from, to int // byte offsets in it
}

// chooseBlock takes the recorded fields of the first struct, from the lowest up, as far as they
// fit.
func chooseBlock(args []cudaapi.Arg) structBlock {
	b := structBlock{index: -1, from: math.MaxInt}
	for _, a := range args {
		if a.From == cudaapi.FromField && (b.index < 0 || a.Index == b.index) {
			b.index, b.from = a.Index, min(b.from, a.Offset)
		}
	}
	if b.index < 0 {
		return structBlock{}
	}
	for _, a := range args {
		if end := a.Offset + a.Type.Bytes(); b.holds(a) && end <= b.from+bpf.BlockSize {
			b.to = max(b.to, end)
		}
	}
	return b
}

func (b structBlock) holds(a cudaapi.Arg) bool {
	return a.From == cudaapi.FromField && a.Index == b.index
}

func compileArg(a cudaapi.Arg, at argumentPlace, b structBlock) bpf.ProbesOp {
	op := bpf.ProbesOp{Mask: math.MaxUint64, Source: uint16(at.word * 8), Kind: bpf.OpCopy}
	if a.Type.Bytes() == 4 {
		op.Mask = math.MaxUint32
	}
	switch {
	case a.From == cudaapi.FromOut:
		op.Kind, op.Offset = bpf.OpOut, uint32(a.Offset)
	case b.holds(a) && a.Offset+a.Type.Bytes() <= b.to:
		op.Source = uint16(bpf.BlockAt + a.Offset - b.from)
	case a.From == cudaapi.FromField, a.From == cudaapi.FromValue && at.pointer:
		op.Kind, op.Offset = bpf.OpField, uint32(a.Offset)
	case a.From == cudaapi.FromValue:
		op.Source += uint16(a.Offset)
	}
	return op
}

// A callingConvention is where C functions find their arguments. The eBPF
// program numbers the registers in order, then the 8-byte words on the stack.
type callingConvention struct {
	registers int
	// A struct of more than 16 bytes is passed as a pointer to a copy. Otherwise it lies on the
	// stack and takes no registers.
	pointers bool
	// Once an argument is on the stack, all later ones are on the stack, too.
	closes bool
}

// An argumentPlace is the word in which an argument begins.
type argumentPlace struct {
	word    int
	pointer bool // the word points to a struct that the prototype passes by value
}

var (
	sysV  = callingConvention{registers: 6}                               // x86-64 System V
	aapcs = callingConvention{registers: 8, pointers: true, closes: true} // AArch64
)

var ownConvention = map[string]callingConvention{"amd64": sysV, "arm64": aapcs}[runtime.GOARCH]

// places finds the arguments of a function, up to the last recorded one. Every argument has an
// integer type or is a struct of integers.
func (c callingConvention) places(f *cudaapi.Function) []argumentPlace {
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
	places := make([]argumentPlace, last+1)
	register, stack := 0, 0
	for i, size := range bytes {
		pointer := size > 16 && c.pointers
		words := max(size+7, 8) / 8
		if pointer {
			words = 1
		}
		if register+words <= c.registers && (size <= 16 || pointer) {
			places[i] = argumentPlace{register, pointer}
			register += words
			continue
		}
		places[i] = argumentPlace{c.registers + stack, pointer}
		stack += words
		if c.closes {
			register = c.registers
		}
	}
	return places
}

// A plainFunction is a function whose arguments are read as whole words at its entry, and
// whose calls need nothing else from the eBPF program.
type plainFunction struct {
	cookie uint64
	words  int // number of words in an event
	args   []eventWord
}

// An eventWord is the place of an argument in the words of an event.
type eventWord struct {
	at   int // byte offset
	wide bool
}

// compilePlain makes the cookie of a function and the decoding of its words; ok is false if the
// function is not plain.
func compilePlain(function uint32, r *bpf.ProbesRecipe) (p *plainFunction, ok bool) {
	stack, block := int(r.StackArgs), int(r.BlockSize)/8
	registers := bpf.LessRegisters
	p = &plainFunction{cookie: uint64(function) | bpf.CookiePlain}
	for _, op := range r.Ops[:r.Nargs] {
		if op.Kind != bpf.OpCopy {
			return nil, false
		}
		if register := int(op.Source / 8); register >= registers && register < ownConvention.registers {
			registers = ownConvention.registers
			p.cookie |= bpf.CookieAllRegisters
		}
	}
	p.words = registers + stack + block
	if r.Later != 0 || r.Quiet != 0 || r.Range != bpf.RangeNone || r.Symbol != bpf.SymbolNone ||
		stack > bpf.MaxStackWords || block > bpf.MaxBlockWords || p.words > bpf.MaxArgs ||
		r.BlockSize%8 != 0 || r.BlockSource/8 >= bpf.LessRegisters || r.BlockOffset > math.MaxUint16 {
		return nil, false
	}
	p.cookie |= uint64(stack)<<bpf.CookieStackWords | uint64(block)<<bpf.CookieBlockWords |
		uint64(r.BlockSource/8)<<bpf.CookieBlockRegister | uint64(r.BlockOffset)<<bpf.CookieBlockOffset
	if r.Always != 0 {
		p.cookie |= bpf.CookieAlways
	}
	for _, op := range r.Ops[:r.Nargs] {
		p.args = append(p.args, eventWord{placeOf(int(op.Source), registers, stack), op.Mask == math.MaxUint64})
	}
	return p, true
}

// placeOf is the byte offset, in the words of an event, of the source of an operation.
func placeOf(source, registers, stack int) int {
	switch {
	case source >= bpf.BlockAt:
		return (registers+stack)*8 + source - bpf.BlockAt
	case source >= ownConvention.registers*8:
		return registers*8 + source - ownConvention.registers*8
	}
	return source
}

// arguments reads the arguments of a call from the words of its event.
func (p *plainFunction) arguments(c *tracelog.Call, words []byte) {
	c.NArgs = uint32(len(p.args))
	for i, a := range p.args {
		if a.wide {
			c.Args[i] = binary.LittleEndian.Uint64(words[a.at:])
		} else {
			c.Args[i] = uint64(binary.LittleEndian.Uint32(words[a.at:]))
		}
	}
}
