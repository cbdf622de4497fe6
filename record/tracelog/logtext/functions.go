package logtext

import (
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// functions are the functions of a log that are known so far: their names and arguments by
// id, and their ids by name.
type functions struct {
	byID   map[uint64]function
	byName map[string]uint64 // the first id with that name
}

type function struct {
	name    string
	library string
	args    []argument
}

func newFunctions() functions {
	return functions{make(map[uint64]function), make(map[string]uint64)}
}

// define notes a function. A later one with the same id takes its place.
func (f *functions) define(id uint64, name, library, args string) {
	f.byID[id] = function{name, library, parseArgs(args)}
	if _, taken := f.byName[name]; !taken {
		f.byName[name] = id
	}
}

// addBlock notes the functions of a block.
func (f *functions) addBlock(b *tracelog.Block) {
	for i := range b.N {
		f.addRow(b, i)
	}
}

// addRow notes a function of a block.
func (f *functions) addRow(b *tracelog.Block, i int) {
	id, name, library, args := b.Column("id"), b.Column("name"), b.Column("library"), b.Column("args")
	f.define(id.At(i), b.Text(name.At(i)), b.Text(library.At(i)), b.Text(args.At(i)))
}

// appendRef appends the name of a call's function. Where the name alone could stand for
// another id it is name#id, and #id where the name cannot stand in a line.
func (f *functions) appendRef(dst []byte, id uint64) []byte {
	fn, known := f.byID[id]
	if known && isBare(fn.name) && !strings.ContainsAny(fn.name, "#=") {
		dst = append(dst, fn.name...)
		if f.byName[fn.name] == id {
			return dst
		}
	}
	return strconv.AppendUint(append(dst, '#'), id, 10)
}

// parseRef is the inverse of appendRef.
func (f *functions) parseRef(s string) (uint64, bool) {
	name, number, hasNumber := strings.Cut(s, "#")
	if hasNumber {
		id, err := strconv.ParseUint(number, 10, 64)
		return id, err == nil
	}
	id, ok := f.byName[name]
	return id, ok
}
