package perfetto

import (
	"errors"
	"fmt"
	"io"
)

const (
	flushBytes    = 64 << 10
	reservedBytes = flushBytes + 16<<10
)

// An output writes the packets of all sequences.
type output struct {
	w          io.Writer
	err        error // the first one
	closed     bool
	packets    buffer // of all sequences without a buffer of their own
	sequences  []*bufferedSequence
	buffered   int // bytes in the buffers of sequences
	pieceBytes int // Options.PieceBytes
}

func (o *output) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// flushDue writes the packets of the sequences without a buffer when that is due.
func (o *output) flushDue() {
	if len(o.packets.b) >= flushBytes || o.closed {
		o.flush()
	}
}

// flush writes the packets of the sequences without a buffer.
func (o *output) flush() {
	o.write(o.packets.b)
	o.packets.b = o.packets.b[:0]
}

// flushSequence writes the packets of a sequence whose buffer is full. Where all buffers
// together hold too much, it writes the packets of all sequences.
func (o *output) flushSequence(s *bufferedSequence) {
	if o.buffered > maxBuffered {
		o.flushSequences()
	} else {
		s.flush()
	}
}

// flushSequences writes the packets of all sequences and frees their buffers: some of the
// sequences may be finished.
func (o *output) flushSequences() {
	for _, s := range o.sequences {
		s.flush()
		s.buffer.b = nil
	}
}

// flush writes the packets of a sequence. Its first packet and the descriptor of its track,
// which are not buffered there, go before them.
func (s *bufferedSequence) flush() {
	o := &s.w.output
	if len(s.buffer.b) == 0 {
		return
	}
	o.buffered -= len(s.buffer.b)
	if len(o.packets.b) > 0 {
		o.flush()
	}
	o.write(s.buffer.b)
	s.buffer.b = s.buffer.b[:0]
}

func (o *output) write(b []byte) {
	if o.closed {
		o.fail(errors.New("perfetto: an event after the trace was closed"))
	}
	if o.err == nil && len(b) > 0 {
		if _, err := o.w.Write(b); err != nil {
			o.fail(fmt.Errorf("writing the trace: %w", err))
		}
	}
}

// close writes the rest and returns the first error.
func (o *output) close() error {
	if !o.closed {
		o.flushSequences()
		o.flush()
		o.closed = true
	}
	return o.err
}
