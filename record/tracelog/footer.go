package tracelog

import (
	"errors"
	"fmt"
)

// A footerIndex collects what the end of a log says about its blocks.
type footerIndex struct {
	entries   []uint64 // rows of tableIndex not yet written
	directory []uint64 // rows of tableDirectory
	totals    [256]uint64
}

// indexRows is the number of entries of an index block. Index blocks are written
// on the way, so that the index of a long recording takes no memory.
const indexRows = 8192

// noteBlock notes the block of records that is about to be appended.
func (w *Writer) noteBlock(l *layout, rows []uint64) {
	x := &w.index
	width := len(l.Fields)
	n := uint64(len(rows) / width)
	x.totals[l.Kind] += n
	s := rowSpan(l, rows)
	var pid uint64
	if l.pid >= 0 {
		pid = rows[l.pid]
		for i := l.pid; i < len(rows); i += width {
			if rows[i] != pid {
				pid = 0
				break
			}
		}
	}
	if len(x.entries) >= indexRows*len(layouts[tableIndex].Fields) {
		w.indexBlock()
	}
	x.entries = append(x.entries, uint64(w.off), uint64(l.Kind), pid, n, s.from, s.to)
}

// rowSpan is the time that rows take up.
func rowSpan(l *layout, rows []uint64) (s span) {
	for nth, f := range l.times {
		for i := 0; i < len(rows); i += len(l.Fields) {
			var dur uint64
			if nth == 0 && l.dur >= 0 {
				dur = rows[i+l.dur]
			}
			s.add(rows[i+f], dur)
		}
	}
	return s
}

// indexBlock appends the entries so far as an index block.
func (w *Writer) indexBlock() {
	x := &w.index
	if len(x.entries) == 0 {
		return
	}
	at := uint64(w.off)
	l := layouts[tableIndex]
	w.table = w.enc.appendSized(w.table[:0], l, x.entries, nil)
	w.block(blockIndex, w.table)
	x.directory = append(x.directory, at, uint64(len(x.entries)/len(l.Fields)))
	x.entries = x.entries[:0]
}

// footer appends the rest of the index, the footer and the trailer. The directory
// of a log with more index blocks than a table has rows ends early; its index is
// then one of the log's beginning.
func (w *Writer) footer() {
	w.indexBlock()
	var totals []uint64
	for k, n := range w.index.totals {
		if n > 0 {
			totals = append(totals, uint64(k), n)
		}
	}
	directory := w.index.directory[:min(len(w.index.directory), 2*MaxRows)]
	at := uint64(w.off)
	w.table = w.enc.appendSized(w.table[:0], layouts[tableTotals], totals, nil)
	w.table = w.enc.appendSized(w.table, layouts[tableDirectory], directory, nil)
	w.block(blockFooter, w.table)
	if w.err != nil {
		return
	}
	w.buf = appendTrailer(w.buf, at)
	w.off += trailerSize
}

// An IndexEntry describes a block of records in a finished log.
type IndexEntry struct {
	Offset   int64
	Kind     Kind
	PID      uint32 // 0 where the records differ or have none
	Rows     uint64
	From, To uint64 // ns of CLOCK_MONOTONIC, 0 without times
}

// An Index is what the footer of a finished log says.
type Index struct {
	Totals map[Kind]uint64 // records by kind
	Blocks []IndexEntry    // in the order of the file
}

var errIndex = errors.New("has no index: it was not finished, or its footer is damaged")

// Index reads the footer and the index, wherever in the log the reader is. A log that
// was not finished has none, which is an error; its blocks can be read all the same.
func (r *Reader) Index() (*Index, error) {
	x := &Index{Totals: make(map[Kind]uint64)}
	var b [trailerSize]byte
	if r.size < headerSize+trailerSize {
		return nil, &fileError{r.name, errIndex, ""}
	}
	if err := r.readAt(b[:], r.size-trailerSize); err != nil {
		return nil, &fileError{r.name, err, ""}
	}
	at, ok := parseTrailer(b[:])
	if !ok {
		return nil, &fileError{r.name, errIndex, ""}
	}
	if err := r.readIndex(x, at); err != nil {
		return nil, &fileError{r.name, errIndex, fmt.Sprintf(" (%v)", err)}
	}
	return x, nil
}

func (r *Reader) readIndex(x *Index, footer uint64) error {
	dec, err := newDecoder() // the reader's own holds the current block
	if err != nil {
		return err
	}
	var directory []uint64
	err = r.tablesAt(dec, footer, blockFooter, func(t *table) error {
		switch Kind(t.number) {
		case tableTotals:
			kind, rows := t.find(0), t.find(1)
			for i := range t.rows {
				x.Totals[Kind(kind.at(i))] = rows.at(i)
			}
		case tableDirectory:
			at := t.find(0)
			for i := range t.rows {
				directory = append(directory, at.at(i))
			}
		}
		return nil
	})
	for _, at := range directory {
		if err == nil {
			err = r.tablesAt(dec, at, blockIndex, x.add)
		}
	}
	return err
}

var errOrder = errors.New("its entries are out of order")

// add takes the entries of an index table. Their offsets grow, so that there
// cannot be more than the log has blocks.
func (x *Index) add(t *table) error {
	offset, kind, pid := t.find(0), t.find(1), t.find(2)
	rows, from, to := t.find(3), t.find(4), t.find(5)
	for i := range t.rows {
		e := IndexEntry{Offset: int64(offset.at(i)), Kind: Kind(kind.at(i)), PID: uint32(pid.at(i)),
			Rows: rows.at(i), From: from.at(i), To: to.at(i)}
		if e.Offset < headerSize || len(x.Blocks) > 0 && e.Offset < x.Blocks[len(x.Blocks)-1].Offset+blockHeaderSize {
			return errOrder
		}
		x.Blocks = append(x.Blocks, e)
	}
	return nil
}

var errBlock = errors.New("a block of it is damaged")

// tablesAt calls f with each table of the block at an offset, which must have the given type.
func (r *Reader) tablesAt(dec *decoder, at uint64, kind uint8, f func(*table) error) error {
	if at > uint64(r.size)-blockHeaderSize {
		return errBlock
	}
	var head [blockHeaderSize]byte
	if err := r.readAt(head[:], int64(at)); err != nil {
		return err
	}
	h, ok := parseBlockHeader(head[:])
	if !ok || h.kind != kind || int64(h.length) > r.size-int64(at)-blockHeaderSize {
		return errBlock
	}
	payload := make([]byte, h.length)
	if err := r.readAt(payload, int64(at)+blockHeaderSize); err != nil {
		return err
	}
	if checksum(payload) != h.crc {
		return errBlock
	}
	return dec.eachTable(payload, f)
}
