package perfetto

import "google.golang.org/protobuf/encoding/protowire"

// A TrackEventTemplate holds what many slices or instant events have in common, encoded
// once: the TrackEvent's name, its category and some of its arguments. It serves for all
// tracks of one Writer. The zero template has nothing of these.
type TrackEventTemplate struct{ template }

// Encode replaces the content of the template.
func (t *TrackEventTemplate) Encode(w *Writer, name, category string, args []Arg) {
	b := t.reset(w)
	n := &w.interner
	if id := n.intern(&t.refs, tableEventNames, name); id != 0 {
		b.uint(eventNameID, id)
	} else {
		b.text(eventName, name)
	}
	if id := n.intern(&t.refs, tableCategories, category); id != 0 {
		b.uint(eventCategoryID, id)
	} else {
		b.optional(eventCategory, category)
	}
	for i := range args {
		n.appendArg(&b, &t.refs, eventAnnotation, debugAnnotation, &args[i])
	}
	t.fields = b.b
}

// A GPUCorrelation connects a slice with GPU work, by the ids of the work's render stage
// events. An arrow leads from the slice to each piece of work that it submitted, and to
// the slice from each piece of work that it waited for.
type GPUCorrelation struct {
	Submitted, WaitedFor []uint64
}

// size is the size of the message.
func (c *GPUCorrelation) size() (n int) {
	for _, id := range c.Submitted {
		n += 1 + sizeVarint(id)
	}
	for _, id := range c.WaitedFor {
		n += 1 + sizeVarint(id)
	}
	return n
}

// put stores the field with the message, of a size that is not 0.
func (c *GPUCorrelation) put(b []byte, i, size int) int {
	i += copy(b[i:], correlationTag)
	i = putVarint(b, i, uint64(size))
	for _, id := range c.Submitted {
		b[i] = byte(correlationSubmitted) << 3
		i = putVarint(b, i+1, id)
	}
	for _, id := range c.WaitedFor {
		b[i] = byte(correlationWaitedFor) << 3
		i = putVarint(b, i+1, id)
	}
	return i
}

var correlationTag = protowire.AppendTag(nil, protowire.Number(eventGPUCorrelation), protowire.BytesType)

// Begin opens a slice. submitted is the id of the GPU work that it submitted, 0 for none.
// arg is an argument beside those of the template.
func (t *Track) Begin(ts uint64, e *TrackEventTemplate, submitted uint64, arg UintArg) {
	s := t.sequenceAt(ts, t.beginSequence())
	t.depth++
	var v patchValues
	if submitted != 0 {
		v.set(0, submitted)
	}
	if arg.name != nil {
		v.set(1, arg.value)
	}
	if !e.last.patch(s, arg.name, &v, ts) {
		s.beginPatchable(ts, e, submitted, arg, &v)
	}
}

// beginPatchable encodes the beginning of a slice that the next one may patch.
func (s *bufferedSequence) beginPatchable(ts uint64, e *TrackEventTemplate, submitted uint64, arg UintArg, v *patchValues) {
	c := GPUCorrelation{}
	if submitted != 0 {
		c.Submitted = []uint64{submitted}
	}
	s.trackEvent(ts, typeSliceBegin, e, &c, &eventArgs{last: arg}, v)
}

// BeginWith opens a slice. c is its GPU work, nil for none. args and then arg are arguments
// beside those of the template. [Track.Begin] takes less time.
func (t *Track) BeginWith(ts uint64, e *TrackEventTemplate, c *GPUCorrelation, arg UintArg, args ...Arg) {
	s := t.sequenceAt(ts, t.beginSequence())
	t.depth++
	s.trackEvent(ts, typeSliceBegin, e, c, &eventArgs{s.encodeArgs(debugAnnotation, args), arg}, nil)
}

// Instant writes an event without a duration.
func (t *Track) Instant(ts uint64, e *TrackEventTemplate) {
	s := t.sequenceAt(ts, t.beginSequence())
	s.trackEvent(ts, typeInstant, e, &GPUCorrelation{}, &eventArgs{}, nil)
}

// trackEvent encodes a TrackEvent. What differs from event to event stands at its end,
// which compresses best. Where v is not nil, the packet is saved for patching.
func (s *bufferedSequence) trackEvent(ts, typ uint64, e *TrackEventTemplate, c *GPUCorrelation, a *eventArgs, v *patchValues) {
	s.internTemplate(&e.template, debugAnnotation, a.last.name)
	savable := v != nil && !s.internsData()
	size := 2 + len(e.fields) + a.size(debugAnnotation)
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
	i = a.put(b, i, debugAnnotation)
	packet := s.closePacket(b, i, ts)
	if savable {
		e.save(s, a.last.name, v, packet, &[maxPatched]int{correlationEnd, i})
	}
}
