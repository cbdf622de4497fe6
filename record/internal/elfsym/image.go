package elfsym

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"math"
	"slices"
)

// An Image is an ELF file, seen through its code: which function is around an address, under which
// symbol, and how the function's frame lies on the stack. Addresses are those that the file's own
// headers count. An Image is safe for concurrent use if its reader is.
type Image struct {
	file
	headers uint64 // address of .eh_frame_hdr, 0 without one
	soname  string
}

// A Span is the addresses of a function, of which To is the first one behind it.
type Span struct{ From, To uint64 }

// Contains reports whether an address lies within the function.
func (s Span) Contains(address uint64) bool { return address >= s.From && address < s.To }

// Open reads the headers of an ELF file. Everything else is read when it is asked for.
func Open(r io.ReaderAt) (*Image, error) {
	f, err := readHeaders(r)
	if err != nil {
		return nil, err
	}
	im := &Image{file: *f}
	for _, p := range f.programs {
		if elf.ProgType(p.Type) == elf.PT_GNU_EH_FRAME {
			im.headers = p.Vaddr
		}
	}
	im.soname = im.readSoname()
	return im, nil
}

// Soname is the name by which programs are linked with a library, "" without one.
func (im *Image) Soname() string { return im.soname }

// Address is the address of the code at an offset of the file; ok is false if no code is there.
func (im *Image) Address(offset uint64) (address uint64, ok bool) {
	for _, s := range im.segments {
		if within := offset - s.Off; offset >= s.Off && within < s.Filesz {
			return s.Vaddr + within, true
		}
	}
	return 0, false
}

// Executable reports whether an address is one of code in the file.
func (im *Image) Executable(address uint64) bool {
	return within(im.segments, address) != nil
}

// within finds the segment that holds the byte of an address in the file.
func within(segments []elf.Prog64, address uint64) *elf.Prog64 {
	for i := range segments {
		s := &segments[i]
		if elf.ProgType(s.Type) == elf.PT_LOAD && address >= s.Vaddr && address-s.Vaddr < s.Filesz {
			return s
		}
	}
	return nil
}

// Bytes reads up to n bytes from an address on: fewer at the end of a segment or of the file.
func (im *Image) Bytes(address uint64, n int) []byte {
	s := within(im.programs, address)
	if s == nil {
		return nil
	}
	n = int(min(uint64(n), s.Filesz-(address-s.Vaddr)))
	at := s.Off + (address - s.Vaddr)
	if at > math.MaxInt64-uint64(n) {
		return nil
	}
	b := make([]byte, n)
	got, err := im.r.ReadAt(b, int64(at))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return b[:got]
}

// maxNotes is the most bytes of notes, or of the dynamic section, that are read.
const maxNotes = 1 << 16

// segment reads the first segment of a type, up to maxNotes bytes.
func (im *Image) segment(kind elf.ProgType) []byte {
	for _, p := range im.programs {
		if elf.ProgType(p.Type) == kind {
			return im.part(p)
		}
	}
	return nil
}

func (im *Image) part(p elf.Prog64) []byte {
	if p.Off > math.MaxInt64 {
		return nil
	}
	b := make([]byte, min(p.Filesz, maxNotes))
	n, err := im.r.ReadAt(b, int64(p.Off))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return b[:n]
}

// BuildID is the file's build ID in hexadecimal, "" without one.
func (im *Image) BuildID() string {
	for _, p := range im.programs {
		if elf.ProgType(p.Type) != elf.PT_NOTE {
			continue
		}
		if id := buildID(im.part(p)); id != "" {
			return id
		}
	}
	return ""
}

// buildID finds the build ID among notes. A note is the lengths of its name and text, a type, and
// name and text, each filled up to 4 bytes.
func buildID(notes []byte) string {
	const kind, head, longest = 3, 12, 64
	for len(notes) >= head {
		name, text := binary.LittleEndian.Uint32(notes), binary.LittleEndian.Uint32(notes[4:])
		nameEnd := head + (uint64(name)+3)&^3
		textEnd := nameEnd + (uint64(text)+3)&^3
		if nameEnd+uint64(text) > uint64(len(notes)) {
			return ""
		}
		if binary.LittleEndian.Uint32(notes[8:]) == kind && name == 4 && string(notes[head:head+4]) == "GNU\x00" {
			return hex.EncodeToString(notes[nameEnd : nameEnd+min(uint64(text), longest)])
		}
		notes = notes[min(textEnd, uint64(len(notes))):]
	}
	return ""
}

// readSoname reads the name in the dynamic section.
func (im *Image) readSoname() string {
	const entry = 16
	var texts, soname uint64
	found := false
	for b := im.segment(elf.PT_DYNAMIC); len(b) >= entry; b = b[entry:] {
		value := binary.LittleEndian.Uint64(b[8:])
		switch elf.DynTag(binary.LittleEndian.Uint64(b)) {
		case elf.DT_STRTAB:
			texts = value
		case elf.DT_SONAME:
			soname, found = value, true
		}
	}
	if !found {
		return ""
	}
	name, _, whole := bytes.Cut(im.Bytes(texts+soname, maxName*4), []byte{0})
	if !whole {
		return ""
	}
	return string(name)
}

