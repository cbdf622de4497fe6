// Package elfsym finds functions in ELF files. Input: a file and the names of functions; output: file
// offsets (Find, Exported, Beside). Or input: a file and addresses; output: the function around each address,
// its symbol and its frame (Open). Files may have any size and may be invalid; reading them takes little
// memory.
package elfsym

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"slices"
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
		s, ok := f.section(kind)
		if !ok {
			continue
		}
		found, err := f.search(s, wanted)
		if err != nil || len(found) > 0 {
			return found, err
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
	found := map[string]uint64{}
	err = eachEntry(table, names, func(name string, entry []byte) {
		if offset, ok := f.functionOffset(entry); ok {
			found[name] = offset
		}
	})
	return found, err
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
	found := map[string]uint64{}
	err = f.exports(names, func(name string, entry []byte) {
		if offset, ok := f.functionOffset(entry); ok {
			found[name] = offset
		}
	})
	return found, err
}

// Beside returns the file offset of an exported function, and how far behind that function an exported variable lies
// in memory: before it, the distance wraps around. ok is false if the file does not export both.
func Beside(r io.ReaderAt, function, variable string) (offset, distance uint64, ok bool, err error) {
	f, err := readHeaders(r)
	if err != nil {
		return 0, 0, false, err
	}
	var from, to uint64
	var code, data bool
	err = f.exports(slices.Values([]string{function, variable}), func(name string, entry []byte) {
		address := binary.LittleEndian.Uint64(entry[8:])
		if name == variable && isDefined(entry, elf.STT_OBJECT) {
			to, data = address, true
		} else if at, defined := f.functionOffset(entry); name == function && defined {
			from, offset, code = address, at, true
		}
	})
	return offset, to - from, code && data && err == nil, err
}

// exports calls a function for each entry of the table of exported symbols that has one of the names.
func (f *file) exports(names iter.Seq[string], take func(name string, entry []byte)) error {
	s, ok := f.section(elf.SHT_DYNSYM)
	if !ok {
		return nil
	}
	table, texts, err := f.tables(s)
	if err != nil {
		return err
	}
	if texts.Size() > maxExports {
		return errors.New("the symbol table is too large")
	}
	all, err := io.ReadAll(texts)
	if err != nil {
		return err
	}
	return eachEntry(table, placesOf(all, names), take)
}
