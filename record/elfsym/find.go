// Package elfsym finds functions in ELF files. Input: a file and the names of functions; output: file
// offsets (Find, Exported). Or input: a file and addresses; output: the function around each address,
// its symbol and its frame (Open). Files may have any size and may be invalid; reading them takes little
// memory.
package elfsym

import (
	"debug/elf"
	"errors"
	"io"
	"iter"
)

// Find returns the file offsets of the functions that an ELF file defines under wanted names.
// It looks among the exported functions, and if none of these is wanted, in the full symbol
// table: there are the functions of a statically linked runtime. A wanted name begins with cu,
// cuda or cupti and a capital, or with __ before that, and is shorter than 64 bytes.
//
// A symbol table can have millions of entries. So Find first reads the string table, to find
// the places of wanted names, and then the symbols that refer to such a place: two passes in
// the order of the file, with a bounded buffer.
func Find(r io.ReaderAt, wanted func(name string) bool) (map[string]uint64, error) {
	f, err := readHeaders(r)
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

// search returns the wanted functions that a symbol table defines.
func (f *file) search(s elf.Section64, wanted func(string) bool) (map[string]uint64, error) {
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

// maxExports is the largest string table that Exported reads whole, in bytes.
const maxExports = 16 << 20

// Exported returns the file offsets of exported functions by name. It accepts any name. It is
// for libraries with few exports, such as libc.
func Exported(r io.ReaderAt, names iter.Seq[string]) (map[string]uint64, error) {
	f, err := readHeaders(r)
	if err != nil {
		return nil, err
	}
	for _, s := range f.sections {
		if elf.SectionType(s.Type) != elf.SHT_DYNSYM {
			continue
		}
		table, texts, err := f.tables(s)
		if err != nil {
			return nil, err
		}
		if texts.Size() > maxExports {
			return nil, errors.New("the symbol table is too large")
		}
		all, err := io.ReadAll(texts)
		if err != nil {
			return nil, err
		}
		return f.defined(table, placesOf(all, names))
	}
	return nil, nil
}