// Imports reports whether the file uses a function of one of the given names that another file
// defines. It is an error if the file does not list such functions.
func (im *Image) Imports(names ...string) (bool, error) {
	s, ok := im.section(elf.SHT_DYNSYM)
	if !ok {
		return false, errors.New("there is no table of exported functions")
	}
	symbols, texts, err := im.tables(s)
	if err != nil {
		return false, err
	}
	places := im.places(texts, names)
	for entry, err := range entries(symbols) {
		if err != nil {
			return false, err
		}
		if _, named := places[binary.LittleEndian.Uint32(entry)]; named && !isDefined(entry) {
			return true, nil
		}
	}
	return false, nil
}

// Exports returns the places of the functions and the data that the file exports under some names.
func (im *Image) Exports(names ...string) (map[string]Span, error) {
	found := map[string]Span{}
	s, ok := im.section(elf.SHT_DYNSYM)
	if !ok {
		return found, nil
	}
	symbols, texts, err := im.tables(s)
	if err != nil {
		return nil, err
	}
	places := im.places(texts, names)
	for entry, err := range entries(symbols) {
		if err != nil {
			return nil, err
		}
		name, wanted := places[binary.LittleEndian.Uint32(entry)]
		kind := elf.ST_TYPE(entry[4])
		if wanted && isDefined(entry) && (kind == elf.STT_FUNC || kind == elf.STT_OBJECT) {
			from := binary.LittleEndian.Uint64(entry[8:])
			found[name] = Span{from, from + binary.LittleEndian.Uint64(entry[16:])}
		}
	}
	return found, nil
}

// Bias is how far addresses in a process lie above those of the file's headers, where the process maps the file's code
// from an offset of the file on. ok is false if the file has no code there.
func (im *Image) Bias(from, offset uint64) (bias uint64, ok bool) {
	const largestPage = 64 << 10 // whole pages are mapped
	for _, s := range im.segments {
		if offset <= s.Off && s.Off-offset < largestPage {
			return from - (s.Vaddr - (s.Off - offset)), true
		}
	}
	return 0, false
}

// Interpreted reports whether the file names the program that starts it: the dynamic linker. A static program names
// none.
func (im *Image) Interpreted() bool {
	return slices.ContainsFunc(im.programs, func(p elf.Prog64) bool { return elf.ProgType(p.Type) == elf.PT_INTERP })
}

// Code reads the code of the file, up to 1 GiB of it, piece by piece: each begins with the last overlap bytes of the
// one before. The bytes are valid until the next piece.
func (im *Image) Code(overlap int) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		left := uint64(maxTable)
		for _, s := range im.segments {
			size := min(s.Filesz, left)
			if left -= size; !im.pieces(s.Vaddr, s.Off, size, overlap, yield) {
				return
			}
		}
	}
}

// Constants reads the constant data of the file as Code reads the code.
func (im *Image) Constants(overlap int) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		left := uint64(maxTable)
		for _, s := range im.sections {
			constant := elf.SectionFlag(s.Flags)&(elf.SHF_ALLOC|elf.SHF_WRITE|elf.SHF_EXECINSTR) == elf.SHF_ALLOC
			if elf.SectionType(s.Type) != elf.SHT_PROGBITS || !constant {
				continue
			}
			size := min(s.Size, left)
			if left -= size; !im.pieces(s.Addr, s.Off, size, overlap, yield) {
				return
			}
		}
	}
}

func (f *file) pieces(address, offset, size uint64, overlap int, yield func(uint64, []byte) bool) bool {
	if offset > math.MaxInt64 || size > math.MaxInt64-offset {
		return true
	}
	r := io.NewSectionReader(f.r, int64(offset), int64(min(size, maxTable)))
	buf, kept := make([]byte, overlap+chunkSize), 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		if n > 0 && !yield(address-uint64(kept), buf[:kept+n]) {
			return false
		}
		if err != nil {
			return true
		}
		address += uint64(n)
		kept = copy(buf, buf[kept+n-overlap:kept+n])
	}
}

// NamesBegin reports whether the full symbol table has a name that begins with a text.
func (im *Image) NamesBegin(text string) bool {
	s, ok := im.section(elf.SHT_SYMTAB)
	if !ok {
		return false
	}
	_, names, err := im.tables(s)
	if err != nil {
		return false
	}
	found := false
	im.pieces(0, uint64(im.sections[s.Link].Off), uint64(names.Size()), len(text)+1, func(_ uint64, b []byte) bool {
		found = bytes.Contains(b, []byte("\x00"+text))
		return !found
	})
	return found
}
