package attacktest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// ELFBomb makes a sparse file that takes no room, says that it is a program of this machine, and has 2^24 sections:
// their headers alone are 1 GiB.
func ELFBomb(t *testing.T, path string) {
	t.Helper()
	const sections, head = 1 << 24, 64
	machine := elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		machine = elf.EM_AARCH64
	}
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: head, Shoff: 2 * head, Ehsize: head, Phentsize: 56, Phnum: 1, Shentsize: head,
		Shstrndx: 1, // and Shnum is in the first section
	}
	var b bytes.Buffer
	for _, part := range []any{h, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_X | elf.PF_R),
		Filesz: 1 << 40}, [8]byte{}, elf.Section64{Size: sections}} {
		must.Do(t, binary.Write(&b, binary.LittleEndian, part))
	}
	err := os.WriteFile(path, b.Bytes(), 0o755)
	if err == nil {
		err = os.Truncate(path, 2*head+sections*head)
	}
	if err != nil {
		t.Fatal(err)
	}
}
