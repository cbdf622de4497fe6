package parquet

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

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

	// longestBound is the length of the longest text that is stored as a bound of a column's texts. Longer ones are cut.
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

	leastCut, mostCut bool // the bounds are no values: they were cut
}

// An encoder encodes columns, one at a time.
type encoder struct {
	worker  int // its number
	zstd    *zstd.Encoder
	chunk   chunk
	levels  bool     // the column has definition levels
	present []uint32 // definition levels; empty where all rows are null, or none is
	own     owned
	index   []uint32 // into the dictionary
	table   []uint32 // dictionary index + 1 by value
	page    []byte   // before compression
	packed  []byte
}

// owned are the lists of the values that are not null.
type owned struct {
	ints   []int64
	small  []uint32
	floats []float64
}

func newEncoder(worker int) *encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
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
		e.textPages(withoutNulls(e, v.Index, v.Repeated, NullText, &e.own.small), v.Texts, v.Repeated > 0)
	case Float:
		e.floatPages(withoutNulls(e, repeat(v.Floats, v.Repeated), 0, math.NaN(), &e.own.floats))
	case Bool:
		e.boolPages(withoutNulls(e, v.Ints, v.Repeated, NullInt, &e.own.ints), v.Repeated > 0)
	default:
		if len(v.Small) > 0 {
			intPages(e, withoutNulls(e, v.Small, v.Repeated, NullSmall, &e.own.small), v.Repeated > 0)
			break
		}
		intPages(e, withoutNulls(e, v.Ints, v.Repeated, NullInt, &e.own.ints), v.Repeated > 0)
	}
	return &e.chunk
}

// repeat returns a list with a value for each row.
func repeat[V any](v []V, repeated int) []V {
	if repeated > 0 {
		return slices.Repeat(v[:1], repeated)
	}
	return v
}

