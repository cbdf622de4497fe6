package perfetto

import "google.golang.org/protobuf/encoding/protowire"

const (
	// defaultPieceBytes replaces an Options.PieceBytes of 0.
	defaultPieceBytes = 1 << 20

	// maxBuffered bounds the bytes in the buffers of all sequences together.
	maxBuffered = 32 << 20

	// firstBytes is the size of the first buffer of a sequence. There may be 100,000 sequences.
	firstBytes = 1 << 10

	// pieceSlack is room for the event that completes a piece, so that nearly no event
	// makes a buffer grow.
	pieceSlack = 4 << 10

	// spareBytes is the room behind a value that a store may overwrite.
	spareBytes = 24
)

// A bufferedSequence is a packet sequence of events of one kind. It collects its packets
// in memory and writes them in large pieces, because packets of one kind that follow each
// other compress to little more than their differences.
type bufferedSequence struct {
	sequence
	buffer   buffer
	eventTag []byte   // of the field of TracePacket that holds an event
	opening  fragment // sequence.id and eventTag
	sliceEnd fragment // a packet with the end of a slice, up to its timestamp
}

// newBufferedSequence starts a sequence whose packets hold their event in a field. track is
// as in newSequence.
func (w *Writer) newBufferedSequence(track uint64, event field) *bufferedSequence {
	s := &bufferedSequence{sequence: w.newSequence(track)}
	s.packets = &s.buffer
	s.eventTag = protowire.AppendTag(nil, protowire.Number(event), protowire.BytesType)
	s.opening = newFragment(s.id, s.eventTag)
	s.sliceEnd = newFragment([]byte{packetTag, 0}, s.id, sliceEndEvent, []byte{timestampTag})
	w.output.sequences = append(w.output.sequences, s)
	return s
}

const (
	packetTag    = byte(tracePacket)<<3 | byte(protowire.BytesType)
	timestampTag = byte(packetTimestamp)<<3 | byte(protowire.VarintType)
)

// sliceEndEvent is the field with the TrackEvent that ends a slice.
var sliceEndEvent = []byte{byte(packetTrackEvent)<<3 | byte(protowire.BytesType), 2, byte(eventType) << 3, typeSliceEnd}

var internedDataTag = protowire.AppendTag(nil, protowire.Number(packetInternedData), protowire.BytesType)

// openPacket stores the beginning of a packet, up to the fields of its event, which has a
// time and a size. It returns the memory of the packet and the offset of these fields.
// closePacket ends the packet.
func (s *bufferedSequence) openPacket(ts uint64, size int) (b []byte, i int) {
	all := s.opening.size + sizeVarint(uint64(size)) + size + 1 + sizeVarint(ts-s.last)
	if s.internsData() {
		b, i = s.openInterningPacket(all)
	} else {
		b = s.room(1 + maxVarint + all)
		b[0] = packetTag
		i = s.opening.put(b, putVarint(b, 1, uint64(all)))
	}
	return b, putVarint(b, i, uint64(size))
}

// openInterningPacket stores the beginning of a packet with InternedData, up to the tag of
// its event. size is the size of the packet without InternedData.
func (s *bufferedSequence) openInterningPacket(size int) (b []byte, i int) {
	data := &s.w.interner.data
	n := len(data.b)
	size += len(internedDataTag) + sizeVarint(uint64(n)) + n
	b = s.room(1 + maxVarint + size)
	b[0] = packetTag
	i = putVarint(b, 1, uint64(size))
	i += copy(b[i:], s.id)
	i += copy(b[i:], internedDataTag)
	i = putVarint(b, i, uint64(n))
	i += copy(b[i:], data.b)
	i += copy(b[i:], s.eventTag)
	data.b = data.b[:0]
	return b, i
}

// closePacket stores the timestamp at b[i:] and appends the packet. It returns the packet up
// to the value of the timestamp.
func (s *bufferedSequence) closePacket(b []byte, i int, ts uint64) (packet []byte) {
	b[i] = timestampTag
	i++
	s.append(putVarint(b, i, ts-s.last), ts)
	return b[:i]
}

// room returns the memory behind the buffered packets: at least n bytes, and spareBytes
// more.
func (s *bufferedSequence) room(n int) []byte {
	have := len(s.buffer.b)
	if cap(s.buffer.b)-have < n+spareBytes {
		size := max(2*have, firstBytes)
		if piece := s.w.output.pieceBytes; 2*size > piece {
			size = max(size, piece+pieceSlack)
		}
		grown := make([]byte, have, max(size, have+n+spareBytes))
		copy(grown, s.buffer.b)
		s.buffer.b = grown
	}
	return s.buffer.b[have:cap(s.buffer.b)]
}

// append appends a packet of time ts, which stands in the first n bytes of the room.
func (s *bufferedSequence) append(n int, ts uint64) {
	s.buffer.b = s.buffer.b[:len(s.buffer.b)+n]
	s.last = ts
	s.appended(n)
}

// appended counts n bytes that were appended to the buffer, and writes the buffer when that
// is due.
func (s *bufferedSequence) appended(n int) {
	o := &s.w.output
	o.buffered += n
	if len(s.buffer.b) >= o.pieceBytes || o.closed || o.buffered > maxBuffered {
		o.flushSequence(s)
	}
}
