package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
)

// Limits of what is read of a file, so that no file makes us use much memory or
// time. The largest libraries of PyTorch stay far below them.
const (
	maxSections = 1 << 16
	maxSegments = 1 << 10
	maxTable    = 1 << 30 // bytes of a symbol or string table
	maxHits     = 1 << 16 // places in a string table where a wanted name stands
	chunkSize   = 256 << 10
	maxName     = 64
)

var errNotELF = errors.New("not a 64-bit ELF file of this machine")

// findSymbols returns the file offsets of the functions among names that the ELF
// file defines: those that it exports, or when it exports none, those of its full
// symbol table, where the functions of a statically linked runtime are.
//
// It reads the string table first, for the places where a wanted name stands, then
// the symbols that refer to such a place: two passes in file order with a bounded
// buffer, as a symbol table can have millions of entries.
func findSymbols(r io.ReaderAt, wanted func(name string) bool) (map[string]uint64, error) {
	f, err := readELF(r)
	if err != nil {
		return nil, err
	}
	for _, kind := range []elf.SectionType{elf.SHT_DYNSYM, elf.SHT_SYMTAB} {
		for _, s := range f.sections {
			if elf.SectionType(s.Type) != kind {
				continue
			}
			found, err := f.search(s, wanted)
			if err != nil || len(found) > 0 {
				return found, err
			}
		}
	}
	return nil, nil
}

// An elfFile is the headers of an ELF file.
type elfFile struct {
	r        io.ReaderAt
	sections []elf.Section64
	segments []elf.Prog64 // executable ones
}

func readELF(r io.ReaderAt) (*elfFile, error) {
	var h elf.Header64
	if err := readStruct(r, 0, &h); err != nil {
		return nil, errNotELF
	}
	machine := elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		machine = elf.EM_AARCH64
	}
	ident := h.Ident
	if string(ident[:4]) != elf.ELFMAG || elf.Class(ident[elf.EI_CLASS]) != elf.ELFCLASS64 ||
		elf.Data(ident[elf.EI_DATA]) != elf.ELFDATA2LSB || elf.Machine(h.Machine) != machine {
		return nil, errNotELF
	}
	f := &elfFile{r: r}
	return f, errors.Join(f.readSections(&h), f.readSegments(&h))
}

// readSections reads the section headers. A file without them has no symbols.
func (f *elfFile) readSections(h *elf.Header64) error {
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

func (f *elfFile) readSegments(h *elf.Header64) error {
	const size = 56 // of elf.Prog64
	if h.Phentsize != size || h.Phnum == 0 || h.Phnum > maxSegments || h.Phoff > math.MaxInt64 {
		return fmt.Errorf("unusual program headers: %d of %d bytes", h.Phnum, h.Phentsize)
	}
	all := make([]elf.Prog64, h.Phnum)
	if err := readStruct(f.r, int64(h.Phoff), all); err != nil {
		return err
	}
	for _, p := range all {
		if elf.ProgType(p.Type) == elf.PT_LOAD && elf.ProgFlag(p.Flags)&elf.PF_X != 0 {
			f.segments = append(f.segments, p)
		}
	}
	return nil
}

func readStruct(r io.ReaderAt, at int64, to any) error {
	return binary.Read(io.NewSectionReader(r, at, math.MaxInt64-at), binary.LittleEndian, to)
}

// search returns what a symbol table defines of the wanted names.
func (f *elfFile) search(s elf.Section64, wanted func(string) bool) (map[string]uint64, error) {
	table, texts, err := f.tables(s)
	if err != nil {
		return nil, err
	}
	names, err := findNames(texts, wanted)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return f.defined(table, names)
}

// tables gives a symbol table and the string table that it refers to.
func (f *elfFile) tables(s elf.Section64) (symbols, texts *io.SectionReader, err error) {
	if s.Link >= uint32(len(f.sections)) || s.Entsize != elf.Sym64Size {
		return nil, nil, errors.New("the symbol table is malformed")
	}
	t := f.sections[s.Link]
	if s.Size > maxTable || t.Size > maxTable || s.Off > math.MaxInt64-maxTable || t.Off > math.MaxInt64-maxTable {
		return nil, nil, errors.New("the symbol table is too large")
	}
	return io.NewSectionReader(f.r, int64(s.Off), int64(s.Size)), io.NewSectionReader(f.r, int64(t.Off), int64(t.Size)), nil
}

// findNames returns the places in a string table where a wanted name begins. That
// may be inside another name: linkers let a name share the end of a longer one.
func findNames(r io.Reader, wanted func(string) bool) (map[uint32]string, error) {
	found := map[uint32]string{}
	buf := make([]byte, 0, chunkSize+maxName)
	base := 0 // of buf in the table
	for {
		n, err := io.ReadFull(r, buf[len(buf):len(buf)+chunkSize])
		buf = buf[:len(buf)+n]
		last := err != nil
		if last && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, err
		}
		// A name that begins in the last maxName bytes may go on in the next chunk.
		limit := len(buf) - maxName
		if last {
			limit = len(buf)
		}
		if !scanNames(buf, limit, base, wanted, found) {
			return nil, errors.New("the string table repeats a name too often")
		}
		if last {
			return found, nil
		}
		limit = max(limit, 0)
		base += limit
		buf = buf[:copy(buf, buf[limit:])]
	}
}

