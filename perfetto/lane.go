package perfetto

import "google.golang.org/protobuf/encoding/protowire"

// The events of a track are written in three places: slices that lie in no other begin in
// one, slices within others in the second, and all end in the third. Each place is a
// packet sequence of its own with its own memory, and goes out in large pieces, as do the
// events of a queue. Packets of one sort that follow each other compress to little more
// than what differs between them. The trace processor puts events in the order of time,
// and events of one time in the order of the file: so nothing that follows at the same time
// may overtake, and what is held goes out first.
const (
	placeOuter = iota
	placeInner
	placeEnds
	places
)

const (
	// laneBytes is the size at which a lane goes out, unless Options say otherwise.
	laneBytes = 1 << 20

	// laneSlack is room behind these, so that nearly no event makes a lane grow.
	laneSlack = 4 << 10

	// heldBytes bounds what all lanes hold together.
	heldBytes = 32 << 20
)

// A lane is a sequence that is held in memory.
type lane struct {
	sequence
	held    buffer
	opening short // of the packet of a TrackEvent: what stands between its length and that of the event
	ending  short // the packet of an end, up to its time
}

// newLane starts a sequence that is held.
func (w *Writer) newLane(track uint64) *lane {
	l := &lane{sequence: w.newSequence(track)}
	l.out = &l.held
	l.opening = newShort(l.header, eventTag)
	l.ending = newShort([]byte{byte(tracePacket)<<3 | byte(protowire.BytesType), 0}, l.header, sliceEnd, []byte{byte(packetTimestamp) << 3})
	w.lanes = append(w.lanes, l)
	return l
}

// wrote takes note of an event, before which so many bytes were held.
func (l *lane) wrote(before int) {
	w := l.w
	w.held += len(l.held.b) - before
	if len(l.held.b) >= w.piece || w.closed || w.held > heldBytes {
		l.full()
	}
}

// full writes what is too much.
func (l *lane) full() {
	if l.w.held > heldBytes {
		l.w.flushLanes()
	} else {
		l.flush()
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

// flushLanes writes what all lanes hold and gives their memory back: some may not be used
// again.
func (w *Writer) flushLanes() {
	for _, l := range w.lanes {
		if len(l.held.b) > 0 {
			l.flush()
		}
		l.held.b = nil
	}
}

// A Track shows slices that contain one another, and instant events. Slices that
// overlap otherwise would come out with exchanged durations: the caller takes
// care that each ends before the one around it.
type Track struct {
	w     *Writer
	uuid  uint64
	depth int    // of the slice that begins next
	last  uint64 // time of the latest event
	lanes [places]*lane
}

func (w *Writer) newTrack() *Track { return &Track{w: w, uuid: w.uuid()} }

// at returns the lane for an event at a time.
func (t *Track) at(ts uint64, which int) *lane {
	if ts <= t.last {
		t.flush()
	}
	t.last = ts
	if t.lanes[which] == nil {
		t.lanes[which] = t.w.newLane(t.uuid)
	}
	return t.lanes[which]
}

// within is the place of what begins now.
func (t *Track) within() int {
	if t.depth == 0 {
		return placeOuter
	}
	return placeInner
}

func (t *Track) flush() {
	for _, l := range t.lanes {
		if l != nil && len(l.held.b) > 0 {
			l.flush()
		}
	}
}
