// Package elfsym finds functions in ELF files. Input: a file and the names of functions; output: file
// offsets (Find, Exported, Beside). Or input: a file and addresses; output: the function around each address,
// its symbol and its frame (Open). Files may have any size and may be invalid; reading them takes little
// memory.
package elfsym

import (
	"debug/elf"
	"encoding/binary"
	"io"
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
	names, err := f.findNames(texts, wanted)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	found := map[string]uint64{}
	for entry, err := range entries(table) {
		if err != nil {
			return nil, err
		}
		name, ok := names[binary.LittleEndian.Uint32(entry)]
		if !ok || elf.ST_TYPE(entry[4]) != elf.STT_FUNC || !isDefined(entry) {
			continue
		}
		if offset, ok := f.Offset(binary.LittleEndian.Uint64(entry[8:])); ok {
			found[name] = offset
		}
	}
	return found, nil
}

// Exported returns the file offsets of exported functions by name. It accepts any name.
func Exported(r io.ReaderAt, names ...string) (map[string]uint64, error) {
	im, err := Open(r)
	if err != nil {
		return nil, err
	}
	symbols, err := im.Exports(names...)
	found := map[string]uint64{}
	for name, s := range symbols {
		if offset, ok := im.Offset(s.From); ok {
			found[name] = offset
		}
	}
	return found, err
}

// Beside returns the file offset of an exported function, and how far behind that function an exported variable lies
// in memory: before it, the distance wraps around. ok is false if the file does not export both.
func Beside(r io.ReaderAt, function, variable string) (offset, distance uint64, ok bool, err error) {
	im, err := Open(r)
	if err != nil {
		return 0, 0, false, err
	}
	found, err := im.Exports(function, variable)
	from, defined := found[function]
	to, known := found[variable]
	offset, ok = im.Offset(from.From)
	return offset, to.From - from.From, ok && defined && known && err == nil, err
}