// scanNames looks for wanted names that begin before limit. It returns false when
// there are too many.
func scanNames(buf []byte, limit, base int, wanted func(string) bool, found map[uint32]string) bool {
	prefix, internal := []byte("cu"), []byte("__")
	for at := 0; at < limit+len(internal); at++ {
		next := bytes.Index(buf[at:], prefix)
		if next < 0 {
			return true
		}
		at += next
		if !plausible(buf[at:]) {
			continue
		}
		end := bytes.IndexByte(buf[at:min(at+maxName, len(buf))], 0)
		if end < 0 {
			continue
		}
		// One place can hold both __cudaX and cudaX.
		for _, from := range []int{at, at - len(internal)} {
			if from < 0 || from >= limit || from < at && !bytes.HasPrefix(buf[from:], internal) || !wanted(string(buf[from:at+end])) {
				continue
			}
			if len(found) >= maxHits {
				return false
			}
			found[uint32(base+from)] = string(buf[from : at+end])
		}
	}
	return true
}

// plausible says whether a place where "cu" stands can be the beginning of a name:
// most are inside other words. Names go on with a capital, after cu, cuda or cupti.
func plausible(text []byte) bool {
	for _, prefix := range []string{"cu", "cuda", "cupti"} {
		if len(text) > len(prefix) && string(text[:len(prefix)]) == prefix && text[len(prefix)] >= 'A' && text[len(prefix)] <= 'Z' {
			return true
		}
	}
	return false
}

// defined returns the file offsets of the functions that a symbol table defines
// under the given names.
func (f *elfFile) defined(r io.Reader, names map[uint32]string) (map[string]uint64, error) {
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

// functionOffset is where in the file the function of a symbol begins. An entry is
// name u32@0, info u8@4, other u8@5, section u16@6, value u64@8, size u64@16.
func (f *elfFile) functionOffset(entry []byte) (uint64, bool) {
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

// maxExports bounds the names of a library whose exports are read at once.
const maxExports = 16 << 20

// findExported returns the file offsets of the functions with the given names that
// the ELF file exports.
func findExported[V any](r io.ReaderAt, wanted map[string]V) (map[string]uint64, error) {
	f, err := readELF(r)
	if err != nil {
		return nil, err
	}
	for _, s := range f.sections {
		if elf.SectionType(s.Type) != elf.SHT_DYNSYM {
			continue
		}
		table, names, err := f.tables(s)
		if err != nil {
			return nil, err
		}
		if names.Size() > maxExports {
			return nil, errors.New("the symbol table is too large")
		}
		texts, err := io.ReadAll(names)
		if err != nil {
			return nil, err
		}
		return f.defined(table, placesOf(texts, wanted))
	}
	return nil, nil
}

// placesOf finds the places in a string table where names stand, also at the end of
// longer ones.
func placesOf[V any](texts []byte, wanted map[string]V) map[uint32]string {
	places := map[uint32]string{}
	for name := range wanted {
		ended := append([]byte(name), 0)
		for at := 0; ; at++ {
			next := bytes.Index(texts[at:], ended)
			if next < 0 {
				break
			}
			at += next
			places[uint32(at)] = name
		}
	}
	return places
}
