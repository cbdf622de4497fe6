package threads

import (
	"bytes"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// placesMost bounds the places in code of which it is remembered how the kernel was entered there.
const placesMost = 1 << 14

// entered says how a thread came into the kernel that goes on at an address when it returns: flags of a sample, 0 if
// unknown.
func (p *sampledProcess) entered(address uint64) uint32 {
	how, known := p.entries[address]
	if known {
		return how
	}
	b := make([]byte, len(callInstruction))
	switch err := p.Memory.Read(address-uint64(len(b)), b); {
	case err != nil: // it has ended, or may not be read
	case bytes.Equal(b, callInstruction):
		how = tracelog.SampleCall
	default:
		how = tracelog.SampleFault
	}
	if len(p.entries) < placesMost {
		if p.entries == nil {
			p.entries = map[uint64]uint32{}
		}
		p.entries[address] = how
	}
	return how
}
