package tracelog

import (
	"errors"
	"fmt"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A footerIndex collects what the end of a log says about its blocks.
type footerIndex struct {
	entries   []uint64 // rows of tableIndex not yet written
	directory []uint64 // rows of tableDirectory
	totals    [256]uint64
}

// indexRows is the number of entries of a full index block. Index blocks are written
// on the way, so that the index of a long recording takes no memory.
const indexRows = 8192

// noteBlock notes the block of records that is about to be appended.
func (w *Writer) noteBlock(l *schema.Layout, rows *rowset, time span) {
	w.noteEntry(&IndexEntry{Kind: l.Kind, Rows: uint64(rows.n), From: time.from, To: time.to,
		PID: uint32(common(rows, l.PID, 0)), TID: uint32(common(rows, l.TID, 0)),
		Device: common(rows, l.Device, -1), Context: common(rows, l.Context, -1), Stream: common(rows, l.Stream, -1)})
}

// common is the value of a field that all rows share, or none.
func common(rows *rowset, f int, none int64) int64 {
	if f < 0 || rows.column(f) != nil {
		return none
	}
	return int64(rows.at(f, 0))
}

// noteEntry notes the block of records that is about to be appended.
func (w *Writer) noteEntry(e *IndexEntry) {
	x := &w.index
	x.totals[e.Kind] += e.Rows
	if len(x.entries) >= indexRows*len(schema.LayoutOf(schema.Index).Fields) {
		w.indexBlock()
	}
	x.entries = append(x.entries, uint64(w.off), uint64(e.Kind), uint64(e.PID), e.Rows, e.From, e.To,
		uint64(e.TID), uint64(e.Device+1), uint64(e.Context+1), uint64(e.Stream+1))
}

// indexFlushed writes the index of what a flush has written, so that a log that ends
// without a footer has one nearly to its end. Each of these index blocks is longer than
// those before, so that a recording of any length has few.
func (w *Writer) indexFlushed() {
	entries := len(w.index.entries) / len(schema.LayoutOf(schema.Index).Fields)
	directory := len(w.index.directory) / 2
	if entries >= min(32+directory/4, indexRows) {
		w.indexBlock()
	}
}

// indexBlock appends the entries so far as an index block.
func (w *Writer) indexBlock() {
	x := &w.index
	if len(x.entries) == 0 {
		return
	}
	at := uint64(w.off)
	l := schema.LayoutOf(schema.Index)
	w.table = w.enc.appendSized(w.table[:0], l, w.enc.transpose(l, x.entries), nil)
	w.block(blockIndex, w.table)
	x.directory = append(x.directory, at, uint64(len(x.entries)/len(l.Fields)))
	x.entries = x.entries[:0]
}

// footer appends the rest of the index, the footer and the trailer. The directory
// of a log with more index blocks than a table has rows ends early; a reader finds
// the others behind the last one in it.
func (w *Writer) footer() {
	w.indexBlock()
	var totals []uint64
	for k, n := range w.index.totals {
		if n > 0 {
			totals = append(totals, uint64(k), n)
		}
	}
	directory := w.index.directory[:min(len(w.index.directory), 2*schema.MaxRows)]
	at := uint64(w.off)
	l := schema.LayoutOf(schema.Totals)
	w.table = w.enc.appendSized(w.table[:0], l, w.enc.transpose(l, totals), nil)
	l = schema.LayoutOf(schema.Directory)
	w.table = w.enc.appendSized(w.table, l, w.enc.transpose(l, directory), nil)
	w.block(blockFooter, w.table)
	w.buf = appendTrailer(w.buf, at)
	w.off += trailerSize
}

// An IndexEntry describes a block of records.
type IndexEntry struct {
	Offset   int64
	Kind     Kind
	PID, TID uint32 // 0 where the records differ or have none
	Rows     uint64
	From, To uint64 // ns of CLOCK_MONOTONIC, 0 without times

	Device, Context, Stream int64 // -1 where the records differ or have none
}

// An Index is what the footer of a finished log says.
type Index struct {
	Totals map[Kind]uint64 // records by kind
	Blocks []IndexEntry    // in the order of the file
}

var errIndex = errors.New("has no index: it was not finished, or its footer is damaged")

// Index reads the footer and the index, wherever in the log the reader is. A log that
// was not finished has none, which is an error; its blocks can be read all the same.
// It has an entry for every block: Select does with less memory.
func (r *Reader) Index() (*Index, error) {
	x := &Index{Totals: make(map[Kind]uint64)}
	footer, directory, err := r.src.footer(x.Totals)
	if err != nil {
		return nil, r.fileError(err, "")
	}
	dec, err := newDecoder() // the reader's own holds the current block
	if err != nil {
		return nil, err
	}
	last := int64(headerSize)
	for _, at := range directory {
		err = r.src.tablesAt(dec, at, blockIndex, func(t *table) error {
			for i := range t.rows {
				e := entryAt(t, i)
				if e.Offset < last || e.Offset >= footer {
					return errOrder
				}
				last = e.Offset + blockHeaderSize
				x.Blocks = append(x.Blocks, e)
			}
			return nil
		})
		if err != nil {
			return nil, r.fileError(errIndex, fmt.Sprintf(" (%v)", err))
		}
	}
	return x, nil
}

// footer reads the end of a finished log: where the footer is, the number of
// records by kind and the offsets of the index blocks.
func (s *source) footer(totals map[Kind]uint64) (at int64, directory []int64, err error) {
	var b [trailerSize]byte
	if s.size < headerSize+trailerSize {
		return 0, nil, errIndex
	}
	if err := s.readAt(b[:], s.size-trailerSize); err != nil {
		return 0, nil, err
	}
	offset, ok := parseTrailer(b[:])
	if !ok || offset > uint64(s.size) {
		return 0, nil, errIndex
	}
	dec, err := newDecoder()
	if err != nil {
		return 0, nil, err
	}
	err = s.tablesAt(dec, int64(offset), blockFooter, func(t *table) error {
		first, rows := t.find(0), t.find(1)
		for i := range t.rows {
			switch Kind(t.number) {
			case schema.Totals:
				totals[Kind(first.at(i))] = rows.at(i)
			case schema.Directory:
				directory = append(directory, int64(first.at(i)))
			}
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("%w (%v)", errIndex, err)
	}
	return int64(offset), directory, nil
}

var errOrder = errors.New("its entries are out of order")

// entryAt is row i of an index table.
func entryAt(t *table, i int) IndexEntry {
	at := func(field int) uint64 {
		c := t.find(field)
		return c.at(i)
	}
	return IndexEntry{Offset: int64(at(0)), Kind: Kind(at(1)), PID: uint32(at(2)), Rows: at(3),
		From: at(4), To: at(5), TID: uint32(at(6)),
		Device: int64(at(7)) - 1, Context: int64(at(8)) - 1, Stream: int64(at(9)) - 1}
}

var errBlock = errors.New("a block of it is damaged")

// tablesAt calls f with each table of the block at an offset, which must have the given type.
func (s *source) tablesAt(dec *decoder, at int64, kind uint8, f func(*table) error) error {
	if at < headerSize || at > s.size-blockHeaderSize {
		return errBlock
	}
	var head [blockHeaderSize]byte
	if err := s.readAt(head[:], at); err != nil {
		return err
	}
	h, ok := parseBlockHeader(head[:])
	if !ok || h.kind != kind || int64(h.length) > s.size-at-blockHeaderSize {
		return errBlock
	}
	var p piece
	if err := s.block(&p, h, at); err != nil {
		return err
	}
	if checksum(p.payload) != h.crc {
		return errBlock
	}
	return dec.eachTable(p.payload, f)
}
