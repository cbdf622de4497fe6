package perfetto

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Template is what many slices or instant events have in common: a name, a category
// and arguments, encoded once. One Template serves for all tracks of its Writer. The
// zero Template has none of these.
type Template struct {
	last image  // in front, as it is all that is looked at mostly
	body []byte // fields of TrackEvent
	refs []ref  // what they refer to
	id   uint32 // of what it was made from last
}

// Template makes m anew, in the memory that it has.
func (w *Writer) Template(m *Template, name, category string, args []Arg) {
	b := buffer{m.body[:0]}
	m.refs, m.id, m.last.lane = m.refs[:0], w.made(), nil
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
	l.event(ts, typeSliceBegin, m, &parts{own: t.w.own(&l.sequence, own), work: work, waits: waits})
}

// InstantAs writes an event without a duration as Instant does.
func (t *Track) InstantAs(ts uint64, m *Template, own ...Arg) {
	l := t.at(ts, t.within())
	l.event(ts, typeInstant, m, &parts{own: t.w.own(&l.sequence, own)})
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
	l.event(ts, typeSliceBegin, m, &parts{name: name, value: v, work: work, waits: waits})
}

// Call opens a slice as Begin does that has one piece of work, 0 for none, and one argument
// beside those of m, unless name is nil: v is its value.
func (t *Track) Call(ts uint64, m *Template, work uint64, name *ArgName, v uint64) {
	l := t.at(ts, t.within())
	t.depth++
	var n numbers
	if work != 0 {
		n.set(0, work)
	}
	if name != nil {
		n.set(1, v)
	}
	if !m.last.again(l, name, &n, ts) {
		l.call(ts, m, work, name, v, &n)
	}
}

// call writes a slice that there is no image of.
func (l *lane) call(ts uint64, m *Template, work uint64, name *ArgName, v uint64, n *numbers) {
	p := parts{name: name, value: v}
	if work != 0 {
		p.work = []uint64{work}
	}
	timed := sizeVarint(ts - l.last)
	size, again := l.event(ts, typeSliceBegin, m, &p)
	if !again {
		return
	}
	value := timed + 1 + n[1].size // before the end of the packet
	at := timed + 1 + n[0].size
	if name != nil {
		at += name.track.size(v)
	}
	m.last.keep(l, name, n, size, timed, [maxNumbers]int{at, value})
}

// An ArgName is the name of an argument that has a value of its own in each event, an
// unsigned number.
type ArgName struct {
	track argument // a DebugAnnotation
	work  argument // an ExtraComputeArg
	refs  [1]ref   // of the former
	forms [1]ref   // of the latter
}

// ArgName makes the name of an argument. Names are made before anything else is written.
func (w *Writer) ArgName(name string) *ArgName {
	id, form := w.tables[tableArgNames].id(name), w.tables[tableComputeNames].id(name)
	if id == 0 || form == 0 {
		w.fail(fmt.Errorf("perfetto: no room for the name %q", name))
		return &ArgName{}
	}
	n := &ArgName{refs: [1]ref{{tableArgNames, id}}, forms: [1]ref{{tableComputeNames, form}}}
	n.track = newArgument(eventAnnotation, annotationNameID, annotationUint, id)
	n.work = newArgument(launchArg, computeNameID, computeUint, form)
	return n
}

// An argument is what stands before the value of an argument.
type argument struct {
	outer  byte  // tag of the argument
	before short // its fields up to the value
}

func newArgument(outer, name, value field, id uint32) argument {
	var b buffer
	b.uint(name, uint64(id))
	b.tag(value, protowire.VarintType)
	return argument{byte(outer)<<3 | byte(protowire.BytesType), newShort(b.b)}
}

// size is that of the argument with a value.
func (a *argument) size(v uint64) int { return 2 + a.before.n + sizeVarint(v) }

func (a *argument) put(b []byte, i int, v uint64) int {
	b[i], b[i+1] = a.outer, byte(a.before.n+sizeVarint(v))
	return putVarint(b, a.before.put(b, i+2), v)
}

// parts are what an event has beside what is in its template.
type parts struct {
	work, waits []uint64 // ids of GPU work
	own         []byte   // arguments, encoded
	name        *ArgName // of one more argument, nil for none
	value       uint64   // of that one
}

// flow is the size of the content of the field eventGPUCorrelation.
func (p *parts) flow() (n int) {
	for _, id := range p.work {
		n += 1 + sizeVarint(id)
	}
	for _, id := range p.waits {
		n += 1 + sizeVarint(id)
	}
	return n
}

// event writes a TrackEvent. What differs from event to event stands at the end, which
// compresses best. All lengths are known before the first byte is written. It returns the
// size of the packet, and whether a packet like it needs no more than this one has.
func (l *lane) event(ts, typ uint64, m *Template, p *parts) (packet int, again bool) {
	if p.name != nil {
		l.refer(p.name.refs[:])
	}
	l.template(m.id, m.refs)
	again = len(l.w.interned.b) == 0
	size := 2 + len(m.body) + len(p.own)
	flow := p.flow()
	if flow > 0 {
		size += len(flowTag) + sizeVarint(uint64(flow)) + flow
	}
	if p.name != nil {
		size += p.name.track.size(p.value)
	}
	b, i := l.eventPacket(ts, size)
	b[i], b[i+1] = byte(eventType)<<3, byte(typ)
	i += 2 + copy(b[i+2:], m.body)
	if flow > 0 {
		i = p.putFlow(b, i, flow)
	}
	i += copy(b[i:], p.own)
	if p.name != nil {
		i = p.name.track.put(b, i, p.value)
	}
	return l.stamp(b, i, ts), again
}

// eventPacket opens the packet of a TrackEvent that has size bytes, as packet does.
func (l *lane) eventPacket(ts uint64, size int) ([]byte, int) {
	all := l.opening.n + sizeVarint(uint64(size)) + size + 1 + sizeVarint(ts-l.last)
	if len(l.w.interned.b) > 0 || all >= 1<<14 {
		b, i := l.packet(ts, 1+sizeVarint(uint64(size))+size)
		b[i] = eventTag[0]
		return b, putVarint(b, i+1, uint64(size))
	}
	b := l.room(all + 3)
	b[0] = byte(tracePacket)<<3 | byte(protowire.BytesType)
	i := l.opening.put(b, putVarint(b, 1, uint64(all)))
	return b, putVarint(b, i, uint64(size))
}

func (p *parts) putFlow(b []byte, i, size int) int {
	i += copy(b[i:], flowTag)
	i = putVarint(b, i, uint64(size))
	for _, id := range p.work {
		b[i] = byte(correlationWork) << 3
		i = putVarint(b, i+1, id)
	}
	for _, id := range p.waits {
		b[i] = byte(correlationWait) << 3
		i = putVarint(b, i+1, id)
	}
	return i
}

// Tags of the fields packetTrackEvent and eventGPUCorrelation.
var (
	eventTag = protowire.AppendTag(nil, protowire.Number(packetTrackEvent), protowire.BytesType)
	flowTag  = protowire.AppendTag(nil, protowire.Number(eventGPUCorrelation), protowire.BytesType)
)
