package perfetto

import "google.golang.org/protobuf/encoding/protowire"

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

// Begin opens a slice. args are arguments beside those of the template.
func (t *Track) Begin(ts uint64, e *TrackEventTemplate, l Links, args ...Arg) {
	s := t.sequenceAt(ts, t.beginSequence())
	t.depth++
	s.trackEvent(ts, typeSliceBegin, e, l, args)
}

// Flush writes the slices so far, before those that other tracks get later.
func (t *Track) Flush() { t.flush() }

// Instant writes an event without a duration.
func (t *Track) Instant(ts uint64, e *TrackEventTemplate) {
	t.sequenceAt(ts, t.beginSequence()).trackEvent(ts, typeInstant, e, Links{}, nil)
}

// End closes the slice that was opened last.
func (t *Track) End(ts uint64) {
	t.depth = max(t.depth-1, 0)
	s := t.sequenceAt(ts, sliceEnds)
	b := s.begin()
	b.b = append(b.b, sliceEndEvent...)
	s.endAt(ts)
}

// sliceEndEvent is the field with the TrackEvent that ends a slice.
var sliceEndEvent = []byte{byte(packetTrackEvent)<<3 | byte(protowire.BytesType), 2, byte(eventType) << 3, typeSliceEnd}

// EndWith closes the slice that was opened last. Arrows lead to the slice from the GPU work with
// the ids of waitedFor. args are further arguments of the slice. [Track.End] takes less time.
func (t *Track) EndWith(ts uint64, waitedFor []uint64, args ...Arg) {
	t.depth = max(t.depth-1, 0)
	t.sequenceAt(ts, sliceEnds).trackEvent(ts, typeSliceEnd, &TrackEventTemplate{}, Links{waitedFor: waitedFor}, args)
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
		t.sequences[which] = t.w.newBufferedSequence(t.uuid)
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
