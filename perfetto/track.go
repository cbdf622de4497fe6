package perfetto

// A track has three packet sequences: for the beginnings of slices that lie in no other
// slice, for the beginnings of slices inside others, and for the ends of all slices.
// Packets of one kind compress best.
//
// The trace processor sorts events by time, and events of one time by their place in the
// file. So where an event has the time of the event before it, the buffered packets of the
// track are written first.
const (
	outerSlices = iota
	innerSlices
	sliceEnds
	trackSequences
)

// A Track shows slices that contain one another, and instant events. The caller makes sure
// that each slice ends before the slice around it. Otherwise the trace shows the two with
// their durations exchanged.
type Track struct {
	w         *Writer
	uuid      uint64
	depth     int    // of the slice that begins next
	last      uint64 // time of the latest event
	sequences [trackSequences]*bufferedSequence
}

func (w *Writer) newTrack() *Track { return &Track{w: w, uuid: w.newUUID()} }

// Beside returns another writer of the track's slices, for some that nest with the others, but come in an order of
// their own.
func (t *Track) Beside() *Track { return &Track{w: t.w, uuid: t.uuid} }

// Begin opens a slice. submitted is the id of the GPU work that the slice submitted, 0 for
// none. last are arguments beside those of the template.
func (t *Track) Begin(ts uint64, e *TrackEventTemplate, submitted uint64, last UintArgs) {
	s := t.sequenceAt(ts, t.beginSequence())
	t.depth++
	var v patchValues
	if submitted != 0 {
		v.set(0, submitted)
	}
	v.arguments(1, &last)
	if !e.last.patch(s, &last, &v, ts) {
		s.encodeBegin(ts, e, submitted, last, &v)
	}
}

// BeginWith opens a slice that submitted GPU work with these ids, and gives it any arguments
// beside those of the template, last behind the others. [Track.Begin] takes less time.
func (t *Track) BeginWith(ts uint64, e *TrackEventTemplate, submitted []uint64, last UintArgs, args ...Arg) {
	s := t.sequenceAt(ts, t.beginSequence())
	t.depth++
	s.trackEvent(ts, typeSliceBegin, e, &gpuCorrelation{submitted: submitted},
		&eventArgs{encoded: s.encodeArgs(debugAnnotation, args), last: last}, nil)
}

// BeginFlow opens a slice that arrows lead from or to: from a slice with an id to the next slice with the same id. Of
// slices of one time the next one is the one that is written later: see [Track.Flush].
func (t *Track) BeginFlow(ts uint64, e *TrackEventTemplate, ids []uint64, last UintArgs) {
	s := t.sequenceAt(ts, t.beginSequence())
	t.depth++
	b := &t.w.args
	b.b = b.b[:0]
	for _, id := range ids {
		b.fixed(eventFlowID, id)
	}
	s.trackEvent(ts, typeSliceBegin, e, &gpuCorrelation{}, &eventArgs{encoded: b.b, last: last}, nil)
}

// Flush writes the slices so far, before those that other tracks get later.
func (t *Track) Flush() { t.flush() }

// Instant writes an event without a duration.
func (t *Track) Instant(ts uint64, e *TrackEventTemplate) {
	s := t.sequenceAt(ts, t.beginSequence())
	s.trackEvent(ts, typeInstant, e, &gpuCorrelation{}, &eventArgs{}, nil)
}

// End closes the slice that was opened last.
func (t *Track) End(ts uint64) {
	t.depth = max(t.depth-1, 0)
	s := t.sequenceAt(ts, sliceEnds)
	b := s.room(s.sliceEnd.size + maxVarint)
	i := putVarint(b, s.sliceEnd.put(b, 0), ts-s.last)
	b[1] = byte(i - 2) // the packet's length
	s.append(i, ts)
}

// EndWith closes the slice that was opened last. Arrows lead to the slice from the GPU work with
// the ids of waitedFor. args are further arguments of the slice. [Track.End] takes less time.
func (t *Track) EndWith(ts uint64, waitedFor []uint64, args ...Arg) {
	t.depth = max(t.depth-1, 0)
	s := t.sequenceAt(ts, sliceEnds)
	s.trackEvent(ts, typeSliceEnd, &TrackEventTemplate{}, &gpuCorrelation{waitedFor: waitedFor},
		&eventArgs{encoded: s.encodeArgs(debugAnnotation, args)}, nil)
}

// beginSequence is the sequence of an event that begins now.
func (t *Track) beginSequence() int {
	if t.depth == 0 {
		return outerSlices
	}
	return innerSlices
}

// sequenceAt returns a sequence for an event at a time.
func (t *Track) sequenceAt(ts uint64, which int) *bufferedSequence {
	if ts <= t.last {
		t.flush()
	}
	t.last = ts
	if t.sequences[which] == nil {
		t.sequences[which] = t.w.newBufferedSequence(t.uuid, packetTrackEvent)
	}
	return t.sequences[which]
}

func (t *Track) flush() {
	for _, s := range t.sequences {
		if s != nil {
			s.flush()
		}
	}
}
