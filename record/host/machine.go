package host

import (
	"debug/elf"
	"runtime"
)

// Machine is the processor of this machine, as the header of an ELF file names it.
func Machine() elf.Machine {
	if runtime.GOARCH == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}
