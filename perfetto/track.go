package perfetto

// A track writes to three packet sequences. Slices that lie in no other slice begin in one,
// slices inside others begin in the second, and all slices end in the third: packets of one
// kind compress best.
//
// The trace processor sorts the events of all sequences by time, and events of one time by
// their place in the file. So where two events of a track have one time, the first one must
// go out before the second one is buffered.
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

// beginSequence is the sequence of an event that begins now.
func (t *Track) beginSequence() int {
	if t.depth == 0 {
		return outerSlices
	}
	return innerSlices
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
