package elfsym

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Symbols are the functions that a file's symbol tables name, ordered by address. Names stay in
// the file until one is asked for: a function costs 16 bytes.
type Symbols struct {
	entries []symbolEntry
	names   [2]*io.SectionReader // of the table of exported functions, and of the full one
}

// A Symbol is a function that a symbol table names.
type Symbol struct {
	Span
	Name     string
	Exported bool
}

type symbolEntry struct {
	from uint64
	size uint32
	name uint32 // place in the string table, and in the highest bit which table
}

const (
	fullTable     = 1 << 31
	maxSymbolName = 16 << 10
)

// errTooManySymbols says that a file names more functions than the caller has room for.
var errTooManySymbols = errors.New("too many symbols")

// Symbols reads the symbol tables of a file: most is the largest number of functions that the
// caller has room for.
func (im *Image) Symbols(most int) (*Symbols, error) {
	found := &Symbols{}
	for kind, table := range map[elf.SectionType]uint32{elf.SHT_DYNSYM: 0, elf.SHT_SYMTAB: fullTable} {
		if s, ok := im.section(kind); ok {
			if err := im.addSymbols(found, s, table, most); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(found.entries, func(a, b symbolEntry) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.name, b.name))
	})
	return found, nil
}

func (im *Image) addSymbols(found *Symbols, s elf.Section64, table uint32, most int) error {
	symbols, names, err := im.tables(s)
	if err != nil {
		return err
	}
	found.names[table>>31] = names
	for entry, err := range entries(symbols) {
		if err != nil {
			return err
		}
		e, ok := im.function(entry)
		if !ok {
			continue
		}
		if len(found.entries) >= most {
			return fmt.Errorf("%w: more than %d", errTooManySymbols, most)
		}
		e.name |= table
		found.entries = append(found.entries, e)
	}
	return nil
}

// function reads a symbol-table entry (see entries) of a function with a size in this file.
func (im *Image) function(entry []byte) (symbolEntry, bool) {
	kind := elf.ST_TYPE(entry[4])
	name, size := binary.LittleEndian.Uint32(entry), binary.LittleEndian.Uint64(entry[16:])
	from := binary.LittleEndian.Uint64(entry[8:])
	ok := (kind == elf.STT_FUNC || kind == elf.STT_GNU_IFUNC) &&
		isDefined(entry) && name < fullTable && size > 0 && size <= math.MaxUint32 && from <= math.MaxUint64-size && im.Executable(from)
	return symbolEntry{from: from, size: uint32(size), name: name}, ok
}

// Len is the number of functions.
func (s *Symbols) Len() int { return len(s.entries) }

// maxOverlap is how many symbols may begin within a function, before its end is given up.
const maxOverlap = 64

// At returns the symbols of the innermost function around an address. They are several if that
// function has several names. A symbol that merely precedes the address is none.
func (s *Symbols) At(address uint64) []Symbol {
	after, _ := slices.BinarySearchFunc(s.entries, address, func(e symbolEntry, address uint64) int {
		if e.from <= address {
			return -1
		}
		return 1
	})
	var found []Symbol
	for i := after - 1; i >= 0 && i >= after-maxOverlap; i-- {
		e := s.entries[i]
		if len(found) > 0 && found[0].From != e.from {
			break
		}
		if address-e.from >= uint64(e.size) {
			continue
		}
		if name := s.name(e); name != "" {
			found = append(found, Symbol{Span{e.from, e.from + uint64(e.size)}, name, e.name&fullTable == 0})
		}
	}
	slices.Reverse(found) // exported names first
	return found
}

func (s *Symbols) name(e symbolEntry) string {
	r := s.names[e.name>>31]
	at := int64(e.name &^ fullTable)
	for size := 256; size <= maxSymbolName; size *= 8 {
		b := make([]byte, min(int64(size), max(r.Size()-at, 0)))
		n, _ := r.ReadAt(b, at)
		if name, _, whole := bytes.Cut(b[:n], []byte{0}); whole {
			return string(name)
		}
	}
	return ""
}

// maxNames is the largest string table that Defined reads, in bytes.
const maxNames = 256 << 20

// Defined returns the functions that the file's symbol tables name and of which a caller wants the name: first the
// exported ones.
func (im *Image) Defined(wanted func(name []byte) bool) (found []Symbol, err error) {
	for _, kind := range []elf.SectionType{elf.SHT_DYNSYM, elf.SHT_SYMTAB} {
		s, ok := im.section(kind)
		if !ok {
			continue
		}
		symbols, texts, err := im.tables(s)
		if err != nil {
			return nil, err
		}
		if texts.Size() > maxNames {
			return nil, errors.New("its symbol table is too large")
		}
		names := make([]byte, texts.Size())
		if _, err := io.ReadFull(texts, names); err != nil {
			return nil, err
		}
		for entry, err := range entries(symbols) {
			if err != nil {
				return nil, err
			}
			e, ok := im.function(entry)
			if !ok || elf.ST_TYPE(entry[4]) != elf.STT_FUNC || uint64(e.name) >= uint64(len(names)) {
				continue
			}
			name, _, whole := bytes.Cut(names[e.name:min(len(names), int(e.name)+maxSymbolName)], []byte{0})
			if whole && wanted(name) {
				found = append(found, Symbol{Span{e.from, e.from + uint64(e.size)}, string(name), kind == elf.SHT_DYNSYM})
			}
		}
	}
	return found, nil
}
