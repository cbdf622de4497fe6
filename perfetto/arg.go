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
	argRepeated
)

// An Arg is a named value of an event or a kernel: a DebugAnnotation of a TrackEvent, or
// an ExtraComputeArg of a GpuRenderStageEvent or an InternedComputeKernel.
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

// Repeated is text that many events share: it stands in the trace once, whatever its length.
// Invalid UTF-8 and NUL are replaced.
func Repeated(name, v string) Arg { return Arg{name: name, kind: argRepeated, text: v} }

// An argMessage describes one of the two messages that hold an argument of an event.
type argMessage struct {
	event            field   // the field of the event that holds the message
	names            tableID // the table that its names are interned in
	nameID, name     field
	uint, int        field
	double           field
	string, stringID field
	pointer          field // 0: a pointer is written as a string
}

// An argMessageID is an index in argMessages.
type argMessageID uint8

const (
	debugAnnotation argMessageID = iota
	extraComputeArg
)

var argMessages = [...]argMessage{
	debugAnnotation: {
		event: eventAnnotation, names: tableAnnotationNames, nameID: annotationNameID, name: annotationName,
		uint: annotationUint, int: annotationInt, double: annotationDouble,
		string: annotationString, stringID: annotationStringID, pointer: annotationPointer,
	},
	extraComputeArg: {
		event: launchArg, names: tableComputeArgNames, nameID: computeArgNameID, name: computeArgName,
		uint: computeArgUint, int: computeArgInt, double: computeArgDouble,
		string: computeArgString, stringID: computeArgStringID,
	},
}

// appendArg appends a as a message in field f and adds its interned strings to refs.
func (n *interner) appendArg(b *buffer, refs *[]stringRef, f field, message argMessageID, a *Arg) {
	m := &argMessages[message]
	start := b.open(f)
	if id := n.number(refs, m.names, a.name); id != 0 {
		b.uint(m.nameID, id)
	} else {
		b.text(m.name, a.name)
	}
	switch a.kind {
	case argUint:
		b.uint(m.uint, a.bits)
	case argInt:
		b.uint(m.int, a.bits)
	case argPointer:
		if m.pointer != 0 {
			b.uint(m.pointer, a.bits)
		} else {
			b.text(m.string, "0x"+strconv.FormatUint(a.bits, 16))
		}
	case argFloat:
		b.fixed(m.double, a.bits)
	case argString, argRepeated:
		id := uint64(0)
		if len(a.text) <= longestValue || a.kind == argRepeated {
			id = n.number(refs, tableStrings, a.text)
		}
		if id != 0 {
			b.uint(m.stringID, id)
		} else {
			b.text(m.string, a.text)
		}
	}
	b.close(start)
}

// encodeArgs encodes arguments of one event and interns their strings. The result is valid
// until the next call.
func (s *sequence) encodeArgs(message argMessageID, args []Arg) []byte {
	if len(args) == 0 {
		return nil
	}
	w := s.w
	w.argRefs, w.args.b = w.argRefs[:0], w.args.b[:0]
	for i := range args {
		w.interner.appendArg(&w.args, &w.argRefs, argMessages[message].event, message, &args[i])
	}
	s.internStrings(w.argRefs)
	return w.args.b
}
