package elfsym

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
)

// Limits of the parts that are read. The largest libraries of PyTorch stay far below them.
const (
	maxSections = 1 << 16
	maxSegments = 1 << 10
	maxTable    = 1 << 30 // bytes of a symbol table, a string table, all code or all constants
)

// OpenFile opens a regular file for the functions of this package. It waits for nobody: not for the other end of a
// pipe, nor for a process that has a lease on the file, which could make us wait for 45 seconds.
func OpenFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opened, a device could act on it
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// InBlocks returns a reader that reads a file by whole blocks and keeps them, for many small pieces that lie close
// together. It is for one goroutine.
func InBlocks(r io.ReaderAt) io.ReaderAt { return &blocks{r, map[int64][]byte{}} }

type blocks struct {
	r    io.ReaderAt
	kept map[int64][]byte // by number
}

const (
	blockSize  = 4 << 10
	mostBlocks = 4096
)

func (b *blocks) ReadAt(to []byte, at int64) (n int, err error) {
	for n < len(to) {
		number, within := (at+int64(n))/blockSize, int((at+int64(n))%blockSize)
		block, ok := b.kept[number]
		if !ok {
			block = make([]byte, blockSize)
			got, err := b.r.ReadAt(block, number*blockSize)
			if err != nil && err != io.EOF {
				return n, err
			}
			if len(b.kept) == mostBlocks {
				clear(b.kept)
			}
			block = block[:got]
			b.kept[number] = block
		}
		if within >= len(block) {
			return n, io.EOF
		}
		n += copy(to[n:], block[within:])
	}
	return n, nil
}

// Built is the machine that an ELF file is built for.
func Built(r io.ReaderAt) (elf.Machine, error) {
	const machine = 18 // place of e_machine, whatever the class
	head := make([]byte, machine+2)
	if _, err := r.ReadAt(head, 0); err != nil || string(head[:4]) != elf.ELFMAG {
		return elf.EM_NONE, errNotELF
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	return elf.Machine(order.Uint16(head[machine:])), nil
}

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

// section returns the first section of a type. Of tables of symbols, a file has one of each type.
func (f *file) section(kind elf.SectionType) (elf.Section64, bool) {
	i := slices.IndexFunc(f.sections, func(s elf.Section64) bool { return elf.SectionType(s.Type) == kind })
	if i < 0 {
		return elf.Section64{}, false
	}
	return f.sections[i], true
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
	return io.NewSectionReader(f.r, int64(s.Off), int64(s.Size)), io.NewSectionReader(f.r, int64(t.Off), int64(t.Size)),
		nil
}

// entries are the entries of a symbol table: name u32@0, info u8@4, other u8@5, section u16@6, value u64@8, size u64@16.
// An entry is valid until the next one. An error comes last.
func entries(symbols io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		buf := make([]byte, chunkSize/elf.Sym64Size*elf.Sym64Size)
		for {
			n, err := io.ReadFull(symbols, buf)
			for entry := buf[:n]; len(entry) >= elf.Sym64Size; entry = entry[elf.Sym64Size:] {
				if !yield(entry, nil) {
					return
				}
			}
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// isDefined reports whether a symbol-table entry defines something.
func isDefined(entry []byte) bool {
	return elf.SectionIndex(binary.LittleEndian.Uint16(entry[6:])) != elf.SHN_UNDEF
}

// Offset is the offset in the file of the code at an address; ok is false if no code is there.
func (f *file) Offset(address uint64) (offset uint64, ok bool) {
	s := within(f.segments, address)
	if s == nil {
		return 0, false
	}
	return s.Off + address - s.Vaddr, true
}
