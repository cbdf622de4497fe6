package perfetto

// A sequence is a packet sequence: packets that share interned data, defaults and a clock
// of their own. The timestamp of a packet is its distance from the previous packet with a
// timestamp.
type sequence struct {
	w         *Writer
	packets   *buffer                 // its packets go here
	opening   []byte                  // the beginning of each packet, with the field trusted_packet_sequence_id
	body      int                     // offset in packets of the open packet's fields
	last      uint64                  // time of the latest packet with a timestamp
	interned  [tables]bitset          // numbers of the interned strings
	templates [recentTemplates]uint32 // ids of templates whose strings are interned
}

// newSequence starts a sequence: it clears the incremental state and sets the clock and the
// defaults. The events of the sequence belong to the track with a UUID, or to none for 0.
func (w *Writer) newSequence(track uint64) sequence {
	return w.newSequenceWith(func(defaults *buffer) {
		if track != 0 {
			event := defaults.open(defaultsTrackEvent)
			defaults.uint(eventDefaultsTrackUUID, track)
			defaults.close(event)
		}
	})
}

// newSequenceWith starts a sequence with further defaults.
func (w *Writer) newSequenceWith(more func(defaults *buffer)) sequence {
	s := w.newBareSequence()
	b := s.begin()
	b.uint(packetSequenceFlags, incrementalStateCleared)
	snapshot := b.open(packetClockSnapshot)
	b.clock(clockSequence, w.start, true)
	b.clock(clockMonotonic, w.start, false)
	b.close(snapshot)
	defaults := b.open(packetDefaults)
	b.uint(defaultsClockID, clockSequence)
	more(b)
	b.close(defaults)
	s.end()
	return s
}

// newBareSequence starts a sequence for packets without a timestamp.
func (w *Writer) newBareSequence() sequence {
	w.sequences++
	var opening buffer
	opening.open(tracePacket)
	opening.uint(packetSequenceID, w.sequences)
	return sequence{w: w, packets: &w.output.packets, opening: opening.b, last: w.start}
}

// clock appends one clock of a ClockSnapshot.
func (b *buffer) clock(id, ts uint64, incremental bool) {
	start := b.open(snapshotClock)
	b.uint(clockID, id)
	b.uint(clockTimestamp, ts)
	if incremental {
		b.uint(clockIsIncremental, 1)
	}
	b.close(start)
}

// packetHead is the number of bytes before the fields of a packet that is open.
const packetHead = 2

// begin opens a packet. end or endAt closes it.
func (s *sequence) begin() *buffer {
	s.body = len(s.packets.b) + packetHead
	s.packets.b = append(s.packets.b, s.opening...)
	return s.packets
}

// end closes a packet without a timestamp.
func (s *sequence) end() {
	s.endInternedData()
	s.packets.close(s.body)
	s.w.output.flushDue()
}

// endAt closes a packet of time ts. The distance to a time before that of the previous
// packet is negative, and takes ten bytes.
func (s *sequence) endAt(ts uint64) {
	s.endInternedData()
	s.packets.uint(packetTimestamp, ts-s.last)
	s.last = ts
	s.packets.close(s.body)
	s.w.output.flushDue()
}

// endInternedData adds the data that was interned since the previous packet.
func (s *sequence) endInternedData() {
	if data := &s.w.interner.data; len(data.b) > 0 {
		s.packets.bytes(packetInternedData, data.b)
		data.b = data.b[:0]
	}
}
