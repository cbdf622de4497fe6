package blockfile

import "fmt"

// MaxFaults is the number of faults in front of one block that are described.
const MaxFaults = 16

// A Fault is something that is wrong with a file.
type Fault struct {
	Offset  int64 // of the first byte that could not be used, or where the file ends
	Skipped int64 // bytes up to the next intact block
	Reason  string
	Cut     bool // the file ends early

	// Where the End record of the log has been read, Finished takes the place of Reason unless
	// it is empty, and a Harmless fault is none.
	Finished string
	Harmless bool
}

// note adds a fault. The first MaxFaults are kept, the others counted.
func (b *Block) note(f Fault) {
	if len(b.Faults) >= MaxFaults {
		b.MoreFaults++
		return
	}
	b.Faults = append(b.Faults, f)
}

// last adds the fault that ends the file. It is always kept.
func (b *Block) last(f Fault) {
	f.Cut = true
	b.Faults = append(b.Faults, f)
}

// Spoil makes the block one that cannot be read, without a type.
func (b *Block) Spoil(f Fault) {
	b.Header = Header{}
	b.note(f)
}

// corrupt notes a fault. skipped is the number of bytes left out because of it.
func (w *Walker) corrupt(b *Block, at, skipped int64, reason string) {
	b.note(Fault{Offset: at, Skipped: skipped, Reason: reason})
	w.faulty = true
	if skipped > 0 {
		w.gap = true
	}
}

// awaits makes the walker wait where it is, if the file may still grow, and reports whether
// it does. Then nothing can be said of the end of the file.
func (w *Walker) awaits() bool {
	w.waits = w.Growing()
	return w.waits
}

// finish deals with the end of the file. left is the number of bytes in front of it that are no
// block.
func (w *Walker) finish(b *Block, left int64) {
	if w.awaits() {
		return
	}
	w.done = true
	size := w.Size()
	switch {
	case left > 0 && w.footed:
		b.note(Fault{
			Offset: w.off, Cut: true,
			Reason: fmt.Sprintf("the log ends in the middle of its trailer at byte %d; no record is missing", size),
		})
	case left > 0:
		w.midBlock(b)
	case w.footed:
		b.note(Fault{
			Offset: w.off, Cut: true, Reason: fmt.Sprintf("the log ends before its trailer at byte %d; no record is missing",
				size),
		})
	default:
		b.last(Fault{Offset: w.off,
			Reason: fmt.Sprintf("the log ends at byte %d without an end record; it was cut or its recording did not finish",
				size),
			Finished: fmt.Sprintf("the log ends before its footer at byte %d; no record is missing", size)})
	}
}

// midBlock notes that the file ends inside the block at the current offset.
func (w *Walker) midBlock(b *Block) {
	where := fmt.Sprintf("the log ends in the middle of a block at byte %d; ", w.Size())
	b.last(Fault{Offset: w.off,
		Reason:   where + "it was cut or its recording did not finish",
		Finished: where + "it was cut in its footer; no record is missing"})
}

// overlong deals with a block that reaches beyond the end of the file: the last block
// of a file that was cut, or one that lost some of its bytes and has others behind it.
func (w *Walker) overlong(b *Block) {
	if w.awaits() {
		return
	}
	next, err := w.find()
	switch {
	case err != nil:
		b.Err = err
	case next < 0:
		w.done = true
		w.midBlock(b)
	default:
		w.skip(b, next, "part of a block is missing")
	}
}

// damaged deals with a block whose payload has a wrong checksum. As its length can be wrong,
// the search for the next block begins inside it, unless too many bytes have been read for
// such blocks already.
func (w *Walker) damaged(b *Block, h Header) {
	if w.wasted += int64(h.Length); w.wasted > w.mostWasted() {
		w.skip(b, w.off+h.Size(), "the checksum of a block is wrong")
		return
	}
	if w.resync(b, "the checksum of a block is wrong"); w.waits {
		w.wasted -= int64(h.Length) // the walker looks at it again
	}
}

// mostWasted is the number of bytes that may be read for damaged blocks.
func (w *Walker) mostWasted() int64 { return 4*w.Size() + 64<<20 }

// resync goes on at the next intact block header, or ends the reading.
func (w *Walker) resync(b *Block, reason string) {
	next, err := w.find()
	switch {
	case err != nil:
		b.Err = err
	case next >= 0:
		w.skip(b, next, reason)
	case !w.awaits():
		w.lost(b, reason)
	}
}

// skip goes on at an offset.
func (w *Walker) skip(b *Block, next int64, reason string) {
	w.corrupt(b, w.off, next-w.off, reason)
	w.off, w.searched = next, 0
}

// lost ends the reading at bytes behind which no block follows. Behind the footer they are the
// trailer.
func (w *Walker) lost(b *Block, reason string) {
	w.done = true
	size := w.Size()
	if w.footed {
		w.corrupt(b, w.off, size-w.off, "the trailer is wrong")
		return
	}
	w.corrupt(b, w.off, size-w.off, reason)
	b.last(Fault{
		Offset: size, Reason: "the log has no end record: it was damaged there or its recording did not finish",
		Harmless: true,
	})
}
