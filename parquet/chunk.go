package parquet

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"
)

const (
	// pageRows is the number of rows in a page, but for the last one of a chunk.
	pageRows = 64 << 10

	// mostDistinct bounds the dictionary of a column of numbers; narrow is the range of numbers that are looked up
	// in a table.
	mostDistinct = 32 << 10
	narrow       = 64 << 10

	// sampled is the number of values that tell whether those of a wide range repeat.
	sampled = 4096

	// longestBound is the length of the longest text that is stored as a bound of a column's texts.
	longestBound = 64
)

// A chunk is an encoded column of a row group.
type chunk struct {
	bytes      []byte // its pages
	rows       int
	plain      int // size of the pages without compression
	dictionary int // size of the dictionary page, 0 without
	encodings  []int32
	nulls      int
	least      []byte // bounds of the values, nil where they are not known
	most       []byte
}

// An encoder encodes columns, one at a time.
type encoder struct {
	worker  int // its number
	zstd    *zstd.Encoder
	chunk   chunk
	levels  bool     // the column has definition levels
	present []uint32 // definition levels; empty where all rows are null, or none is
	ints    []int64  // the values that are not null: own, or those of the caller
	floats  []float64
	index   []uint32
	own     owned
	table   []uint32 // dictionary index + 1 by value
	page    []byte   // before compression
	packed  []byte
}

// owned are the lists that an encoder makes of the caller's.
type owned struct {
	ints   []int64
	floats []float64
	index  []uint32
}

func newEncoder(worker int) *encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are wrong
	}
	return &encoder{worker: worker, zstd: z}
}

// encode encodes a column. The chunk is valid until the next call.
func (e *encoder) encode(c *Column, v Values) *chunk {
	e.chunk = chunk{bytes: e.chunk.bytes[:0]}
	e.levels, e.present = c.Nullable, e.present[:0]
	switch c.Type {
	case Text:
		e.index = withoutNulls(e, v.Index, v.Repeated, &e.own.index, func(x uint32) bool { return x == NullText })
		e.textPages(v.Texts, v.Repeated > 0)
	case Float:
		e.floats = withoutNulls(e, repeat(v.Floats, v.Repeated), 0, &e.own.floats, func(x float64) bool { return x != x })
		e.pages(encodingPlain, e.appendFloats)
	case Bool:
		e.ints = withoutNulls(e, v.Ints, v.Repeated, &e.own.ints, isNullInt)
		e.boolPages(v.Repeated > 0)
	default:
		e.ints = withoutNulls(e, v.Ints, v.Repeated, &e.own.ints, isNullInt)
		e.intPages(v.Repeated > 0)
	}
	return &e.chunk
}

func isNullInt(x int64) bool { return x == NullInt }

// repeat returns a list with a value for each row.
func repeat[V any](v []V, repeated int) []V {
	if repeated > 0 {
		return slices.Repeat(v[:1], repeated)
	}
	return v
}

// withoutNulls returns the values that are not null, and notes which they are. Of a repeated value it returns one.
func withoutNulls[V any](e *encoder, v []V, repeated int, own *[]V, isNull func(V) bool) []V {
	e.chunk.rows = max(len(v), repeated)
	if !e.levels {
		return v
	}
	nulls := 0
	for _, x := range v {
		if isNull(x) {
			nulls++
		}
	}
	e.chunk.nulls = nulls
	switch {
	case nulls == 0:
		return v
	case nulls == len(v):
		e.chunk.nulls = e.chunk.rows
		return v[:0]
	}
	to := slices.Grow((*own)[:0], len(v)-nulls)
	e.present = slices.Grow(e.present, len(v))[:len(v)]
	for i, x := range v {
		if isNull(x) {
			e.present[i] = 0
		} else {
			to, e.present[i] = append(to, x), 1
		}
	}
	*own = to
	return to
}

// intPages chooses the encoding of numbers.
func (e *encoder) intPages(repeated bool) {
	if len(e.ints) == 0 {
		e.pages(encodingDelta, func(b []byte, _, _ int) []byte { return appendDelta(b, nil) })
		return
	}
	least, most := bounds(e.ints)
	e.chunk.least = binary.LittleEndian.AppendUint64(nil, uint64(least))
	e.chunk.most = binary.LittleEndian.AppendUint64(nil, uint64(most))
	words, ok := []int64{least}, true
	if !repeated {
		words, ok = e.distinct(least, most)
	}
	if !ok {
		e.pages(encodingDelta, func(b []byte, from, to int) []byte { return appendDelta(b, e.ints[from:to]) })
		return
	}
	e.dictionary(len(words), repeated, func(b []byte) []byte {
		for _, x := range words {
			b = binary.LittleEndian.AppendUint64(b, uint64(x))
		}
		return b
	})
}

func bounds(v []int64) (least, most int64) {
	least, most = v[0], v[0]
	for _, x := range v {
		least, most = min(least, x), max(most, x)
	}
	return least, most
}

// distinct returns the dictionary of numbers that repeat, and sets their indexes.
func (e *encoder) distinct(least, most int64) (words []int64, ok bool) {
	limit := min(mostDistinct, len(e.ints)/2+1)
	if uint64(most)-uint64(least) < narrow {
		return e.distinctNarrow(least, int(most-least)+1, limit)
	}
	sample := make(map[int64]uint32, 64)
	for _, x := range e.ints[:min(len(e.ints), sampled)] {
		sample[x] = 0
	}
	if len(sample) > max(1, min(len(e.ints), sampled)/16) {
		return nil, false
	}
	clear(sample)
	e.index = e.own.index[:0]
	for _, x := range e.ints {
		i, known := sample[x]
		if !known {
			if len(words) == limit {
				return nil, false
			}
			i = uint32(len(words))
			sample[x], words = i, append(words, x)
		}
		e.index = append(e.index, i)
	}
	e.own.index = e.index
	return words, true
}

