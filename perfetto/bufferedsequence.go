package perfetto

const (
	// defaultPieceBytes replaces an Options.PieceBytes of 0.
	defaultPieceBytes = 1 << 20

	// maxBuffered bounds the bytes in the buffers of all sequences together.
	maxBuffered = 32 << 20
)

// A bufferedSequence is a packet sequence of events of one kind. It collects its packets
// in memory and writes them in large pieces, because packets of one kind that follow each
// other compress to little more than their differences.
type bufferedSequence struct {
	sequence
	buffer buffer
}

// newBufferedSequence starts a sequence for events. track is as in newSequence.
func (w *Writer) newBufferedSequence(track uint64) *bufferedSequence {
	s := &bufferedSequence{sequence: w.newSequence(track)}
	s.packets = &s.buffer
	w.output.sequences = append(w.output.sequences, s)
	return s
}

// begin opens a packet, with the data that was interned since the previous packet. end or endAt closes it.
func (s *bufferedSequence) begin() *buffer {
	s.sequence.begin()
	s.endInternedData()
	return &s.buffer
}

// end closes a packet without a timestamp.
func (s *bufferedSequence) end() {
	s.sequence.end()
	s.appended()
}

// endAt closes a packet of time ts.
func (s *bufferedSequence) endAt(ts uint64) {
	s.sequence.endAt(ts)
	s.appended()
}

// appended counts a packet that was appended to the buffer, and writes the buffer when that is due.
func (s *bufferedSequence) appended() {
	o := &s.w.output
	o.buffered += len(s.buffer.b) - (s.body - packetHead)
	if len(s.buffer.b) >= o.pieceBytes || o.closed || o.buffered > maxBuffered {
		o.flushSequence(s)
	}
}
