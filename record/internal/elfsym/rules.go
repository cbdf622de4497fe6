package elfsym

import (
	"maps"
	"math"
)

// Instructions of the unwind tables (DWARF 5, section 6.4.2). The first three carry an operand in
// their lower six bits.
const (
	opAdvance        = 0x40
	opOffset         = 0x80
	opRestore        = 0xc0
	opNop            = 0x00
	opSetLocation    = 0x01
	opAdvance1       = 0x02
	opAdvance2       = 0x03
	opAdvance4       = 0x04
	opOffsetLong     = 0x05
	opRestoreLong    = 0x06
	opUndefined      = 0x07
	opSameValue      = 0x08
	opRegister       = 0x09
	opRemember       = 0x0a
	opRecall         = 0x0b
	opFrame          = 0x0c
	opFrameRegister  = 0x0d
	opFrameOffset    = 0x0e
	opFrameComputed  = 0x0f
	opComputed       = 0x10
	opOffsetSigned   = 0x11
	opFrameSigned    = 0x12
	opFrameOffSigned = 0x13
	opValueOffset    = 0x14
	opValueSigned    = 0x15
	opValueComputed  = 0x16
	opNegateState    = 0x2d // return addresses are signed from here on, or no longer
	opArgumentsSize  = 0x2e
)

// rules say where a function's frame and its caller's registers are, at an address.
type rules struct {
	register uint64 // the frame is offset bytes above it
	offset   int64
	unknown  bool             // the frame is elsewhere
	saved    map[uint64]int64 // registers saved at an offset from the frame
	lost     bool             // some are in another way
	none     bool             // there is no caller, unless the return address has been saved since
}

func (r rules) clone() rules {
	r.saved = maps.Clone(r.saved)
	return r
}

const (
	maxRemembered = 64
	maxSaved      = 128
)

// An unwindMachine runs unwind instructions up to an address.
type unwindMachine struct {
	unwindReader
	common     *commonEntry
	rules      rules
	initial    rules
	remembered []rules
	location   uint64
}

// linked reports whether, at an address of the function, the frame pointer leads to the caller: the
// word there is the caller's frame pointer, and the next word is the return address.
func (e *unwindEntry) linked(address uint64) bool {
	if e.common.signal {
		return false
	}
	m := unwindMachine{common: &e.common, rules: rules{saved: map[uint64]int64{}}, location: e.span.From}
	if !m.run(e.common.instructions, math.MaxUint64) {
		return false
	}
	m.initial, m.location = m.rules.clone(), e.span.From
	if !m.run(e.instructions, address) || m.rules.unknown {
		return false
	}
	machine := machineRegisters()
	pointer, ok1 := m.rules.saved[machine.frame]
	back, ok2 := m.rules.saved[machine.returnAddress]
	return ok1 && ok2 && e.common.returnAddress == machine.returnAddress && back == pointer+8 && pointer == m.pointed()
}

// called reports whether the return address is where a call puts it when the function is entered.
func (e *unwindEntry) called() bool {
	machine := machineRegisters()
	m := unwindMachine{common: &e.common, rules: rules{saved: map[uint64]int64{}}, location: e.span.From}
	if e.common.signal || e.common.returnAddress != machine.returnAddress ||
		!m.run(e.common.instructions, math.MaxUint64) {
		return false
	}
	m.initial, m.location = m.rules.clone(), e.span.From
	if !m.run(e.instructions, e.span.From) || m.rules.unknown || m.rules.register != machine.stack {
		return false
	}
	back, saved := m.rules.saved[machine.returnAddress]
	if machine.returnAddress == 30 { // in its register
		return m.rules.offset == 0 && !saved
	}
	return m.rules.offset == 8 && saved && back == -8
}

// pointed is where the frame pointer points, from the frame: on arm64 the frame mostly stays relative to
// the stack pointer, and the frame pointer, once saved, points to where it was saved.
func (m *unwindMachine) pointed() int64 {
	machine := machineRegisters()
	if m.rules.register == machine.frame {
		return -m.rules.offset
	}
	if machine.returnAddress == 30 {
		return m.rules.saved[machine.frame]
	}
	return math.MinInt64
}

