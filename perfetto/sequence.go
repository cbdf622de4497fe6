package perfetto

import "google.golang.org/protobuf/encoding/protowire"

// A sequence is a packet sequence: packets that share interned data, defaults
// and a clock of their own, in which each packet's timestamp is the distance to
// the packet before it.
type sequence struct {
	w      *Writer
	out    *buffer // where its packets are put
	header []byte  // the field with the sequence's number
	number short   // the same
	last   uint64  // time of the latest packet with a timestamp
	sent   [tables]bitset
	seen   [seenTemplates]uint32 // templates of which all strings have been sent
}

// seenTemplates is a number of templates that a sequence uses again and again.
const seenTemplates = 128

// newSequence starts a sequence. Its events belong to the track with this UUID
// unless that is 0.
func (w *Writer) newSequence(track uint64) sequence {
	s := w.sequence()
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

func (w *Writer) sequence() sequence {
	w.sequences++
	var b buffer
	b.uint(packetSequenceID, w.sequences)
	return sequence{w: w, out: &w.out, header: b.b, number: newShort(b.b), last: w.start}
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
	s.w.packet = s.out.open(tracePacket)
	s.out.b = append(s.out.b, s.header...)
	return s.out
}

// endAt closes a packet of time ts. A time before that of the packet's predecessor is
// right too; its distance takes the ten bytes of a negative number.
func (s *sequence) endAt(ts uint64) {
	if len(s.w.interned.b) > 0 {
		s.internedData()
	}
	s.out.uint(packetTimestamp, ts-s.last)
	s.last = ts
	s.finish()
}

// packet opens a packet of time ts that has size bytes beside the sequence's number,
// interned data and the time. It returns the memory to put them into, and where. stamp ends
// it.
func (l *lane) packet(ts uint64, size int) ([]byte, int) {
	size += l.number.n + 1 + sizeVarint(ts-l.last)
	names := l.w.interned.b
	if n := len(names); n > 0 {
		size += len(internedTag) + sizeVarint(uint64(n)) + n
	}
	b := l.room(1 + sizeVarint(uint64(size)) + size)
	b[0] = byte(tracePacket)<<3 | byte(protowire.BytesType)
	i := l.number.put(b, putVarint(b, 1, uint64(size)))
	if n := len(names); n > 0 {
		i += copy(b[i:], internedTag)
		i = putVarint(b, i, uint64(n))
		i += copy(b[i:], names)
		l.w.interned.b = names[:0]
	}
	return b, i
}

// stamp ends a packet with its time. It returns the packet's size.
func (l *lane) stamp(b []byte, i int, ts uint64) int {
	b[i] = byte(packetTimestamp) << 3
	i = putVarint(b, i+1, ts-l.last)
	l.put(i, ts)
	return i
}

// internedTag is the tag of the field packetInternedData.
var internedTag = protowire.AppendTag(nil, protowire.Number(packetInternedData), protowire.BytesType)

// template makes sure that the sequence has written what a template refers to.
func (s *sequence) template(id uint32, refs []ref) {
	if slot := &s.seen[id%seenTemplates]; *slot != id {
		s.refer(refs)
		*slot = id
	}
}

func (s *sequence) end() {
	if len(s.w.interned.b) > 0 {
		s.internedData()
	}
	s.finish()
}

func (s *sequence) internedData() {
	w := s.w
	s.out.bytes(packetInternedData, w.interned.b)
	w.interned.b = w.interned.b[:0]
}

func (s *sequence) finish() {
	s.out.close(s.w.packet)
	s.w.flushDue()
}
