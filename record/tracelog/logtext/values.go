package logtext

import (
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// appendText appends a text: as it is where it can stand without quotes, else quoted as
// in Go.
func appendText(dst []byte, s string) []byte {
	if isBare(s) {
		return append(dst, s...)
	}
	return strconv.AppendQuote(dst, s)
}

// isBare reports whether a text can stand without quotes.
func isBare(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7F || c == '"' || c == '\\' || c == '`' {
			return false
		}
	}
	return s != ""
}

// appendNumber appends a value of a numeric type.
func appendNumber(dst []byte, t schema.Type, v uint64) []byte {
	switch t {
	case schema.Int:
		return strconv.AppendInt(dst, columns.Unzigzag(v), 10)
	case schema.Hex:
		return appendHex(dst, v)
	}
	return strconv.AppendUint(dst, v, 10)
}

func appendHex(dst []byte, v uint64) []byte {
	return strconv.AppendUint(append(dst, "0x"...), v, 16)
}

// An argType says how the text form shows an argument of a call.
type argType uint8

const (
	argHex argType = iota // pointers, handles, and types that are not known
	argUnsigned
	argInt32
	argInt64
)

var argTypes = map[string]argType{
	"ptr": argHex, "handle": argHex, "flags": argHex,
	"u8": argUnsigned, "u16": argUnsigned, "u32": argUnsigned, "u64": argUnsigned,
	"size": argUnsigned, "enum": argUnsigned, "bool": argUnsigned,
	"i32": argInt32, "int": argInt32, "i64": argInt64,
}

// An argument is one entry of Function.Args.
type argument struct {
	name   string
	typ    argType
	handle bool
}

// parseArgs reads Function.Args. An argument whose name cannot stand in a line gets the
// name of one without a name.
func parseArgs(args string) []argument {
	var list []argument
	for _, entry := range strings.Fields(args) {
		name, typ, _ := strings.Cut(entry, ":")
		if !isBare(name) || strings.Contains(name, "=") {
			name = "arg" + strconv.Itoa(len(list))
		}
		if list = append(list, argument{name, argTypes[typ], typ == "handle"}); len(list) == tracelog.MaxArgs {
			break
		}
	}
	return list
}

// appendArg appends the value of an argument. A value that is too large for the type,
// because a register is wider than the argument, is hexadecimal.
func appendArg(dst []byte, t argType, v uint64) []byte {
	switch {
	case t == argUnsigned:
		return strconv.AppendUint(dst, v, 10)
	case t == argInt32 && v>>32 == 0:
		return strconv.AppendInt(dst, int64(int32(v)), 10)
	case t == argInt64:
		return strconv.AppendInt(dst, int64(v), 10)
	}
	return appendHex(dst, v)
}

// parseArg is the inverse of appendArg.
func parseArg(t argType, s string) (uint64, error) {
	if !strings.HasPrefix(s, "-") {
		return strconv.ParseUint(s, 0, 64)
	}
	if t == argInt32 {
		v, err := strconv.ParseInt(s, 0, 32)
		return uint64(uint32(int32(v))), err
	}
	v, err := strconv.ParseInt(s, 0, 64)
	return uint64(v), err
}
