package blockfile

import (
	"bytes"
	"fmt"
)

// A Block is a block of a file with right checksums, or the end of the file, together with the
// faults in front of it. It can be used for one block after another.
type Block struct {
	Offset int64
	Header
	Payload []byte

	Faults     []Fault // the first MaxFaults, and the one that ends the file
	MoreFaults int

	End  bool  // this is no block but the end of the file
	Open bool  // the file may still grow: a later Next looks again
	Err  error // of reading the file
}

// Reset makes a block ready for the next use.
func (b *Block) Reset() {
	clear(b.Faults)
	*b = Block{Payload: b.Payload[:0], Faults: b.Faults[:0]}
}

// A Walker goes through a file from block to block. It leaves out and reports damaged and
// missing parts. In a file that may still grow it waits at a block that is not whole yet: it
// gives an open end, and a later Next goes on from there.
type Walker struct {
	*Source
	off      int64 // of the next block
	seq      sequence
	gap      bool  // something was left out since the last good block
	wasted   int64 // bytes read for blocks that turned out damaged
	footed   bool
	footer   int64 // offset of the footer
	faulty   bool  // something is wrong with the file
	done     bool
	waits    bool  // at an unfinished block of a file that may still grow
	searched int64 // offset up to which a search has found no block; 0 without one
	head     [HeaderSize]byte
	search   []byte // see find
}

// NewWalker returns a walker through all blocks.
func NewWalker(s *Source) *Walker { return &Walker{Source: s, off: FileHeaderSize} }

// NewRestWalker returns a walker through the blocks from an offset on. It knows nothing of
// those before.
func NewRestWalker(s *Source, from int64) *Walker {
	return &Walker{Source: s, off: from, gap: true, seq: sequence{late: true}}
}

// Next goes to the next block. At the end it gives the end, again and again.
func (w *Walker) Next(b *Block) {
	b.Reset()
	for !w.done && b.Err == nil {
		if w.waits && w.Growing() && !w.grown(b) {
			b.End, b.Open = true, b.Err == nil
			return
		}
		if w.waits = false; w.step(b) {
			return
		}
	}
	w.done, b.End = true, true
}

// grown reports whether the file has become longer.
func (w *Walker) grown(b *Block) (grown bool) {
	grown, b.Err = w.grow()
	return grown
}

// step reads the block at the current offset. It reports whether there is one.
func (w *Walker) step(b *Block) bool {
	left := w.Size() - w.off
	switch {
	case w.footed && left >= TrailerSize && w.trailer(b):
		w.done = true
		if at := w.off + TrailerSize; at < w.Size() {
			w.corrupt(b, at, w.Size()-at, "the log has ended and something follows")
		}
		return false
	case left < HeaderSize:
		w.finish(b, left)
		return false
	}
	if b.Err = w.ReadAt(w.head[:], w.off); b.Err != nil {
		return false
	}
	h, ok := ParseHeader(w.head[:])
	switch {
	case !ok:
		w.resync(b, "there is no block here")
		return false
	case int64(h.Length) > left-HeaderSize:
		w.overlong(b)
		return false
	}
	intact, err := w.Load(b, h, w.off)
	switch {
	case err != nil:
		b.Err = err
		return false
	case !intact:
		w.damaged(b, h)
		return false
	}
	w.off += h.Size()
	w.searched = 0
	return w.accept(b)
}

// accept checks the place of a block whose checksums are right.
func (w *Walker) accept(b *Block) bool {
	seq := b.Seq
	switch {
	case seq == 0 && w.otherFile(b):
		w.done = true
		w.corrupt(b, b.Offset-FileHeaderSize, w.Size()-b.Offset+FileHeaderSize, "another log begins here")
		return false
	case seq < w.seq.next && !w.seq.fill(seq):
		w.corrupt(b, b.Offset, w.off-b.Offset, fmt.Sprintf("block %d is here a second time", seq))
		return false
	case seq < w.seq.next:
		w.corrupt(b, b.Offset, 0, fmt.Sprintf("block %d is in the wrong place", seq))
		return true
	case seq > w.seq.next && !w.gap:
		w.corrupt(b, b.Offset, 0, fmt.Sprintf("the number of blocks missing before this one is %d", seq-w.seq.next))
	}
	w.seq.advance(seq)
	w.gap = false
	if w.footed {
		w.corrupt(b, b.Offset, 0, "a block follows the footer")
	}
	if b.Type == Footer {
		w.footed, w.footer = true, b.Offset
	}
	return true
}

// otherFile reports whether a block is the first of another log that somebody has put
// behind this one: then a file header is in front of it.
func (w *Walker) otherFile(b *Block) bool {
	if b.Offset <= FileHeaderSize {
		return false
	}
	var head [FileHeaderSize]byte
	b.Err = w.ReadAt(head[:], b.Offset-FileHeaderSize)
	h := ParseFileHeader(head[:])
	return b.Err == nil && h.Magic && h.Intact
}

// trailer reads the last bytes of a finished file and reports whether they are right.
func (w *Walker) trailer(b *Block) bool {
	if b.Err = w.ReadAt(w.head[:], w.off); b.Err != nil {
		return false
	}
	footer, ok := ParseTrailer(w.head[:])
	return ok && (footer == uint64(w.footer) || w.faulty)
}

// find reads little at first, since the next block is often near, and more each
// time, up to maxSearch bytes.
const (
	minSearch = 512
	maxSearch = 64 << 10
)

// find returns the offset of the first intact block header behind the current offset, -1
// without one. When the file has grown since, it goes on where it ended.
func (w *Walker) find() (int64, error) {
	off := max(w.off+1, w.searched)
	size := w.Size()
	for chunk := int64(minSearch); size-off >= HeaderSize; chunk = min(2*chunk, maxSearch) {
		if int64(cap(w.search)) < chunk {
			w.search = make([]byte, chunk)
		}
		b := w.search[:min(chunk, size-off)]
		if err := w.ReadAt(b, off); err != nil {
			return 0, err
		}
		if at := firstHeader(b); at >= 0 {
			return off + int64(at), nil
		}
		off += int64(len(b) - HeaderSize + 1)
	}
	w.searched = off
	return -1, nil
}

// firstHeader is the place of the first intact block header in b, -1 without.
func firstHeader(b []byte) int {
	last := len(b) - HeaderSize // where a whole header can begin
	for i := 0; i <= last; i++ {
		at := bytes.Index(b[i:], marker)
		if at < 0 || i+at > last {
			break
		}
		i += at
		if _, ok := ParseHeader(b[i:]); ok {
			return i
		}
	}
	return -1
}
