package tracelog

import (
	"errors"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// errBegun is a mistake of the caller.
var errBegun = errors.New("cannot be filtered: its reading has begun")

// Select makes Next give only blocks that can have records that the filter wants;
// Filter.Match tells which of their records it wants. Blocks that the index rules out
// are not read, and damage in them is not noticed. A log that was not finished is read
// from one index block to the next by the headers of its blocks, and behind the last
// index block in full. Select comes before the first Next.
func (r *Reader) Select(f Filter) error {
	if r.begun {
		return r.fileError(errBegun, "")
	}
	p, err := newPicker(r.src, &f)
	if err != nil {
		return r.fileError(err, "")
	}
	r.feed, r.filter = p, &f
	return nil
}

// A picker is the feed of the blocks that a filter can want, by the index.
type picker struct {
	*source
	filter  *Filter
	dec     *decoder
	indexes []int64 // offsets of the index blocks not yet used
	entries []IndexEntry
	from    int64   // where the blocks of the next index block begin
	schema  bool    // the schema block has been given
	rest    *walker // reads what no index tells of; nil until then
}

// maxIndexes is the number of index blocks of a log that a reader uses.
const maxIndexes = schema.MaxRows

func newPicker(s *source, f *Filter) (*picker, error) {
	dec, err := newDecoder()
	if err != nil {
		return nil, err
	}
	p := &picker{source: s, filter: f, dec: dec, from: headerSize}
	_, p.indexes, err = s.footer(make(map[Kind]uint64))
	if errors.Is(err, errIndex) {
		p.indexes, err = s.scan()
	}
	return p, err
}

// scan finds the index blocks of a log that was not finished, by the headers of its
// blocks and as far as these are intact.
func (s *source) scan() (indexes []int64, err error) {
	var head [blockHeaderSize]byte
	for at := int64(headerSize); at <= s.size-blockHeaderSize && len(indexes) < maxIndexes; {
		if err := s.readAt(head[:], at); err != nil {
			return nil, err
		}
		h, ok := parseBlockHeader(head[:])
		if !ok {
			break
		}
		if h.kind == blockIndex {
			indexes = append(indexes, at)
		}
		at += blockHeaderSize + int64(h.length)
	}
	return indexes, nil
}

func (k *picker) next(p *piece) {
	for k.rest == nil {
		p.begin()
		if k.step(p) || p.err != nil {
			return
		}
	}
	k.rest.next(p)
}

// step reads the next wanted block that the index tells of and reports whether there
// is one. Without any it goes on to the next index block, or to what is not indexed.
func (k *picker) step(p *piece) bool {
	if !k.schema {
		k.schema = true
		return k.read(p, headerSize, blockSchema)
	}
	for len(k.entries) > 0 {
		e := k.entries[0]
		k.entries = k.entries[1:]
		if e.Kind == KindString || e.Kind == KindEnd || k.filter.entry(&e) {
			k.read(p, e.Offset, blockRecords)
			return true // the block, or what is wrong with it
		}
	}
	if len(k.indexes) == 0 || !k.load(k.indexes[0]) {
		k.rest = &walker{source: k.source, off: k.from, gap: true, order: order{late: true}}
		return false
	}
	k.indexes = k.indexes[1:]
	return false
}

// load takes in the index block at an offset. It tells of the blocks between the
// index block before and itself; one that does not is not used.
func (k *picker) load(at int64) bool {
	var entries []IndexEntry
	last, end := k.from, int64(0)
	err := k.tablesAt(k.dec, at, blockIndex, func(t *table) error {
		for i := range t.rows {
			e := entryAt(t, i)
			if e.Offset < last || e.Offset > at-blockHeaderSize {
				return errOrder
			}
			last = e.Offset + blockHeaderSize
			entries = append(entries, e)
		}
		return nil
	})
	if err == nil {
		end, err = k.behind(at)
	}
	if err != nil {
		return false
	}
	k.entries, k.from = entries, end
	return true
}

// behind is the offset behind the block at an offset.
func (k *picker) behind(at int64) (int64, error) {
	var head [blockHeaderSize]byte
	err := k.readAt(head[:], at)
	h, _ := parseBlockHeader(head[:])
	return at + blockHeaderSize + int64(h.length), err
}

// read makes the block at an offset the piece, or what is wrong with it, and reports
// whether there is either.
func (k *picker) read(p *piece, at int64, kind uint8) bool {
	var head [blockHeaderSize]byte
	if p.err = k.readAt(head[:min(blockHeaderSize, max(k.size-at, 0))], at); p.err != nil {
		return false
	}
	h, ok := parseBlockHeader(head[:])
	if ok && h.kind != kind && kind == blockSchema {
		return false // a log without a schema
	}
	if ok && h.kind == kind && int64(h.length) <= k.size-at-blockHeaderSize {
		if p.err = k.block(p, h, at); p.err != nil {
			return false
		}
		if checksum(p.payload) == h.crc {
			return true
		}
	}
	p.head = blockHeader{}
	p.note(func(bool) error {
		return &CorruptError{at, blockHeaderSize + int64(h.length), "a block that the index tells of is damaged", false}
	})
	return true
}

// Begin is the time of a log's first reading of the clocks, with which a recording
// begins, in ns of CLOCK_MONOTONIC; 0 without one.
func Begin(path string) (uint64, error) {
	r, err := Open(path)
	if err != nil {
		return 0, err
	}
	defer r.Close()
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
