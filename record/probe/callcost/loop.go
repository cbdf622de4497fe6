package callcost

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
)

// loopStart is the file offset of loopCode: behind the ELF header and one program header.
const loopStart = 64 + 56

// loopFile makes an ELF file in memory that runs loopCode.
func loopFile() (*os.File, error) {
	const name, executable = "cudatrace-calibration", 0x10 // MFD_EXEC, Linux 6.3
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|executable)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(loopELF()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func loopELF() []byte {
	const base = 0x400000
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(host.Machine()), Version: uint32(elf.EV_CURRENT),
		Entry: base + loopStart, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	size := uint64(loopStart + len(loopCode))
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base,
		Filesz: size, Memsz: size, Align: 0x10000,
	}
	b := make([]byte, 0, size)
	b = appendStruct(appendStruct(b, &header), &segment)
	return append(b, loopCode...)
}

func appendStruct(b []byte, s any) []byte {
	b, err := binary.Append(b, binary.LittleEndian, s)
	if err != nil {
		panic(err) // the structs of debug/elf have a fixed size
	}
	return b
}
