package tracelog

import (
	"errors"
	"fmt"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// An IndexEntry describes a block of records.
type IndexEntry struct {
	Offset   int64
	Kind     Kind
	PID, TID uint32 // 0 where the records differ or have none
	Rows     uint64
	From, To uint64 // ns of CLOCK_MONOTONIC, 0 without times

	Device, Context, Stream int64 // -1 where the records differ or have none
}

// entryOf is the index entry, without the offset, of a block that is about to be written.
func entryOf(l *schema.Layout, rows *columns.Rows, time span) IndexEntry {
	common := func(field int, none int64) int64 {
		if field < 0 || rows.Column(field) != nil {
			return none
		}
		return int64(rows.At(field, 0))
	}
	return IndexEntry{Kind: l.Kind, Rows: uint64(rows.Len()), From: time.from, To: time.to,
		PID: uint32(common(l.PID, 0)), TID: uint32(common(l.TID, 0)),
		Device: common(l.Device, -1), Context: common(l.Context, -1), Stream: common(l.Stream, -1)}
}

// entryAt is row i of an index table.
func entryAt(t *columns.Table, i int) IndexEntry {
	at := func(field int) uint64 {
		c := t.Find(field)
		return c.At(i)
	}
	return IndexEntry{Offset: int64(at(0)), Kind: Kind(at(1)), PID: uint32(at(2)), Rows: at(3),
		From: at(4), To: at(5), TID: uint32(at(6)),
		Device: int64(at(7)) - 1, Context: int64(at(8)) - 1, Stream: int64(at(9)) - 1}
}

// indexEntries collect the contents of the index and the footer while a log is written.
type indexEntries struct {
	rows      []uint64 // of the next index block
	directory []uint64 // rows of the directory: offset and number of entries of each index block
	totals    [256]uint64
}

// indexRows is the number of entries of a full index block. Index blocks are written
// on the way, so that the index of a long recording takes no memory.
const indexRows = 8192

// indexFields is the number of fields of an entry.
const indexFields = 10

// len is the number of entries of the next index block.
func (x *indexEntries) len() int { return len(x.rows) / indexFields }

func (x *indexEntries) addEntry(e *IndexEntry) {
	x.totals[e.Kind] += e.Rows
	x.rows = append(x.rows, uint64(e.Offset), uint64(e.Kind), uint64(e.PID), e.Rows, e.From, e.To,
		uint64(e.TID), uint64(e.Device+1), uint64(e.Context+1), uint64(e.Stream+1))
}

// worthABlock reports whether a flush should write an index block. Later index blocks are
// longer, so that a recording of any length has few.
func (x *indexEntries) worthABlock() bool {
	return x.len() >= min(32+len(x.directory)/2/4, indexRows)
}

// written notes the offset of the index block just written, and begins the next one.
func (x *indexEntries) written(at int64) {
	x.directory = append(x.directory, uint64(at), uint64(x.len()))
	x.rows = x.rows[:0]
}

// totalRows are the rows of the table of totals.
func (x *indexEntries) totalRows() (rows []uint64) {
	for k, n := range x.totals {
		if n > 0 {
			rows = append(rows, uint64(k), n)
		}
	}
	return rows
}

// An Index has the entries of all index blocks of a finished log, and the totals of its footer.
type Index struct {
	Totals map[Kind]uint64 // records by kind
	Blocks []IndexEntry    // in the order of the file
}

// Reasons why there is no index, or not all of it.
var (
	errIndex = errors.New("has no index: it was not finished, or its footer is damaged")
	errOrder = errors.New("its entries are out of order")
	errBlock = errors.New("a block of it is damaged")
)

// Index reads the footer and the index, wherever in the log the reader is. A log that
// was not finished has no footer, which is an error; its blocks can be read all the same.
// An Index has an entry for every block of the log: Select needs less memory.
func (r *Reader) Index() (*Index, error) {
	dec, err := columns.NewDecoder() // the reader's own holds the current block
	if err != nil {
		return nil, err
	}
	f, err := readFooter(r.src, dec)
	if err != nil {
		return nil, r.fileError(err, "")
	}
	x := &Index{Totals: f.totals}
	last := int64(blockfile.FileHeaderSize)
	for _, at := range f.indexes {
		entries, err := indexAt(r.src, dec, at, last, f.at)
		if err != nil {
			return nil, r.fileError(errIndex, fmt.Sprintf(" (%v)", err))
		}
		if n := len(entries); n > 0 {
			last = entries[n-1].Offset + blockfile.HeaderSize
		}
		x.Blocks = append(x.Blocks, entries...)
	}
	return x, nil
}

// indexAt reads the index block at an offset. The blocks of its entries must be in order, from
// one offset on and before another.
func indexAt(s *blockfile.Source, dec *columns.Decoder, at, from, before int64) (entries []IndexEntry, err error) {
	err = eachTableAt(s, dec, at, blockfile.Index, func(t *columns.Table) error {
		for i := range t.Rows {
			e := entryAt(t, i)
			if e.Offset < from || e.Offset >= before {
				return errOrder
			}
			from = e.Offset + blockfile.HeaderSize
			entries = append(entries, e)
		}
		return nil
	})
	return entries, err
}

// A footer is the end of a finished log.
type footer struct {
	at      int64
	totals  map[Kind]uint64 // records by kind
	indexes []int64         // offsets of the index blocks
}

func readFooter(s *blockfile.Source, dec *columns.Decoder) (*footer, error) {
	var b [blockfile.TrailerSize]byte
	size := s.Size()
	if size < blockfile.FileHeaderSize+blockfile.TrailerSize {
		return nil, errIndex
	}
	if err := s.ReadAt(b[:], size-blockfile.TrailerSize); err != nil {
		return nil, err
	}
	at, ok := blockfile.ParseTrailer(b[:])
	if !ok || at > uint64(size) {
		return nil, errIndex
	}
	f := &footer{at: int64(at), totals: make(map[Kind]uint64)}
	err := eachTableAt(s, dec, f.at, blockfile.Footer, func(t *columns.Table) error {
		first, rows := t.Find(0), t.Find(1)
		for i := range t.Rows {
			switch Kind(t.Number) {
			case schema.Totals:
				f.totals[Kind(first.At(i))] = rows.At(i)
			case schema.Directory:
				f.indexes = append(f.indexes, int64(first.At(i)))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", errIndex, err)
	}
	return f, nil
}

// eachTableAt calls f with each table of the block at an offset, which must have the given type.
func eachTableAt(s *blockfile.Source, dec *columns.Decoder, at int64, typ uint8, f func(*columns.Table) error) error {
	h, ok, err := s.HeaderAt(at)
	switch {
	case err != nil:
		return err
	case !ok || h.Type != typ:
		return errBlock
	}
	var b blockfile.Block
	intact, err := s.Load(&b, h, at)
	switch {
	case err != nil:
		return err
	case !intact:
		return errBlock
	}
	return dec.EachTable(b.Payload, f)
}
