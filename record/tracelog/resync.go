package tracelog

import (
	"bytes"
	"fmt"
)

// corrupt notes a fault. skipped is the number of bytes left out because of it.
func (r *Reader) corrupt(at, skipped int64, reason string) {
	r.damage.add(&CorruptError{at, skipped, reason})
	if skipped > 0 {
		r.gap = true
	}
}

// finish ends the reading with left bytes that are no block.
func (r *Reader) finish(left int64) {
	r.done = true
	switch {
	case left > 0 && r.footed:
		r.damage.add(&TruncatedError{r.off, fmt.Sprintf(
			"the log ends in the middle of its trailer at byte %d; no record is missing", r.size)})
	case left > 0:
		r.midBlock(r.off)
	case r.footed:
		r.damage.add(&TruncatedError{r.off, fmt.Sprintf(
			"the log ends before its trailer at byte %d; no record is missing", r.size)})
	case r.ended:
		r.damage.add(&TruncatedError{r.off, fmt.Sprintf(
			"the log ends before its footer at byte %d; no record is missing", r.size)})
	default:
		r.damage.add(&TruncatedError{r.off, fmt.Sprintf(
			"the log ends at byte %d without an end record; it was cut or its recording did not finish", r.size)})
	}
}

// midBlock notes that the log ends inside the block at the given byte.
func (r *Reader) midBlock(at int64) {
	reason := "it was cut or its recording did not finish"
	if r.ended {
		reason = "it was cut in its footer; no record is missing"
	}
	r.damage.add(&TruncatedError{at, fmt.Sprintf(
		"the log ends in the middle of a block at byte %d; %s", r.size, reason)})
}

// trailer reads the last bytes of a finished log and reports whether they are right.
func (r *Reader) trailer() bool {
	if r.err = r.readAt(r.head[:], r.off); r.err != nil {
		return false
	}
	_, ok := parseTrailer(r.head[:])
	return ok
}

// overlong deals with a block that claims more bytes than there are: the last block
// of a log that was cut, or one with a hole, behind which others follow.
func (r *Reader) overlong() {
	next, err := r.find(r.off + 1)
	switch {
	case err != nil:
		r.err = err
	case next < 0:
		r.done = true
		r.midBlock(r.off)
	default:
		r.corrupt(r.off, next-r.off, "part of a block is missing")
		r.off = next
	}
}

// damaged deals with a block whose payload is not what was written. Its length can
// be right or wrong: the search for the next block begins inside it, unless the log
// is made so that this would take forever.
func (r *Reader) damaged(h blockHeader) {
	r.wasted += int64(h.length)
	if r.wasted > 4*r.size+64<<20 {
		next := r.off + blockHeaderSize + int64(h.length)
		r.corrupt(r.off, next-r.off, "the checksum of a block is wrong")
		r.off = next
		return
	}
	r.resync("the checksum of a block is wrong")
}

// resync goes on at the next intact block header, or ends the reading.
func (r *Reader) resync(reason string) {
	next, err := r.find(r.off + 1)
	if err != nil {
		r.err = err
		return
	}
	if next < 0 {
		r.lost(reason)
		return
	}
	r.corrupt(r.off, next-r.off, reason)
	r.off = next
}

// lost ends the reading where no block follows. Behind the footer that is the trailer.
func (r *Reader) lost(reason string) {
	r.done = true
	if r.footed {
		r.corrupt(r.off, r.size-r.off, "the trailer is wrong")
		return
	}
	r.corrupt(r.off, r.size-r.off, reason)
	if !r.ended {
		r.damage.add(&TruncatedError{r.size, "the log has no end record: it was damaged there or its recording did not finish"})
	}
}

// find reads little at first, since the next block is often near, and more each
// time, up to maxSearch bytes.
const (
	minSearch = 512
	maxSearch = 64 << 10
)

// find returns the offset of the first intact block header from off on, -1 without.
func (r *Reader) find(off int64) (int64, error) {
	for chunk := int64(minSearch); r.size-off >= blockHeaderSize; chunk = min(2*chunk, maxSearch) {
		if int64(cap(r.search)) < chunk {
			r.search = make([]byte, chunk)
		}
		b := r.search[:min(chunk, r.size-off)]
		if err := r.readAt(b, off); err != nil {
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
