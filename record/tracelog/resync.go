package tracelog

import (
	"bytes"
	"fmt"
)

// corrupt notes a fault. skipped is the number of bytes left out because of it.
func (w *walker) corrupt(p *piece, at, skipped int64, reason string) {
	p.note(func(bool) error { return &CorruptError{at, skipped, reason, false} })
	if skipped > 0 {
		w.gap = true
	}
}

// truncated notes that the log ends early, for a reason that can depend on whether
// its End record is there.
func (p *piece) truncated(at int64, reason string, args ...any) {
	p.note(func(bool) error { return &TruncatedError{at, fmt.Sprintf(reason, args...)} })
}

// finish ends the reading with left bytes that are no block.
func (w *walker) finish(p *piece, left int64) {
	w.done = true
	at, size := w.off, w.size
	switch {
	case left > 0 && w.footed:
		p.truncated(at, "the log ends in the middle of its trailer at byte %d; no record is missing", size)
	case left > 0:
		w.midBlock(p)
	case w.footed:
		p.truncated(at, "the log ends before its trailer at byte %d; no record is missing", size)
	default:
		p.last(func(ended bool) error {
			if ended {
				return &TruncatedError{at, fmt.Sprintf("the log ends before its footer at byte %d; no record is missing", size)}
			}
			return &TruncatedError{at, fmt.Sprintf(
				"the log ends at byte %d without an end record; it was cut or its recording did not finish", size)}
		})
	}
}

// midBlock notes that the log ends inside the block at the current offset.
func (w *walker) midBlock(p *piece) {
	at, size := w.off, w.size
	p.last(func(ended bool) error {
		reason := "it was cut or its recording did not finish"
		if ended {
			reason = "it was cut in its footer; no record is missing"
		}
		return &TruncatedError{at, fmt.Sprintf("the log ends in the middle of a block at byte %d; %s", size, reason)}
	})
}

// trailer reads the last bytes of a finished log and reports whether they are right.
func (w *walker) trailer(p *piece) bool {
	if p.err = w.readAt(w.head[:], w.off); p.err != nil {
		return false
	}
	_, ok := parseTrailer(w.head[:])
	return ok
}

// overlong deals with a block that claims more bytes than there are: the last block
// of a log that was cut, or one with a hole, behind which others follow.
func (w *walker) overlong(p *piece) {
	next, err := w.find(w.off + 1)
	switch {
	case err != nil:
		p.err = err
	case next < 0:
		w.done = true
		w.midBlock(p)
	default:
		w.corrupt(p, w.off, next-w.off, "part of a block is missing")
		w.off = next
	}
}

// damaged deals with a block whose payload is not what was written. Its length can
// be right or wrong: the search for the next block begins inside it, unless the log
// is made so that this would take forever.
func (w *walker) damaged(p *piece, h blockHeader) {
	w.wasted += int64(h.length)
	if w.wasted > 4*w.size+64<<20 {
		next := w.off + blockHeaderSize + int64(h.length)
		w.corrupt(p, w.off, next-w.off, "the checksum of a block is wrong")
		w.off = next
		return
	}
	w.resync(p, "the checksum of a block is wrong")
}

// resync goes on at the next intact block header, or ends the reading.
func (w *walker) resync(p *piece, reason string) {
	next, err := w.find(w.off + 1)
	if err != nil {
		p.err = err
		return
	}
	if next < 0 {
		w.lost(p, reason)
		return
	}
	w.corrupt(p, w.off, next-w.off, reason)
	w.off = next
}

// lost ends the reading where no block follows. Behind the footer that is the trailer.
func (w *walker) lost(p *piece, reason string) {
	w.done = true
	if w.footed {
		w.corrupt(p, w.off, w.size-w.off, "the trailer is wrong")
		return
	}
	w.corrupt(p, w.off, w.size-w.off, reason)
	size := w.size
	p.last(func(ended bool) error {
		if ended {
			return nil
		}
		return &TruncatedError{size, "the log has no end record: it was damaged there or its recording did not finish"}
	})
}

// find reads little at first, since the next block is often near, and more each
// time, up to maxSearch bytes.
const (
	minSearch = 512
	maxSearch = 64 << 10
)

// find returns the offset of the first intact block header from off on, -1 without.
func (w *walker) find(off int64) (int64, error) {
	for chunk := int64(minSearch); w.size-off >= blockHeaderSize; chunk = min(2*chunk, maxSearch) {
		if int64(cap(w.search)) < chunk {
			w.search = make([]byte, chunk)
		}
		b := w.search[:min(chunk, w.size-off)]
		if err := w.readAt(b, off); err != nil {
			return 0, err
		}
		last := len(b) - blockHeaderSize // where a whole header can begin
		for i := 0; i <= last; i++ {
			at := bytes.Index(b[i:], marker)
			if at < 0 || i+at > last {
				break
			}
			i += at
			if _, ok := parseBlockHeader(b[i:]); ok {
				return off + int64(i), nil
			}
		}
		off += int64(last + 1)
	}
	return -1, nil
}
