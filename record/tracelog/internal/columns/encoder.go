package columns

import (
	"encoding/binary"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// An Encoder turns rows into tables. Its buffers are kept from table to table.
type Encoder struct {
	zstd    *zstd.Encoder
	rows    Rows                       // see Transpose
	cols    [schema.MaxFields][]uint64 // by field
	vals    []uint64                   // of the column being made
	rel     []uint64
	front   []byte // data of a column that zstd may compress
	back    []byte // data after it
	other   []byte
	sized   []byte // see AppendTable
	trial   []byte // see smallestRelation
	dict    dictionary
	list    [maxDict]uint64
	indexes [][]byte // bytes of the dictionary columns of the table, nil for other columns
	sizes   []int    // sizes of those dictionaries
	columns int
	durAt   int // column of the durations, -1 without
}

// minPack is the number of bytes from which compression is tried.
const minPack = 48

// NewEncoder returns an encoder.
func NewEncoder() (*Encoder, error) {
	z, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), // the block has a checksum
		zstd.WithLowerEncoderMem(true),
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	return &Encoder{zstd: z}, nil
}

// AppendTable appends a table of the rows, preceded by its length. For a layout with text
// fields, texts has the texts of the rows, row by row.
func (e *Encoder) AppendTable(dst []byte, l *schema.Layout, rows *Rows, texts []string) []byte {
	e.sized = e.appendContent(e.sized[:0], l, rows, texts)
	dst = binary.AppendUvarint(dst, uint64(len(e.sized)))
	return append(dst, e.sized...)
}

// Transpose makes Rows of numbers that lie row by row. The result is valid until the
// next call.
func (e *Encoder) Transpose(l *schema.Layout, rows []uint64) *Rows {
	width := len(l.Fields)
	e.rows = NewRows(width, 0)
	var r Row
	for i := 0; i < len(rows); i += width {
		copy(r[:], rows[i:i+width])
		for !e.rows.Fits(&r) {
			e.rows.Widen(&r, schema.MaxRows)
		}
		e.rows.Add(&r)
	}
	return &e.rows
}