// run runs instructions while they hold for addresses up to limit.
func (m *unwindMachine) run(instructions []byte, limit uint64) bool {
	m.unwindReader = unwindReader{b: instructions}
	for len(m.b) > 0 && m.err == nil && m.location <= limit {
		m.step(limit)
	}
	return m.err == nil
}

func (m *unwindMachine) step(limit uint64) {
	op := m.byte()
	low := uint64(op & 0x3f)
	switch op & 0xc0 {
	case opAdvance:
		m.advance(low)
	case opOffset:
		m.save(low, int64(m.unsigned()))
	case opRestore:
		m.restore(low)
	default:
		m.extended(op)
	}
}

func (m *unwindMachine) extended(op byte) {
	switch op {
	case opNop, opNegateState:
	case opAdvance1:
		m.advance(m.takeBytes(1))
	case opAdvance2:
		m.advance(m.takeBytes(2))
	case opAdvance4:
		m.advance(m.takeBytes(4))
	case opArgumentsSize:
		m.unsigned()
	case opRemember, opRecall:
		m.stack(op)
	case opFrame, opFrameSigned, opFrameRegister, opFrameOffset, opFrameOffSigned, opFrameComputed:
		m.frame(op)
	default:
		m.register(op)
	}
}

func (m *unwindMachine) advance(n uint64) { m.location += n * m.common.codeAlign }

func (m *unwindMachine) stack(op byte) {
	switch {
	case op == opRemember && len(m.remembered) < maxRemembered:
		m.remembered = append(m.remembered, m.rules.clone())
	case op == opRecall && len(m.remembered) > 0:
		last := len(m.remembered) - 1
		m.rules, m.remembered = m.remembered[last], m.remembered[:last]
	default:
		m.err = errUnwind
	}
}

// frame runs an instruction that says where the frame is.
func (m *unwindMachine) frame(op byte) {
	switch op {
	case opFrame:
		m.rules.register, m.rules.offset, m.rules.unknown = m.unsigned(), int64(m.unsigned()), false
	case opFrameSigned:
		m.rules.register, m.rules.offset, m.rules.unknown = m.unsigned(), m.signed()*m.common.dataAlign, false
	case opFrameRegister:
		m.rules.register = m.unsigned()
	case opFrameOffset:
		m.rules.offset = int64(m.unsigned())
	case opFrameOffSigned:
		m.rules.offset = m.signed() * m.common.dataAlign
	case opFrameComputed:
		m.skip(m.unsigned())
		m.rules.unknown = true
	}
}

// register runs an instruction that says where a register of the caller is.
func (m *unwindMachine) register(op byte) {
	register := m.unsigned()
	switch op {
	case opOffsetLong:
		m.save(register, int64(m.unsigned()))
	case opOffsetSigned:
		m.save(register, m.signed())
	case opRestoreLong:
		m.restore(register)
	case opUndefined:
		m.rules.none = m.rules.none || register == m.common.returnAddress
		m.rules.lost = m.rules.lost || register != m.common.returnAddress
	case opSameValue:
	case opRegister, opValueOffset:
		m.unsigned()
	case opValueSigned:
		m.signed()
	case opComputed, opValueComputed:
		m.skip(m.unsigned())
	default: // opSetLocation among them, which compilers don't write
		m.err = errUnwind
	}
	switch op {
	case opRegister, opValueOffset, opValueSigned, opComputed, opValueComputed:
		m.rules.lost = true
		fallthrough
	case opUndefined, opSameValue:
		delete(m.rules.saved, register)
	}
}

func (m *unwindMachine) save(register uint64, factored int64) {
	if len(m.rules.saved) >= maxSaved {
		m.err = errUnwind
		return
	}
	m.rules.saved[register] = factored * m.common.dataAlign
}

func (m *unwindMachine) restore(register uint64) {
	if offset, ok := m.initial.saved[register]; ok {
		m.rules.saved[register] = offset
		return
	}
	delete(m.rules.saved, register)
}
