package perfetto

import "math"

type argKind uint8

const (
	argUint argKind = iota
	argInt
	argPointer
	argFloat
	argString
)

// An Arg is a named value shown with a slice, an instant event, a piece of GPU
// work or a kernel.
type Arg struct {
	name string
	text string
	bits uint64
	kind argKind
}

// Uint is an unsigned integer.
func Uint(name string, v uint64) Arg { return Arg{name: name, kind: argUint, bits: v} }

// Int is a signed integer.
func Int(name string, v int64) Arg { return Arg{name: name, kind: argInt, bits: uint64(v)} }

// Pointer is an address or a handle, shown in hexadecimal.
func Pointer(name string, v uint64) Arg { return Arg{name: name, kind: argPointer, bits: v} }

// Float is a floating-point number.
func Float(name string, v float64) Arg {
	return Arg{name: name, kind: argFloat, bits: math.Float64bits(v)}
}

// String is text. Invalid UTF-8 and NUL are replaced.
func String(name, v string) Arg { return Arg{name: name, kind: argString, text: v} }

// Name is the name that the value is shown under.
func (a Arg) Name() string { return a.name }
