package perfetto

import "google.golang.org/protobuf/encoding/protowire"

// A TrackEventTemplate holds the fields of a TrackEvent that many slices or instant events
// share: the name, the category and arguments. It serves for all tracks of one Writer. The
// zero template has none of these fields.
type TrackEventTemplate struct{ template }

// Encode replaces the content of the template.
func (t *TrackEventTemplate) Encode(w *Writer, name, category string, args []Arg) {
	b := t.reset(w)
	n := &w.interner
	if id := n.number(&t.refs, tableEventNames, name); id != 0 {
		b.uint(eventNameID, id)
	} else {
		b.text(eventName, name)
	}
	if id := n.number(&t.refs, tableCategories, category); id != 0 {
		b.uint(eventCategoryID, id)
	} else {
		b.optional(eventCategory, category)
	}
	for i := range args {
		n.appendArg(&b, &t.refs, eventAnnotation, debugAnnotation, &args[i])
	}
	t.fields = b.b
}

// A gpuCorrelation connects a slice with GPU work, by the ids that [Queue.Event] gave the
// work. Arrows lead from the slice to the work that it submitted, and to the slice from the
// work that it waited for.
//
// Of the slices that wait for work that has not begun, the trace processor remembers the
// latest one and forgets the others. It takes the fields of an end of a slice, too. So
// waitedFor belongs to the end: by then the work has begun.
type gpuCorrelation struct {
	submitted, waitedFor []uint64
}

// size is the size of the message.
func (c *gpuCorrelation) size() (n int) {
	for _, id := range c.submitted {
		n += 1 + sizeVarint(id)
	}
	for _, id := range c.waitedFor {
		n += 1 + sizeVarint(id)
	}
	return n
}

// put stores the field with the message, of a size other than 0, at b[i:] and returns the
// offset behind it.
func (c *gpuCorrelation) put(b []byte, i, size int) int {
	i += copy(b[i:], correlationTag)
	i = putVarint(b, i, uint64(size))
	for _, id := range c.submitted {
		b[i] = byte(correlationSubmitted) << 3
		i = putVarint(b, i+1, id)
	}
	for _, id := range c.waitedFor {
		b[i] = byte(correlationWaitedFor) << 3
		i = putVarint(b, i+1, id)
	}
	return i
}

var correlationTag = protowire.AppendTag(nil, protowire.Number(eventGPUCorrelation), protowire.BytesType)

// encodeBegin encodes the beginning of a slice. v has the values that a patch overwrites.
func (s *bufferedSequence) encodeBegin(ts uint64, e *TrackEventTemplate, submitted uint64, last UintArgs,
	v *patchValues) {
	var c gpuCorrelation
	if submitted != 0 {
		c.submitted = []uint64{submitted}
	}
	s.trackEvent(ts, typeSliceBegin, e, &c, &eventArgs{last: last}, v)
}

// trackEvent encodes a TrackEvent of the type given. The fields that differ from event to
// event stand last, which compresses best. The packet is saved for patching unless v is nil.
func (s *bufferedSequence) trackEvent(ts, typ uint64, e *TrackEventTemplate, c *gpuCorrelation, a *eventArgs,
	v *patchValues) {
	a.internLast(&s.sequence, debugAnnotation)
	s.internTemplate(e.id, e.refs)
	if s.internsData() {
		v = nil
	}
	size := 2 + len(e.fields) + a.size()
	correlation := c.size()
	if correlation > 0 {
		size += len(correlationTag) + sizeVarint(uint64(correlation)) + correlation
	}
	b, i := s.openPacket(ts, size)
	b[i], b[i+1] = byte(eventType)<<3, byte(typ)
	i += 2 + copy(b[i+2:], e.fields)
	if correlation > 0 {
		i = c.put(b, i, correlation)
	}
	correlationEnd := i
	i, argEnds := a.put(b, i)
	packet := s.closePacket(b, i, ts)
	if v != nil {
		e.save(s, &a.last, v, packet, &[maxPatched]int{correlationEnd, argEnds[0], argEnds[1]})
	}
}