// distinctNarrow is distinct for numbers of a narrow range.
func (e *encoder) distinctNarrow(least int64, span, limit int) (words []int64, ok bool) {
	table := e.cleared(span)
	e.own.index = slices.Grow(e.own.index[:0], len(e.ints))[:len(e.ints)]
	e.index = e.own.index
	for i, x := range e.ints {
		at := &table[x-least]
		if *at == 0 {
			if len(words) == limit {
				return nil, false
			}
			words = append(words, x)
			*at = uint32(len(words))
		}
		e.index[i] = *at - 1
	}
	return words, true
}

// cleared returns a table of zeros.
func (e *encoder) cleared(n int) []uint32 {
	e.table = slices.Grow(e.table[:0], n)[:n]
	clear(e.table)
	return e.table
}

// textPages writes texts, by a dictionary of those that are there.
func (e *encoder) textPages(texts []string, repeated bool) {
	table := e.cleared(len(texts))
	var words []string
	own := slices.Grow(e.own.index[:0], len(e.index))[:len(e.index)]
	for i, x := range e.index {
		at := &table[x]
		if *at == 0 {
			words = append(words, texts[x])
			*at = uint32(len(words))
		}
		own[i] = *at - 1
	}
	e.index, e.own.index = own, own
	if len(words) > 0 {
		if least, most := slices.Min(words), slices.Max(words); max(len(least), len(most)) <= longestBound {
			e.chunk.least, e.chunk.most = []byte(least), []byte(most)
		}
	}
	e.dictionary(len(words), repeated, func(b []byte) []byte {
		for _, x := range words {
			b = appendPlainText(b, x)
		}
		return b
	})
}

// dictionary writes a dictionary page, and pages of indexes: of a repeated value runs.
func (e *encoder) dictionary(words int, repeated bool, write func([]byte) []byte) {
	e.page = write(e.page[:0])
	e.putPage(pageDictionary, 7, words, encodingPlain)
	e.chunk.dictionary = len(e.chunk.bytes)
	width := max(1, bits.Len(uint(max(words, 1)-1)))
	e.pages(encodingDictionary, func(b []byte, from, to int) []byte {
		b = append(b, byte(width))
		switch {
		case !repeated:
			b = appendRuns(b, e.index[from:to], width)
		case to > from:
			b = appendRun(b, 0, to-from, width)
		}
		return b
	})
	e.chunk.encodings = append(e.chunk.encodings, encodingPlain)
}

// pages writes data pages. write appends the values from one to another one of those that are not null.
func (e *encoder) pages(encoding int32, write func(b []byte, from, to int) []byte) {
	e.chunk.encodings = []int32{encoding, encodingRuns}
	value := 0
	for row := 0; row < e.chunk.rows; row += pageRows {
		rows := min(pageRows, e.chunk.rows-row)
		values := rows
		e.page = e.page[:0]
		if e.levels {
			values = e.appendLevelsOf(row, rows)
		}
		e.page = write(e.page, value, value+values)
		value += values
		e.putPage(pageData, 5, rows, encoding)
	}
}

// appendLevelsOf appends the definition levels of rows, and returns how many have a value.
func (e *encoder) appendLevelsOf(row, rows int) (values int) {
	if len(e.present) == 0 {
		level := uint32(1)
		if e.chunk.nulls > 0 {
			level = 0
		}
		e.page = appendLevels(e.page, func(b []byte) []byte { return appendRun(b, level, rows, 1) })
		return rows * int(level)
	}
	levels := e.present[row : row+rows]
	e.page = appendLevels(e.page, func(b []byte) []byte { return appendRuns(b, levels, 1) })
	for _, l := range levels {
		values += int(l)
	}
	return values
}

// putPage appends the page, compressed, behind its header.
func (e *encoder) putPage(kind int32, header int16, values int, encoding int32) {
	e.packed = e.zstd.EncodeAll(e.page, e.packed[:0])
	t := newThrift()
	t.i32(1, kind)
	t.i32(2, int32(len(e.page)))
	t.i32(3, int32(len(e.packed)))
	t.begin(header)
	t.i32(1, int32(values))
	t.i32(2, encoding)
	if kind == pageData {
		t.i32(3, encodingRuns)
		t.i32(4, encodingRuns)
	}
	t.end()
	t.end()
	e.chunk.plain += len(t.b) + len(e.page)
	e.chunk.bytes = append(append(e.chunk.bytes, t.b...), e.packed...)
}

func (e *encoder) appendFloats(b []byte, from, to int) []byte {
	for _, x := range e.floats[from:to] {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// boolPages writes flags.
func (e *encoder) boolPages(repeated bool) {
	if repeated && len(e.ints) > 0 {
		all := byte(-e.ints[0])
		e.pages(encodingPlain, func(b []byte, from, to int) []byte {
			for range (to - from + 7) / 8 {
				b = append(b, all)
			}
			return b
		})
		return
	}
	e.pages(encodingPlain, e.appendBools)
}

func (e *encoder) appendBools(b []byte, from, to int) []byte {
	for i := from; i < to; i += 8 {
		var bits byte
		for k, x := range e.ints[i:min(i+8, to)] {
			bits |= byte(x) << k
		}
		b = append(b, bits)
	}
	return b
}
