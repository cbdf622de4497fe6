package exits

import (
	"encoding/binary"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// signalFrame is the most bytes that the kernel puts on a stack for a signal.
func signalFrame() uint64 {
	const (
		minSigStackSize = 51   // AT_MINSIGSTKSZ of linux/auxvec.h
		enough          = 8192 // if the kernel does not say
	)
	vector, err := procfs.Read("/proc/self/auxv", procfs.MaxFacts)
	if err != nil {
		return enough
	}
	return auxiliary(vector, minSigStackSize, enough)
}

// auxiliary finds a value in the auxiliary vector, which has pairs of a type and a value, 8
// bytes each.
func auxiliary(vector []byte, kind, otherwise uint64) uint64 {
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.NativeEndian.Uint64(vector) == kind {
			return binary.NativeEndian.Uint64(vector[8:])
		}
	}
	return otherwise
}
