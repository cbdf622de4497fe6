package perfetto

// The events of a track are written in three places: slices that lie in no other begin in
// one, slices within others in the second, and all end in the third. Each place is a
// packet sequence of its own with its own memory, and goes out in large pieces. Packets of
// one sort that follow each other compress to little more than what differs between
// them. The trace processor puts events in the order of time, and events of one time
// in the order of the file: so nothing that follows at the same time may overtake, and
// what is held goes out first.
const (
	laneOuter = iota
	laneInner
	laneEnds
	lanes
)

const (
	// laneBytes is the size at which a place goes out.
	laneBytes = 256 << 10

	// heldBytes bounds what the places of all tracks hold together.
	heldBytes = 24 << 20
)

// A Track shows slices that contain one another, and instant events. Slices that
// overlap otherwise would come out with exchanged durations: the caller takes
// care that each ends before the one around it.
type Track struct {
	w     *Writer
	uuid  uint64
	depth int    // of the slice that begins next
	last  uint64 // time of the latest event
	lanes [lanes]*lane
}

// A lane is a sequence that is held in memory.
type lane struct {
	sequence
	held buffer
}

func (w *Writer) newTrack() *Track {
	t := &Track{w: w, uuid: w.uuid()}
	w.tracks = append(w.tracks, t)
	return t
}

// at returns the lane for an event at a time.
func (t *Track) at(ts uint64, which int) *lane {
	if ts <= t.last {
		t.flush()
	}
	t.last = ts
	l := t.lanes[which]
	if l == nil {
		l = &lane{}
		l.sequence = t.w.newSequence(t.uuid)
		l.out = &l.held
		t.lanes[which] = l
	}
	return l
}

// within is the lane of what begins now.
func (t *Track) within() int {
	if t.depth == 0 {
		return laneOuter
	}
	return laneInner
}

// wrote takes note of an event on a lane that held so many bytes before.
func (t *Track) wrote(l *lane, before int) {
	w := t.w
	w.held += len(l.held.b) - before
	switch {
	case len(l.held.b) >= laneBytes || w.closed:
		l.flush()
	case w.held > heldBytes:
		w.flushTracks()
	}
}

func (t *Track) flush() {
	for _, l := range t.lanes {
		if l != nil && len(l.held.b) > 0 {
			l.flush()
		}
	}
}

func (l *lane) flush() {
	w := l.w
	w.held -= len(l.held.b)
	if len(w.out.b) > 0 {
		w.flush()
	}
	w.write(l.held.b)
	l.held.b = l.held.b[:0]
}

func (w *Writer) flushTracks() {
	for _, t := range w.tracks {
		t.flush()
		for _, l := range t.lanes {
			if l != nil {
				l.held.b = nil // a track may not be used again
			}
		}
	}
}