// appendContent appends a table without its length. It leaves out fields that are 0 in every
// row. Fields with one value in all rows stand first, so that the beginning of a table has
// everything that its rows share.
func (e *Encoder) appendContent(dst []byte, l *schema.Layout, rows *Rows, texts []string) []byte {
	e.beginBlock(rows.Len())
	columns := len(l.Texts)
	for f := range l.Fields {
		e.cols[f] = rows.Column(f)
		if e.cols[f] != nil || rows.At(f, 0) != 0 {
			columns++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(l.Kind))
	dst = binary.AppendUvarint(dst, uint64(rows.Len()))
	dst = binary.AppendUvarint(dst, uint64(columns))
	for f := range l.Fields {
		if v := rows.At(f, 0); e.cols[f] == nil && v != 0 {
			dst = e.appendConst(dst, f, v)
		}
	}
	for _, f := range l.Stored {
		if e.cols[f] != nil {
			dst = e.appendNumbers(dst, l, f)
		}
	}
	for k, f := range l.Texts {
		dst = e.appendText(dst, f, texts, k, len(l.Texts))
	}
	return dst
}

// beginBlock forgets the columns of the previous table.
func (e *Encoder) beginBlock(n int) {
	if cap(e.rel) < n {
		e.rel = make([]uint64, n)
	}
	e.rel = e.rel[:n]
	e.columns, e.durAt, e.sizes = 0, -1, e.sizes[:0]
}

// keepIndex remembers the dictionary of the column just appended, so that later
// columns can be looked up by it. index is nil for a column without a dictionary.
func (e *Encoder) keepIndex(index []byte, k int) {
	if len(e.indexes) <= e.columns {
		e.indexes = append(e.indexes, nil)
	}
	e.indexes[e.columns] = append(e.indexes[e.columns][:0], index...)
	e.sizes = append(e.sizes, k)
	e.columns++
}

func (e *Encoder) appendConst(dst []byte, f int, v uint64) []byte {
	e.front = binary.AppendUvarint(e.front[:0], v)
	dst = e.appendColumn(dst, f, reprConst, -1, e.front, nil)
	e.keepIndex(nil, 0)
	return dst
}

// appendNumbers appends field f of the rows in the form that takes the least
// room. It estimates the room rather than try every form.
func (e *Encoder) appendNumbers(dst []byte, l *schema.Layout, f int) []byte {
	e.vals = e.cols[f]
	var dur []uint64
	if e.durAt >= 0 && l.Fields[f].Type == schema.Time {
		dur = e.cols[l.Dur]
	}
	dst = e.appendValues(dst, f, dur, l.Fields[f].Type)
	if f == l.Dur {
		e.durAt = e.columns - 1
	}
	return dst
}

func (e *Encoder) appendValues(dst []byte, f int, dur []uint64, t schema.Type) []byte {
	for at, k := range e.sizes {
		if k > 0 && lookup(&e.list, e.vals, e.indexes[at], k) {
			e.front = appendList(e.front[:0], e.list[:k])
			dst = e.appendColumn(dst, f, reprLookup, at, nil, e.front)
			e.keepIndex(nil, 0)
			return dst
		}
	}
	if len(e.vals) >= smallColumn && e.dict.build(e.vals) {
		dst = e.appendDict(dst, f, relNone, -1)
		e.keepIndex(e.dict.index, len(e.dict.values))
		return dst
	}
	measured := t == schema.Time || t == schema.Dur
	if measured || len(e.vals) < smallColumn {
		dst = e.appendRelated(dst, f, bestRelation(e.rel, e.vals, dur), dur, measured)
	} else {
		dst = e.appendRelated(dst, f, e.smallestRelation(f), nil, false)
	}
	e.keepIndex(nil, 0)
	return dst
}

// smallestRelation picks the relation in which a sample of the numbers takes the least room.
// Numbers that are not times repeat themselves in ways that only zstd sees.
func (e *Encoder) smallestRelation(f int) byte {
	all := e.vals
	defer func() { e.vals = all }()
	e.vals = all[:min(len(all), sampleRows)]
	best, fewest := byte(relNone), -1
	for _, rel := range otherRelations {
		e.trial = e.appendRelated(e.trial[:0], f, rel, nil, false)
		if fewest < 0 || len(e.trial) < fewest {
			best, fewest = rel, len(e.trial)
		}
	}
	return best
}

// appendRelated appends the numbers in a relation.
func (e *Encoder) appendRelated(dst []byte, f int, rel byte, dur []uint64, measured bool) []byte {
	ref := -1
	if rel&relGap == relGap {
		ref = e.durAt
	}
	e.rel = e.rel[:len(e.vals)]
	relate(e.rel, e.vals, dur, rel)
	switch {
	case len(e.vals) < smallColumn:
		return e.appendVarints(dst, f, rel, ref)
	case rel != relNone && e.dict.build(e.rel):
		return e.appendDict(dst, f, rel, ref)
	case measured:
		return e.appendSplit(dst, f, rel, ref)
	}
	return e.appendSmaller(dst, f, rel, ref)
}

func (e *Encoder) appendDict(dst []byte, f int, rel byte, ref int) []byte {
	e.back = appendList(e.back[:0], e.dict.values)
	return e.appendColumn(dst, f, reprDict|rel, ref, e.dict.index, e.back)
}

func (e *Encoder) appendVarints(dst []byte, f int, rel byte, ref int) []byte {
	e.front = e.front[:0]
	for _, v := range e.rel {
		e.front = binary.AppendUvarint(e.front, v)
	}
	return e.appendColumn(dst, f, reprVarint|rel, ref, e.front, nil)
}

func (e *Encoder) appendSplit(dst []byte, f int, rel byte, ref int) []byte {
	n := len(e.rel)
	e.front = slices.Grow(e.front[:0], n)[:n]
	e.back = slices.Grow(e.back[:0], 8*n+8)[:8*n+8]
	return e.appendColumn(dst, f, reprSplit|rel, ref, e.front, splitAll(e.front, e.back, e.rel))
}

// appendSmaller appends numbers that are not times as varints or split, whichever is
// smaller. Varints are where the column repeats itself in ways that zstd sees.
func (e *Encoder) appendSmaller(dst []byte, f int, rel byte, ref int) []byte {
	start := len(dst)
	dst = e.appendSplit(dst, f, rel, ref)
	split := len(dst)
	dst = e.appendVarints(dst, f, rel, ref)
	if len(dst)-split < split-start {
		return append(dst[:start], dst[split:]...)
	}
	return dst[:split]
}

func (e *Encoder) appendText(dst []byte, f int, texts []string, at, step int) []byte {
	e.front, e.other = e.front[:0], e.other[:0]
	for ; at < len(texts); at += step {
		e.front = binary.AppendUvarint(e.front, uint64(len(texts[at])))
		e.other = append(e.other, texts[at]...)
	}
	e.front = append(e.front, e.other...)
	dst = e.appendColumn(dst, f, reprText, -1, e.front, nil)
	e.keepIndex(nil, 0)
	return dst
}

// appendColumn appends a column: its field, its encoding, the column that it refers to
// (-1 for none), and its data. zstd compresses the front of the data where that saves room.
func (e *Encoder) appendColumn(dst []byte, f int, how byte, ref int, front, back []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(f))
	mark := len(dst)
	dst = append(dst, how)
	if ref >= 0 {
		dst = binary.AppendUvarint(dst, uint64(ref))
	}
	if len(front) >= minPack {
		e.other = e.zstd.EncodeAll(front, e.other[:0])
		if len(e.other)+8 < len(front) {
			dst[mark] |= packed
			var sizes [2 * binary.MaxVarintLen32]byte
			head := binary.AppendUvarint(sizes[:0], uint64(len(front)))
			head = binary.AppendUvarint(head, uint64(len(e.other)))
			dst = binary.AppendUvarint(dst, uint64(len(head)+len(e.other)+len(back)))
			dst = append(dst, head...)
			dst = append(dst, e.other...)
			return append(dst, back...)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(front)+len(back)))
	dst = append(dst, front...)
	return append(dst, back...)
}
