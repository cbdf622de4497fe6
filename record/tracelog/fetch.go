package tracelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

// A source is the file that a log is in.
type source struct {
	src  io.ReaderAt
	size int64
	name string
	read atomic.Int64 // bytes
}

// readAt fills b from the file; a file that has shrunk meanwhile is an error.
func (s *source) readAt(b []byte, off int64) error {
	n, err := s.src.ReadAt(b, off)
	s.read.Add(int64(n))
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("cannot be read at byte %d: %w", off+int64(n), bareRead(err))
}

// bareRead takes the operation and the paths off an error of package os.
func bareRead(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}

// A piece is what stands at one place of a log: a block with right checksums, or
// the end; and what was wrong in front of it.
type piece struct {
	at      int64
	head    blockHeader
	payload []byte
	faults  []fault
	more    int // faults beyond those that a reader describes
	end     bool
	err     error // of reading the file
}

// A fault is damage. What there is to say about it can depend on whether the End
// record has been read; nil says nothing.
type fault func(ended bool) error

// A feed gives the pieces of a log that a reader needs, in the order of the file, and
// the end again and again.
type feed interface {
	next(p *piece)
}

// note adds a fault. Only as many are kept as a reader describes.
func (p *piece) note(f fault) {
	if len(p.faults) >= maxDamage {
		p.more++
		return
	}
	p.faults = append(p.faults, f)
}

// last adds the fault that ends the log.
func (p *piece) last(f fault) { p.faults = append(p.faults, f) }

// begin empties a piece for the next use.
func (p *piece) begin() {
	clear(p.faults)
	*p = piece{payload: p.payload[:0], faults: p.faults[:0]}
}

// block reads the payload of the block whose header has been read.
func (s *source) block(p *piece, h blockHeader, at int64) error {
	if cap(p.payload) < int(h.length) {
		p.payload = make([]byte, h.length)
	}
	p.at, p.head, p.payload = at, h, p.payload[:h.length]
	return s.readAt(p.payload, at+blockHeaderSize)
}

// A walker is the feed of a whole log, or of its rest.
type walker struct {
	*source
	off    int64 // of the next block
	order  order
	gap    bool  // something was left out since the last good block
	wasted int64 // bytes read for blocks that turned out damaged
	footed bool
	done   bool
	head   [blockHeaderSize]byte
	search []byte // see find
}

func (w *walker) next(p *piece) {
	p.begin()
	for !w.done && p.err == nil {
		if w.step(p) {
			return
		}
	}
	w.done, p.end = true, true
}

// step deals with what is at the current offset and reports whether that is a block.
func (w *walker) step(p *piece) bool {
	left := w.size - w.off
	switch {
	case w.footed && left >= trailerSize && w.trailer(p):
		w.done = true
		if at := w.off + trailerSize; at < w.size {
			w.corrupt(p, at, w.size-at, "the log has ended and something follows")
		}
		return false
	case left < blockHeaderSize:
		w.finish(p, left)
		return false
	}
	if p.err = w.readAt(w.head[:], w.off); p.err != nil {
		return false
	}
	h, ok := parseBlockHeader(w.head[:])
	switch {
	case !ok:
		w.resync(p, "there is no block here")
		return false
	case int64(h.length) > left-blockHeaderSize:
		w.overlong(p)
		return false
	}
	if p.err = w.block(p, h, w.off); p.err != nil {
		return false
	}
	if checksum(p.payload) != h.crc {
		w.damaged(p, h)
		return false
	}
	w.off += blockHeaderSize + int64(h.length)
	return w.accept(p)
}
