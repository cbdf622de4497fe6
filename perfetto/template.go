package perfetto

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Template is what many slices or instant events have in common: a name, a category
// and arguments, encoded once. One Template serves for all tracks of its Writer. The
// zero Template has none of these.
type Template struct {
	body []byte // fields of TrackEvent
	refs []ref  // what they refer to
	id   uint32 // of what it was made from last
}

// Template makes m anew, in the memory that it has.
func (w *Writer) Template(m *Template, name, category string, args []Arg) {
	b := buffer{m.body[:0]}
	m.refs, m.id = m.refs[:0], w.made()
	if id := w.intern(&m.refs, tableNames, name); id != 0 {
		b.uint(eventNameID, id)
	} else {
		b.text(eventName, name)
	}
	if id := w.intern(&m.refs, tableCategories, category); id != 0 {
		b.uint(eventCategoryID, id)
	} else {
		b.optional(eventCategory, category)
	}
	for i := range args {
		w.annotate(&b, &m.refs, &args[i])
	}
	m.body = b.b
}

// made numbers templates and shapes.
func (w *Writer) made() uint32 {
	w.templates++
	return w.templates
}

// intern returns the number of a string, 0 when it has none, and adds it to refs.
func (w *Writer) intern(refs *[]ref, t tableID, s string) uint64 {
	id := w.tables[t].id(s)
	if id != 0 {
		*refs = append(*refs, ref{t, id})
	}
	return uint64(id)
}

// annotate appends a as a DebugAnnotation of a TrackEvent.
func (w *Writer) annotate(b *buffer, refs *[]ref, a *Arg) {
	start := b.open(eventAnnotation)
	if id := w.intern(refs, tableArgNames, a.name); id != 0 {
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
		b.fixed(annotationDouble, a.bits)
	case argString:
		if id := w.intern(refs, tableStrings, a.text); id != 0 {
			b.uint(annotationStringID, id)
		} else {
			b.text(annotationString, a.text)
		}
	}
	b.close(start)
}

// BeginAs opens a slice as Begin does; own are its arguments beside those of m.
func (t *Track) BeginAs(ts uint64, m *Template, work, waits []uint64, own ...Arg) {
	l := t.at(ts, t.within())
	t.depth++
	before := len(l.held.b)
	l.event(ts, typeSliceBegin, m, t.w.own(&l.sequence, own), work, waits)
	l.wrote(before)
}

// InstantAs writes an event without a duration as Instant does.
func (t *Track) InstantAs(ts uint64, m *Template, own ...Arg) {
	l := t.at(ts, t.within())
	before := len(l.held.b)
	l.event(ts, typeInstant, m, t.w.own(&l.sequence, own), nil, nil)
	l.wrote(before)
}

// own encodes arguments of one event.
func (w *Writer) own(s *sequence, args []Arg) []byte {
	if len(args) == 0 {
		return nil
	}
	w.refs, w.varied.b = w.refs[:0], w.varied.b[:0]
	for i := range args {
		w.annotate(&w.varied, &w.refs, &args[i])
	}
	s.refer(w.refs)
	return w.varied.b
}

// BeginWith opens a slice as Begin does, with one argument beside those of m: v is its
// value.
func (t *Track) BeginWith(ts uint64, m *Template, work, waits []uint64, name *ArgName, v uint64) {
	l := t.at(ts, t.within())
	t.depth++
	before := len(l.held.b)
	l.refer(name.refs[:])
	b := append(t.w.varied.b[:0], name.track...)
	b = appendVarint(b, v)
	b[1] = byte(len(b) - 2)
	t.w.varied.b = b
	l.event(ts, typeSliceBegin, m, b, work, waits)
	l.wrote(before)
}

// An ArgName is the name of an argument that has a value of its own in each event, an
// unsigned number.
type ArgName struct {
	track []byte // a DebugAnnotation up to the value
	work  []byte // an ExtraComputeArg up to the value
	refs  [1]ref // of the former
	forms [1]ref // of the latter
}

// ArgName makes the name of an argument. Names are made before anything else is written.
func (w *Writer) ArgName(name string) *ArgName {
	id, form := w.tables[tableArgNames].id(name), w.tables[tableComputeNames].id(name)
	if id == 0 || form == 0 {
		w.fail(fmt.Errorf("perfetto: no room for the name %q", name))
		return &ArgName{track: []byte{0, 0}, work: []byte{0, 0}}
	}
	n := &ArgName{refs: [1]ref{{tableArgNames, id}}, forms: [1]ref{{tableComputeNames, form}}}
	var b buffer
	b.open(eventAnnotation)
	b.uint(annotationNameID, uint64(id))
	b.tag(annotationUint, protowire.VarintType)
	n.track = b.b
	b.b = nil
	b.open(launchArg)
	b.uint(computeNameID, uint64(form))
	b.tag(computeUint, protowire.VarintType)
	n.work = b.b
	return n
}

// event writes a TrackEvent. What differs from event to event stands at the end, which
// compresses best. All lengths are known before the first byte is written.
func (s *sequence) event(ts, typ uint64, m *Template, own []byte, work, waits []uint64) {
	s.template(m.id, m.refs)
	flow := 0
	for _, id := range work {
		flow += 1 + sizeVarint(id)
	}
	for _, id := range waits {
		flow += 1 + sizeVarint(id)
	}
	size := 2 + len(m.body) + len(own)
	if flow > 0 {
		size += len(flowTag) + sizeVarint(uint64(flow)) + flow
	}
	b := s.packet(ts, 1+sizeVarint(uint64(size))+size)
	b = append(b, byte(packetTrackEvent)<<3|byte(protowire.BytesType))
	b = appendVarint(b, uint64(size))
	b = append(b, byte(eventType)<<3, byte(typ))
	b = append(b, m.body...)
	if flow > 0 {
		b = append(b, flowTag...)
		b = appendVarint(b, uint64(flow))
		for _, id := range work {
			b = appendVarint(append(b, byte(correlationWork)<<3), id)
		}
		for _, id := range waits {
			b = appendVarint(append(b, byte(correlationWait)<<3), id)
		}
	}
	s.stamp(append(b, own...), ts)
}

// flowTag is the tag of the field eventGPUCorrelation.
var flowTag = protowire.AppendTag(nil, protowire.Number(eventGPUCorrelation), protowire.BytesType)
