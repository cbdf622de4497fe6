package logtext

import (
	"strconv"
	"strings"
)

// functions are the functions of a log as far as they are known: the names of their
// arguments, and which id a name stands for.
type functions struct {
	byID   map[uint64]function
	byName map[string]uint64 // the first id with that name
}

type function struct {
	name string
	args []argument
}

func newFunctions() functions {
	return functions{make(map[uint64]function), make(map[string]uint64)}
}

// add notes a function. A later one with the same id takes its place.
func (f *functions) add(id uint64, name, args string) {
	f.byID[id] = function{name, parseArgs(args)}
	if _, taken := f.byName[name]; !taken {
		f.byName[name] = id
	}
}

// appendRef appends what a call names its function by: the name, where that says
// which id is meant, and name#id or #id elsewhere.
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
