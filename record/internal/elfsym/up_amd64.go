package elfsym

import "math"

// Registers are those of a thread, by their numbers in unwind tables (System V ABI for x86-64).
type Registers [17]uint64

// Those that a function leaves as they were, or that lead to its caller.
const (
	RBX = 3
	RBP = 6
	RSP = 7
	R12 = 12
	R13 = 13
	R14 = 14
	R15 = 15
	RIP = 16
)

// isKept reports whether a function leaves a register to its caller as it was: others tell nothing above it.
func isKept(register uint64) bool {
	return register == RBX || register == RBP || register == RSP || register >= R12 && register <= R15
}

// Up replaces the registers of a function at an address by those of its caller, by the unwind tables; word reads the stack.
// outermost is true if the tables say that there is no caller. ok is false where they do not tell for certain.
func (im *Image) Up(address uint64, r *Registers, word func(address uint64) (uint64, bool)) (outermost, ok bool) {
	at, err := im.entryAround(address)
	if err != nil {
		return false, false
	}
	e, err := im.unwindEntry(at)
	if err != nil || !e.span.Contains(address) || e.common.signal || e.common.returnAddress != RIP {
		return false, false
	}
	m := unwindMachine{common: &e.common, rules: rules{saved: map[uint64]int64{}}, location: e.span.From}
	if !m.run(e.common.instructions, math.MaxUint64) {
		return false, false
	}
	m.initial, m.location = m.rules.clone(), e.span.From
	if !m.run(e.instructions, address) || m.rules.unknown || m.rules.lost || !isKept(m.rules.register) {
		return false, false
	}
	if _, back := m.rules.saved[RIP]; !back {
		return m.rules.none, m.rules.none
	}
	up := *r
	up[RSP] = r[m.rules.register] + uint64(m.rules.offset)
	for register, offset := range m.rules.saved {
		if register > RIP {
			return false, false
		}
		if up[register], ok = word(r[m.rules.register] + uint64(m.rules.offset+offset)); !ok {
			return false, false
		}
	}
	if up[RSP] <= r[RSP] {
		return false, false
	}
	*r = up
	return false, true
}
