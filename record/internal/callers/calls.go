package callers

import (
	"debug/elf"
	"encoding/binary"

	"github.com/cudatrace/cudatrace/record/host"
)

// A call is the call instruction in front of a return address.
type call struct {
	called bool   // there is one
	direct bool   // it names its target
	target uint64 // of a direct call
}

// callBefore reads the call instruction that ends b, at the address behind b.
func callBefore(b []byte, address uint64) call {
	if host.Machine() == elf.EM_AARCH64 {
		return callBeforeARM(b, address)
	}
	return callBeforeX86(b, address)
}

// callBeforeX86 reads "call rel32" or one of the forms of "call r/m64".
func callBeforeX86(b []byte, address uint64) call {
	if len(b) >= 5 && b[len(b)-5] == 0xe8 {
		distance := int32(binary.LittleEndian.Uint32(b[len(b)-4:]))
		return call{called: true, direct: true, target: address + uint64(int64(distance))}
	}
	for n := 2; n <= len(b); n++ {
		if isIndirectCall(b[len(b)-n:]) {
			return call{called: true}
		}
	}
	return call{}
}

// isIndirectCall reports whether b is exactly one "call r/m64": FF /2, with prefixes.
func isIndirectCall(b []byte) bool {
	if b[0] == 0x3e { // notrack
		b = b[1:]
	}
	if len(b) > 0 && b[0]&0xf0 == 0x40 { // REX
		b = b[1:]
	}
	if len(b) < 2 || b[0] != 0xff || b[1]>>3&7 != 2 {
		return false
	}
	mode, base, length := b[1]>>6, b[1]&7, 2
	if mode != 3 && base == 4 { // a SIB byte follows
		if len(b) < 3 {
			return false
		}
		base = b[2] & 7
		length++
		if mode == 0 && base == 5 {
			length += 4
		}
	} else if mode == 0 && base == 5 { // relative to the instruction
		length += 4
	}
	switch mode {
	case 1:
		length++
	case 2:
		length += 4
	}
	return len(b) == length
}

// callBeforeARM reads BL, BLR or one of the forms of BLR that check a signed pointer.
func callBeforeARM(b []byte, address uint64) call {
	if len(b) < 4 || address%4 != 0 {
		return call{}
	}
	word := binary.LittleEndian.Uint32(b[len(b)-4:])
	switch {
	case word>>26 == 0x25: // BL
		distance := int64(int32(word<<6)) >> 4
		return call{called: true, direct: true, target: address - 4 + uint64(distance)}
	case word&0xfffffc1f == 0xd63f0000, word&0xfefff800 == 0xd63f0800: // BLR; BLRAA and its like
		return call{called: true}
	}
	return call{}
}

// jumps reports whether the function that begins at from jumps to the address to: it ends with a call
// that leaves its own frame (a tail call).
func (m *module) jumps(from, to uint64) bool {
	f, ok := m.elf.Frame(from)
	if !ok || f.From != from || f.To-f.From > maxFunctionCode {
		return false
	}
	code := m.elf.Bytes(from, int(f.To-f.From))
	if host.Machine() == elf.EM_AARCH64 {
		return jumpsARM(code, to-from)
	}
	return jumpsX86(code, to-from)
}

// jumpsX86 reports whether code holds "jmp rel8" or "jmp rel32" to an address, counted from the
// beginning of the code.
func jumpsX86(code []byte, to uint64) bool {
	for i, op := range code {
		rest := code[i+1:]
		var behind uint64
		switch {
		case op == 0xeb && len(rest) >= 1:
			behind = uint64(i) + 2 + uint64(int64(int8(rest[0])))
		case op == 0xe9 && len(rest) >= 4:
			behind = uint64(i) + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(rest))))
		default:
			continue
		}
		if behind == to {
			return true
		}
	}
	return false
}

// jumpsARM reports whether code holds "b" to an address, counted from the beginning of the code.
func jumpsARM(code []byte, to uint64) bool {
	for i := 0; i+4 <= len(code); i += 4 {
		word := binary.LittleEndian.Uint32(code[i:])
		if word>>26 == 5 && uint64(i)+uint64(int64(int32(word<<6))>>4) == to {
			return true
		}
	}
	return false
}

// jumpsAway reports whether code holds a jump to an address in memory or in a register.
func jumpsAway(code []byte) bool {
	if host.Machine() == elf.EM_AARCH64 {
		return jumpsAwayARM(code)
	}
	return jumpsAwayX86(code)
}

// jumpsAwayX86 looks for "jmp *distance(%rip)" and "jmp *register".
func jumpsAwayX86(code []byte) bool {
	for i := 0; i+2 <= len(code); i++ {
		if code[i] == 0xff && (code[i+1] == 0x25 || code[i+1]&0xf8 == 0xe0) {
			return true
		}
	}
	return false
}

// jumpsAwayARM looks for BR.
func jumpsAwayARM(code []byte) bool {
	for ; len(code) >= 4; code = code[4:] {
		if binary.LittleEndian.Uint32(code)&0xfffffc1f == 0xd61f0000 {
			return true
		}
	}
	return false
}
