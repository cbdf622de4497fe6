package recipe

import (
	"encoding/binary"
	"math"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A plain function is a function whose arguments are read as whole words at its entry, and
// whose calls need nothing else from the eBPF program.
type plain struct {
	cookie uint64
	words  int // number of words in an event
	args   []word
}

// A word is the place of an argument in the words of an event.
type word struct {
	at   int // byte offset
	wide bool
}

// compilePlain makes the cookie of a function and the decoding of its words; ok is false if the
// function is not plain.
func compilePlain(function uint32, r *bpf.ProbesRecipe) (p *plain, ok bool) {
	stack, block := int(r.StackArgs), int(r.BlockSize)/8
	registers := bpf.LessRegisters
	p = &plain{cookie: uint64(function) | bpf.CookiePlain}
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
		p.args = append(p.args, word{placeOf(int(op.Source), registers, stack), op.Mask == math.MaxUint64})
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
func (p *plain) arguments(c *tracelog.Call, words []byte) {
	c.NArgs = uint32(len(p.args))
	for i, a := range p.args {
		if a.wide {
			c.Args[i] = binary.LittleEndian.Uint64(words[a.at:])
		} else {
			c.Args[i] = uint64(binary.LittleEndian.Uint32(words[a.at:]))
		}
	}
}
