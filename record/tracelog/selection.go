package tracelog

import (
	"errors"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Select makes Next give only blocks that can have records that the filter wants.
// Filter.Match tells which of their records it wants. Blocks that the index rules out
// are not read, and damage in them is not noticed. In a log that was not finished, the reader
// finds the index blocks by the headers of all blocks, and reads everything behind the last
// one. Select must come before the first Next.
func (r *Reader) Select(f Filter) error { return r.selectBlocks(f, 0) }

// SelectNewest is Select for the newest part of a log: Next leaves out the events and watermarks that the index knows
// in front of an offset. It gives all else. until is the latest time of the calls and the GPU work that it leaves out.
func (r *Reader) SelectNewest(offset int64) (until uint64, err error) {
	if err := r.selectBlocks(Filter{}, offset); err != nil {
		return 0, err
	}
	ahead, err := newSelection(r.src, &Filter{})
	if err != nil {
		return 0, r.fileError(err, "")
	}
	ahead.newest = offset
	for _, at := range ahead.indexes {
		if at >= offset && ahead.from >= offset || !ahead.load(at) {
			break
		}
		for i := range ahead.entries {
			if e := &ahead.entries[i]; ahead.isOld(e) && (e.Kind == KindCall || e.Kind == KindAPI || e.Kind.IsWork()) {
				until = max(until, e.To)
			}
		}
	}
	return until, nil
}

func (r *Reader) selectBlocks(f Filter, newest int64) error {
	if r.begun {
		return r.errBegun("filtered")
	}
	s, err := newSelection(r.src, &f)
	if err != nil {
		return r.fileError(err, "")
	}
	s.newest = newest
	r.blocks, r.log.filter, r.log.ledger = s, &f, nil
	return nil
}

// A selection is a source of the blocks that can have what a filter wants, by the index.
type selection struct {
	src     *blockfile.Source
	filter  *Filter
	newest  int64 // offset from which events and watermarks are wanted
	dec     *columns.Decoder
	indexes []int64 // offsets of the index blocks not yet used
	entries []IndexEntry
	from    int64             // where the blocks of the next index block begin
	schema  bool              // the schema block has been read
	behind  int64             // where it ends, if it is intact
	rest    *blockfile.Walker // reads the blocks that are in no index; nil until then
}

// maxIndexes is the number of index blocks of a log that a reader uses.
const maxIndexes = schema.MaxRows

func newSelection(src *blockfile.Source, f *Filter) (*selection, error) {
	dec, err := columns.NewDecoder()
	if err != nil {
		return nil, err
	}
	s := &selection{src: src, filter: f, dec: dec, from: blockfile.FileHeaderSize}
	footer, err := readFooter(src, dec)
	switch {
	case err == nil:
		s.indexes = footer.indexes
	case errors.Is(err, errIndex):
		s.indexes, err = findIndexes(src)
	}
	return s, err
}

// findIndexes finds the index blocks of a log that was not finished, by the headers of its
// blocks, up to the first that is damaged.
func findIndexes(src *blockfile.Source) (indexes []int64, err error) {
	for at := int64(blockfile.FileHeaderSize); len(indexes) < maxIndexes; {
		h, ok, err := src.HeaderAt(at)
		if err != nil || !ok {
			return indexes, err
		}
		if h.Type == blockfile.Index {
			indexes = append(indexes, at)
		}
		at += h.Size()
	}
	return indexes, nil
}

// Next goes to the next block.
func (s *selection) Next(b *blockfile.Block) {
	for s.rest == nil {
		b.Reset()
		if s.step(b) || b.Err != nil {
			return
		}
	}
	s.rest.Next(b)
}

// step reads the next wanted block of the index and reports whether there is one. If not, it
// goes on to the next index block, or to the blocks that are in no index.
func (s *selection) step(b *blockfile.Block) bool {
	if !s.schema {
		s.schema = true
		return s.readSchema(b)
	}
	for len(s.entries) > 0 {
		e := s.entries[0]
		s.entries = s.entries[1:]
		if e.Kind == KindString || e.Kind == KindEnd || s.filter.entry(&e) && !s.isOld(&e) {
			s.read(b, e.Offset)
			return true // the block, or what is wrong with it
		}
	}
	if len(s.indexes) == 0 || !s.load(s.indexes[0]) {
		s.rest = blockfile.NewRestWalker(s.src, max(s.from, s.behind))
		return false
	}
	s.indexes = s.indexes[1:]
	return false
}

// isOld reports whether a block has events or watermarks in front of the newest.
func (s *selection) isOld(e *IndexEntry) bool {
	l := schema.LayoutOf(e.Kind)
	return e.Offset < s.newest && l != nil && (l.Role == schema.Event || l.Role == schema.Watermark)
}

// load takes in the index block at an offset and reports whether it can be used: its entries
// must be of blocks between the previous index block and itself.
func (s *selection) load(at int64) bool {
	entries, err := indexAt(s.src, s.dec, at, s.from, at-blockfile.HeaderSize+1)
	if err != nil {
		return false
	}
	h, _, err := s.src.HeaderAt(at)
	if err != nil {
		return false
	}
	s.entries, s.from = entries, at+h.Size()
	return true
}

// readSchema reads the schema block and reports whether there is one, damaged or not. In a
// file that grows, it leaves a block that is not whole yet to the walker, which waits.
func (s *selection) readSchema(b *blockfile.Block) bool {
	h, ok, err := s.src.HeaderAt(blockfile.FileHeaderSize)
	if b.Err = err; err != nil || ok && h.Type != blockfile.Schema {
		return false
	}
	if s.src.Growing() && (!ok || h.Size() > s.src.Size()-blockfile.FileHeaderSize) {
		s.rest = blockfile.NewWalker(s.src)
		return false
	}
	if ok {
		s.behind = blockfile.FileHeaderSize + h.Size()
	}
	return s.readBlock(b, h, ok, blockfile.FileHeaderSize)
}

// read reads the record block at an offset, or notes that it is damaged.
func (s *selection) read(b *blockfile.Block, at int64) {
	h, ok, err := s.src.HeaderAt(at)
	if b.Err = err; err == nil {
		s.readBlock(b, h, ok && h.Type == blockfile.Records, at)
	}
}

// readBlock reads a block whose header is right (ok), or notes that the block is damaged. It
// reports whether the file could be read.
func (s *selection) readBlock(b *blockfile.Block, h blockfile.Header, ok bool, at int64) bool {
	if ok {
		if ok, b.Err = s.src.Load(b, h, at); b.Err != nil || ok {
			return ok
		}
	}
	b.Spoil(blockfile.Fault{Offset: at, Skipped: h.Size(), Reason: "a block that the index tells of is damaged"})
	return true
}

// Begin is the time of a log's first reading of the clocks, with which a recording
// begins, in ns of CLOCK_MONOTONIC; 0 without one. It reads on to there.
func Begin(r *Reader) (uint64, error) {
	if err := r.Select(Filter{Kinds: []Kind{KindClock}}); err != nil {
		return 0, err
	}
	var c Clock
	for r.Next() {
		if c.Read(r.Block(), 0); c.Monotonic > 0 {
			return c.Monotonic, nil
		}
	}
	return 0, nil
}
