package elfsym

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cudatrace/cudatrace/record/host"
)

// Limits of the parts that are read. The largest libraries of PyTorch stay far below them.
const (
	maxSections = 1 << 16
	maxSegments = 1 << 10
	maxTable    = 1 << 30 // bytes of a symbol table, a string table, or code
)

var errNotELF = errors.New("not a 64-bit ELF file of this machine")

// A file has the headers of an ELF file.
type file struct {
	r        io.ReaderAt
	sections []elf.Section64
	segments []elf.Prog64 // the executable segments
	programs []elf.Prog64 // all segments
}

func readHeaders(r io.ReaderAt) (*file, error) {
	var h elf.Header64
	if err := readStruct(r, 0, &h); err != nil {
		return nil, errNotELF
	}
	ident := h.Ident
	if string(ident[:4]) != elf.ELFMAG || elf.Class(ident[elf.EI_CLASS]) != elf.ELFCLASS64 ||
		elf.Data(ident[elf.EI_DATA]) != elf.ELFDATA2LSB || elf.Machine(h.Machine) != host.Machine() {
		return nil, errNotELF
	}
	f := &file{r: r}
	return f, errors.Join(f.readSections(&h), f.readSegments(&h))
}

// readSections reads the section headers. A file without them has no symbols.
func (f *file) readSections(h *elf.Header64) error {
	if h.Shoff == 0 || h.Shnum == 0 {
		return nil
	}
	const size = 64 // of elf.Section64
	if h.Shentsize != size || int(h.Shnum) > maxSections || h.Shoff > math.MaxInt64 {
		return fmt.Errorf("unusual section headers: %d of %d bytes", h.Shnum, h.Shentsize)
	}
	f.sections = make([]elf.Section64, h.Shnum)
	return readStruct(f.r, int64(h.Shoff), f.sections)
}

func (f *file) readSegments(h *elf.Header64) error {
	const size = 56 // of elf.Prog64
	if h.Phentsize != size || h.Phnum == 0 || h.Phnum > maxSegments || h.Phoff > math.MaxInt64 {
		return fmt.Errorf("unusual program headers: %d of %d bytes", h.Phnum, h.Phentsize)
	}
	f.programs = make([]elf.Prog64, h.Phnum)
	if err := readStruct(f.r, int64(h.Phoff), f.programs); err != nil {
		return err
	}
	for _, p := range f.programs {
		if elf.ProgType(p.Type) == elf.PT_LOAD && elf.ProgFlag(p.Flags)&elf.PF_X != 0 {
			f.segments = append(f.segments, p)
		}
	}
	return nil
}

func readStruct(r io.ReaderAt, at int64, to any) error {
	return binary.Read(io.NewSectionReader(r, at, math.MaxInt64-at), binary.LittleEndian, to)
}

// tables returns a symbol table and the string table that it refers to.
func (f *file) tables(s elf.Section64) (symbols, texts *io.SectionReader, err error) {
	if s.Link >= uint32(len(f.sections)) || s.Entsize != elf.Sym64Size {
		return nil, nil, errors.New("the symbol table is malformed")
	}
	t := f.sections[s.Link]
	if s.Size > maxTable || t.Size > maxTable || s.Off > math.MaxInt64-maxTable || t.Off > math.MaxInt64-maxTable {
		return nil, nil, errors.New("the symbol table is too large")
	}
	return io.NewSectionReader(f.r, int64(s.Off), int64(s.Size)), io.NewSectionReader(f.r, int64(t.Off), int64(t.Size)), nil
}

// defined returns the file offsets of the functions that a symbol table defines under
// the names at the given places of its string table.
func (f *file) defined(r io.Reader, names map[uint32]string) (map[string]uint64, error) {
	found := map[string]uint64{}
	buf := make([]byte, chunkSize/elf.Sym64Size*elf.Sym64Size)
	for {
		n, err := io.ReadFull(r, buf)
		for entry := buf[:n]; len(entry) >= elf.Sym64Size; entry = entry[elf.Sym64Size:] {
			name, ok := names[binary.LittleEndian.Uint32(entry)]
			if !ok {
				continue
			}
			if offset, ok := f.functionOffset(entry); ok {
				found[name] = offset
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// functionOffset is the file offset of the function of a symbol-table entry. An entry is name
// u32@0, info u8@4, other u8@5, section u16@6, value u64@8, size u64@16.
func (f *file) functionOffset(entry []byte) (uint64, bool) {
	section := elf.SectionIndex(binary.LittleEndian.Uint16(entry[6:]))
	if elf.ST_TYPE(entry[4]) != elf.STT_FUNC || section == elf.SHN_UNDEF {
		return 0, false
	}
	address := binary.LittleEndian.Uint64(entry[8:])
	for _, s := range f.segments {
		if within := address - s.Vaddr; address >= s.Vaddr && within < s.Filesz {
			return s.Off + within, true
		}
	}
	return 0, false
}
