package elfsym

import (
	"debug/elf"
	"encoding/binary"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"

	"github.com/cudatrace/cudatrace/record/host"
)

// Bounds of a function whose return instructions are looked for.
const (
	maxFunctionCode = 64 << 10 // bytes
	maxReturns      = 32
)

// Returns lists the addresses of the return instructions of the function at an address, in ascending order. It lists
// none unless the function certainly ends at these and nowhere else: the unwind tables tell where its code is, every
// path through that ends at one of them or in a call that does not return, and none leads elsewhere by a jump.
func (im *Image) Returns(address uint64) []uint64 {
	at, err := im.entryAround(address)
	if err != nil {
		return nil
	}
	e, err := im.unwindEntry(at)
	if err != nil || e.span.From != address || !e.called() || e.span.To-e.span.From > maxFunctionCode {
		return nil
	}
	code := im.Bytes(address, int(e.span.To-e.span.From))
	if uint64(len(code)) < e.span.To-e.span.From {
		return nil
	}
	decode := decodeX86
	if host.Machine() == elf.EM_AARCH64 {
		decode = decodeARM64
	}
	returns := returnsOf(code, decode)
	for i := range returns {
		returns[i] += address
	}
	return returns
}

// A flow is how a program goes on behind an instruction.
type flow uint8

const (
	unknownFlow flow = iota // not known, or elsewhere
	onward                  // at the next instruction
	called                  // at the next one, when what is called has returned
	jumped                  // at the target
	branched                // at the target, or the next one
	returned
	stopped // nowhere
)

// An instruction has what matters of one.
type instruction struct {
	flow    flow
	reached bool // by a path
	size    int
	target  int64 // of a jump, from the instruction on
}

// returnsOf lists the offsets of the return instructions in the code of a function. The code is decoded from its
// beginning on, and along its paths: the two must agree on where instructions begin.
func returnsOf(code []byte, decode func([]byte) instruction) (returns []uint64) {
	begins := make([]int32, len(code)) // index in decoded of the instruction that begins there; 0: none does
	decoded := make([]instruction, 1, 1+len(code)/4)
	found := 0
	for i := 0; i < len(code); {
		in := decode(code[i:])
		if in.size <= 0 || in.size > len(code)-i {
			return nil
		}
		begins[i], decoded = int32(len(decoded)), append(decoded, in)
		if in.flow == returned {
			found++
		}
		i += in.size
	}
	for paths := []int{0}; len(paths) > 0; {
		i := paths[len(paths)-1]
		paths = paths[:len(paths)-1]
		for i < len(code) && !decoded[begins[i]].reached {
			in := &decoded[begins[i]] // the first one, of which nothing is known, if none begins here
			in.reached = true
			to := int64(i) + in.target
			if (in.flow == jumped || in.flow == branched) && (to < 0 || to >= int64(len(code))) {
				return nil
			}
			next := i + in.size
			switch in.flow {
			case onward, called:
				if i = next; i == len(code) && in.flow == onward {
					return nil // it goes on in what lies behind the function
				}
			case jumped:
				i = int(to)
			case branched:
				if paths, i = append(paths, int(to)), next; i == len(code) {
					return nil
				}
			case returned:
				returns = append(returns, uint64(i))
				i = len(code)
			case stopped:
				i = len(code)
			default:
				return nil
			}
		}
	}
	if len(returns) != found || found > maxReturns { // one that no path reaches
		return nil
	}
	return returns
}

// decodeX86 decodes an instruction of x86-64. The size is 0 if it is not known.
func decodeX86(b []byte) instruction {
	const endbr64 = 0xfa1e0ff3
	if len(b) >= 4 && binary.LittleEndian.Uint32(b) == endbr64 {
		return instruction{flow: onward, size: 4}
	}
	x, err := x86asm.Decode(b, 64)
	if err != nil {
		return instruction{}
	}
	in := instruction{flow: onward, size: x.Len}
	relative := func(of flow) {
		if target, ok := x.Args[0].(x86asm.Rel); ok {
			in.flow, in.target = of, int64(x.Len)+int64(target)
		} else {
			in.flow = unknownFlow
		}
	}
	switch x.Op {
	case x86asm.RET:
		in.flow = returned
	case x86asm.CALL:
		in.flow = called
	case x86asm.JMP:
		relative(jumped)
	case x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JCXZ, x86asm.JE, x86asm.JECXZ, x86asm.JG,
		x86asm.JGE, x86asm.JL, x86asm.JLE, x86asm.JNE, x86asm.JNO, x86asm.JNP, x86asm.JNS, x86asm.JO, x86asm.JP,
		x86asm.JRCXZ, x86asm.JS,
		x86asm.LOOP, x86asm.LOOPE, x86asm.LOOPNE:
		relative(branched)
	case x86asm.UD0, x86asm.UD1, x86asm.UD2, x86asm.HLT:
		in.flow = stopped
	case x86asm.LRET, x86asm.LJMP, x86asm.IRET, x86asm.IRETD, x86asm.IRETQ, x86asm.SYSRET,
		x86asm.SYSEXIT, x86asm.XBEGIN, x86asm.INT:
		in.flow = unknownFlow
	}
	return in
}

// decodeARM64 decodes an instruction of arm64.
func decodeARM64(b []byte) instruction {
	const size, ret = 4, 0xd65f03c0 // by the link register: the decoder knows no other word of it
	x, err := arm64asm.Decode(b)
	if err != nil {
		return instruction{}
	}
	in := instruction{flow: onward, size: size}
	target := func(of flow) {
		in.flow = unknownFlow
		for _, a := range x.Args {
			if to, ok := a.(arm64asm.PCRel); ok {
				in.flow, in.target = of, int64(to)
			}
		}
	}
	switch x.Op {
	case arm64asm.RET:
		if in.flow = unknownFlow; binary.LittleEndian.Uint32(b) == ret {
			in.flow = returned
		}
	case arm64asm.BL, arm64asm.BLR:
		in.flow = called
	case arm64asm.B:
		if _, conditional := x.Args[0].(arm64asm.Cond); conditional {
			target(branched)
		} else {
			target(jumped)
		}
	case arm64asm.CBZ, arm64asm.CBNZ, arm64asm.TBZ, arm64asm.TBNZ:
		target(branched)
	case arm64asm.BRK, arm64asm.HLT:
		in.flow = stopped
	case arm64asm.BR, arm64asm.ERET, arm64asm.DRPS:
		in.flow = unknownFlow
	}
	return in
}