// withoutNulls returns the values that are not null, and notes which they are. Of a repeated value it returns one. NaN
// is always null.
func withoutNulls[V comparable](e *encoder, v []V, repeated int, null V, own *[]V) []V {
	e.chunk.rows = max(len(v), repeated)
	if !e.levels {
		return v
	}
	nulls := 0
	for _, x := range v {
		if x == null || x != x {
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
	to := slices.Grow((*own)[:0], len(v))[:len(v)]
	e.present = slices.Grow(e.present, len(v))[:len(v)]
	n := 0
	for i, x := range v {
		to[n], e.present[i] = x, 0
		if x == x && x != null {
			e.present[i] = 1
			n++
		}
	}
	*own = to[:n]
	return to[:n]
}

// A number is a number of a column.
type number interface{ int64 | uint32 }

// intPages chooses the encoding of numbers.
func intPages[N number](e *encoder, v []N, repeated bool) {
	if len(v) == 0 {
		e.pages(encodingDelta, func(b []byte, _, _ int) []byte { return appendDelta(b, v) })
		return
	}
	least, most := bounds(v)
	e.chunk.least = binary.LittleEndian.AppendUint64(nil, uint64(least))
	e.chunk.most = binary.LittleEndian.AppendUint64(nil, uint64(most))
	words, ok := []N{least}, true
	if !repeated {
		words, ok = distinct(e, v, least, most)
	}
	if !ok {
		e.pages(encodingDelta, func(b []byte, from, to int) []byte { return appendDelta(b, v[from:to]) })
		return
	}
	e.dictionary(len(words), repeated, func(b []byte) []byte {
		for _, x := range words {
			b = binary.LittleEndian.AppendUint64(b, uint64(x))
		}
		return b
	})
}

func bounds[N number](v []N) (least, most N) {
	least, most = v[0], v[0]
	for _, x := range v {
		least, most = min(least, x), max(most, x)
	}
	return least, most
}

// distinct returns the dictionary of numbers that repeat, and sets their indexes.
func distinct[N number](e *encoder, v []N, least, most N) (words []N, ok bool) {
	limit := min(mostDistinct, len(v)/2+1)
	if uint64(most)-uint64(least) < narrow {
		return distinctNarrow(e, v, least, int(most-least)+1, limit)
	}
	sample := make(map[N]uint32, 64)
	for _, x := range v[:min(len(v), sampled)] {
		sample[x] = 0
	}
	if len(sample) > max(1, min(len(v), sampled)/16) {
		return nil, false
	}
	clear(sample)
	index := e.indexes(len(v))
	for at, x := range v {
		i, known := sample[x]
		if !known {
			if len(words) == limit {
				return nil, false
			}
			i = uint32(len(words))
			sample[x], words = i, append(words, x)
		}
		index[at] = i
	}
	return words, true
}

// distinctNarrow is distinct for numbers of a narrow range.
func distinctNarrow[N number](e *encoder, v []N, least N, span, limit int) (words []N, ok bool) {
	table, index := e.cleared(span), e.indexes(len(v))
	for i, x := range v {
		at := &table[x-least]
		if *at == 0 {
			if len(words) == limit {
				return nil, false
			}
			words = append(words, x)
			*at = uint32(len(words))
		}
		index[i] = *at - 1
	}
	return words, true
}

// indexes returns the room for the index of each value.
func (e *encoder) indexes(n int) []uint32 {
	e.index = slices.Grow(e.index[:0], n)[:n]
	return e.index
}

// cleared returns a table of zeros.
func (e *encoder) cleared(n int) []uint32 {
	e.table = slices.Grow(e.table[:0], n)[:n]
	clear(e.table)
	return e.table
}

// textPages writes texts, by a dictionary of those that are there.
func (e *encoder) textPages(v []uint32, texts []string, repeated bool) {
	table, index := e.cleared(len(texts)), e.indexes(len(v))
	var words []string
	for i, x := range v {
		at := &table[x]
		if *at == 0 {
			words = append(words, texts[x])
			*at = uint32(len(words))
		}
		index[i] = *at - 1
	}
	if len(words) > 0 {
		least, most := slices.Min(words), slices.Max(words)
		if above, ok := cutAbove(most); ok {
			e.chunk.least, e.chunk.most = []byte(prefix(least)), []byte(above)
			e.chunk.leastCut, e.chunk.mostCut = len(least) > longestBound, len(most) > longestBound
		}
	}
	e.dictionary(len(words), repeated, func(b []byte) []byte {
		for _, x := range words {
			b = appendPlainText(b, x)
		}
		return b
	})
}

// prefix is the beginning of a text that is as long as a bound may be.
func prefix(s string) string {
	if len(s) <= longestBound {
		return s
	}
	n := longestBound
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// cutAbove returns the text, or a short one that comes after all texts with the beginning of a long one. It is false
// where there is none.
func cutAbove(s string) (above string, ok bool) {
	if len(s) <= longestBound {
		return s, true
	}
	for s = prefix(s); s != ""; {
		r, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
		switch {
		case r == utf8.RuneError:
			return "", false
		case r == 0xD7FF: // surrogates follow
			return s + "\uE000", true
		case r < utf8.MaxRune:
			return s + string(r+1), true
		}
	}
	return "", false
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

func (e *encoder) floatPages(v []float64) {
	e.pages(encodingPlain, func(b []byte, from, to int) []byte {
		for _, x := range v[from:to] {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		return b
	})
}

// boolPages writes flags.
func (e *encoder) boolPages(v []int64, repeated bool) {
	e.pages(encodingPlain, func(b []byte, from, to int) []byte {
		if repeated && to > from {
			return append(b, bytes.Repeat([]byte{byte(-v[0])}, (to-from+7)/8)...)
		}
		return appendBools(b, v[from:to])
	})
}

func appendBools(b []byte, v []int64) []byte {
	for flags := range slices.Chunk(v, 8) {
		var bits byte
		for k, x := range flags {
			bits |= byte(x) << k
		}
		b = append(b, bits)
	}
	return b
}
