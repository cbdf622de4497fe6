package perfetto

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

// Links connect a slice with other events.
//
// Of the slices that wait for work that has not begun, the trace processor remembers the
// latest one and forgets the others. It takes the fields of an end of a slice, too. So
// waitedFor belongs to the end: by then the work has begun.
type Links struct {
	// Submitted are the ids that [Queue.Event] gave the GPU work that the slice submitted:
	// arrows lead to the work.
	Submitted []uint64

	// Flows are ids of arrows that lead from a slice with an id to the next slice with the same id. Of
	// slices of one time the next one is the one that is written later: see [Track.Flush].
	Flows []uint64

	waitedFor []uint64 // ids of GPU work: arrows lead from it
}

// trackEvent writes a TrackEvent of the type given. The fields that differ from event to
// event stand last, which compresses best.
func (s *bufferedSequence) trackEvent(ts, typ uint64, e *TrackEventTemplate, l Links, args []Arg) {
	encoded := s.encodeArgs(debugAnnotation, args)
	s.internTemplate(&e.template)
	b := s.begin()
	event := b.open(packetTrackEvent)
	b.uint(eventType, typ)
	b.b = append(b.b, e.fields...)
	if len(l.Submitted) > 0 || len(l.waitedFor) > 0 {
		correlation := b.open(eventGPUCorrelation)
		for _, id := range l.Submitted {
			b.uint(correlationSubmitted, id)
		}
		for _, id := range l.waitedFor {
			b.uint(correlationWaitedFor, id)
		}
		b.close(correlation)
	}
	for _, id := range l.Flows {
		b.fixed(eventFlowID, id)
	}
	b.b = append(b.b, encoded...)
	b.close(event)
	s.endAt(ts)
}
