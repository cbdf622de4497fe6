package perfetto

import (
	"math"
	"strconv"
)

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

// annotate appends a as a DebugAnnotation of a TrackEvent.
func (s *sequence) annotate(b *buffer, a *Arg) {
	start := b.open(eventAnnotation)
	if id := s.argNames.id(&s.w.interned, a.name); id != 0 {
		b.uint(annotationNameID, id)
	} else {
		b.text(annotationName, a.name)
	}
	switch a.kind {
	case argUint:
		b.uint(annotationUint, a.bits)
	case argInt:
		b.uint(annotationInt, a.bits)
	case argPointer:
		b.uint(annotationPointer, a.bits)
	case argFloat:
		b.double(annotationDouble, math.Float64frombits(a.bits))
	case argString:
		if id := s.strings.id(&s.w.interned, a.text); id != 0 {
			b.uint(annotationStringID, id)
		} else {
			b.text(annotationString, a.text)
		}
	}
	b.close(start)
}

// computeArg appends a as an ExtraComputeArg, which has no type for pointers.
func (s *sequence) computeArg(b *buffer, f field, a *Arg) {
	start := b.open(f)
	if id := s.argNames.id(&s.w.interned, a.name); id != 0 {
		b.uint(computeNameID, id)
	} else {
		b.text(computeName, a.name)
	}
	switch a.kind {
	case argUint:
		b.uint(computeUint, a.bits)
	case argInt:
		b.uint(computeInt, a.bits)
	case argPointer:
		b.text(computeString, "0x"+strconv.FormatUint(a.bits, 16))
	case argFloat:
		b.double(computeDouble, math.Float64frombits(a.bits))
	case argString:
		if id := s.strings.id(&s.w.interned, a.text); id != 0 {
			b.uint(computeStringID, id)
		} else {
			b.text(computeString, a.text)
		}
	}
	b.close(start)
}
