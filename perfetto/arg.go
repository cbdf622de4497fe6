package perfetto

import (
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
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

// An ArgName is the name of an unsigned argument whose value differs from event to event.
// It is encoded once.
type ArgName struct {
	args [len(argMessages)]uintPrefix
}

// ArgName returns the name of an argument. It is an error when there is no room for the
// name, because the trace has 65,536 names or the name is empty.
func (w *Writer) ArgName(name string) *ArgName {
	n := new(ArgName)
	for i := range argMessages {
		m := &argMessages[i]
		id := w.interner.tables[m.names].id(name)
		if id == 0 {
			w.output.fail(fmt.Errorf("perfetto: no room for the name %q", name))
			return nil
		}
		n.args[i] = newUintPrefix(m, id)
	}
	return n
}

// Value returns the argument with a value.
func (n *ArgName) Value(v uint64) UintArg { return UintArg{n, v} }

// A UintArg is an argument with an [ArgName]. The zero UintArg is none.
type UintArg struct {
	name  *ArgName
	value uint64
}

// UintArgs are up to two arguments, the first ones in front.
type UintArgs [2]UintArg

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

// A uintPrefix is an unsigned argument of an event, encoded up to its value.
type uintPrefix struct {
	tag    byte      // of the field that holds the argument
	fields fragment  // of the argument, up to its value
	ref    stringRef // the name
}

func newUintPrefix(m *argMessage, name uint32) uintPrefix {
	var b buffer
	b.uint(m.nameID, uint64(name))
	b.tag(m.uint, protowire.VarintType)
	return uintPrefix{byte(m.event)<<3 | byte(protowire.BytesType), newFragment(b.b), stringRef{m.names, name}}
}

// size is the size of the argument with value v.
func (u *uintPrefix) size(v uint64) int { return 2 + u.fields.size + sizeVarint(v) }

// put stores the argument with value v at b[i:] and returns the offset behind it.
func (u *uintPrefix) put(b []byte, i int, v uint64) int {
	b[i], b[i+1] = u.tag, byte(u.fields.size+sizeVarint(v))
	return putVarint(b, u.fields.put(b, i+2), v)
}

// eventArgs are the arguments of one event in addition to those of its template.
type eventArgs struct {
	encoded  []byte
	last     UintArgs                     // come after the encoded ones
	prefixes [len(UintArgs{})]*uintPrefix // of the last ones, set by internLast; nil without
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

// internLast interns the names of the last arguments. message describes the message that holds
// them.
func (a *eventArgs) internLast(s *sequence, message argMessageID) {
	for i := range a.last {
		if a.last[i].name == nil {
			continue
		}
		a.prefixes[i] = &a.last[i].name.args[message]
		if r := a.prefixes[i].ref; !s.interned[r.table].has(r.id) {
			s.intern(r)
		}
	}
}

// size is the size of the arguments.
func (a *eventArgs) size() int {
	n := len(a.encoded)
	for i, p := range &a.prefixes {
		if p != nil {
			n += p.size(a.last[i].value)
		}
	}
	return n
}

// put stores the arguments at b[i:] and returns the offset behind them, and the offset behind
// each of the last ones.
func (a *eventArgs) put(b []byte, i int) (end int, ends [len(UintArgs{})]int) {
	i += copy(b[i:], a.encoded)
	for k, p := range &a.prefixes {
		if p != nil {
			i = p.put(b, i, a.last[k].value)
		}
		ends[k] = i
	}
	return i, ends
}
