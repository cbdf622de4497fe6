package perfetto

// A sequence is a packet sequence: packets that share interned data, defaults
// and a clock of their own, in which each packet's timestamp is the distance to
// the packet before it.
type sequence struct {
	w          *Writer
	id         uint64
	last       uint64 // time of the latest packet with a timestamp
	names      internTable
	categories internTable
	argNames   internTable
	strings    internTable
}

// newSequence starts a sequence. Its events belong to the track with this UUID
// unless that is 0.
func (w *Writer) newSequence(track uint64, argNames field) sequence {
	w.sequences++
	s := sequence{
		w: w, id: w.sequences, last: w.start,
		names:      internTable{field: internedEventName, longest: longestName},
		categories: internTable{field: internedCategory, longest: longestName},
		argNames:   internTable{field: argNames, longest: longestName},
		strings:    internTable{field: internedString, longest: longestValue},
	}
	b := s.begin()
	b.uint(packetSequenceFlags, incrementalStateCleared)
	snapshot := b.open(packetClockSnapshot)
	b.clock(clockSequence, w.start, true)
	b.clock(clockMonotonic, w.start, false)
	b.close(snapshot)
	defaults := b.open(packetDefaults)
	b.uint(defaultsClockID, clockSequence)
	if track != 0 {
		event := b.open(defaultsTrackEvent)
		b.uint(trackDefaultsUUID, track)
		b.close(event)
	}
	b.close(defaults)
	s.end()
	return s
}

// clock appends one clock of a ClockSnapshot.
func (b *buffer) clock(id, ts uint64, incremental bool) {
	start := b.open(snapshotClock)
	b.uint(clockID, id)
	b.uint(clockTimestamp, ts)
	if incremental {
		b.uint(clockIncremental, 1)
	}
	b.close(start)
}

// begin opens a packet, end closes it.
func (s *sequence) begin() *buffer {
	w := s.w
	w.packet = w.out.open(tracePacket)
	w.out.uint(packetSequenceID, s.id)
	return &w.out
}

// at opens a packet of time ts. A time before the packet's predecessor is right
// too; its distance takes the ten bytes of a negative number.
func (s *sequence) at(ts uint64) *buffer {
	b := s.begin()
	b.uint(packetTimestamp, ts-s.last)
	s.last = ts
	return b
}

func (s *sequence) end() {
	w := s.w
	if len(w.interned.b) > 0 {
		w.out.bytes(packetInternedData, w.interned.b)
		w.interned.b = w.interned.b[:0]
	}
	w.out.close(w.packet)
	if len(w.out.b) >= flushBytes || w.closed {
		w.flush()
	}
}
