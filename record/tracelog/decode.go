package tracelog

import (
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/zstd"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A column is a decoded column: row i has vals[i&mask], so that a number which
// all rows share takes no room. A column of texts has texts instead.
type column struct {
	vals  []uint64
	mask  int
	texts []string
	picks []byte // see Column.Picks
}

var zeros = []uint64{0}

func (c *column) at(i int) uint64 {
	if len(c.vals) == 0 {
		return 0
	}
	return c.vals[i&c.mask]
}

// A table is a decoded table. Its columns are valid until the decoder's next table.
type table struct {
	number uint64
	rows   int
	fields []uint64 // number of the field of each column
	cols   []column
}

// A decoder reads tables. It checks every length and count before it uses or
// allocates anything by it, and holds at most the limits of the format.
type decoder struct {
	zstd    *zstd.Decoder
	only    *onlyFields // what is asked for
	stubs   []stub      // columns of the table
	table   table
	pool    [][]uint64 // one a column
	unpack  []byte
	indexes [][]byte // bytes of the dictionary columns
	sizes   []int
	budget  int // decoded bytes that the table may still have
}

func newDecoder() (*decoder, error) {
	z, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(schema.MaxPayload),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	return &decoder{zstd: z}, nil
}

// Faults of a block whose checksum is right: whoever wrote it wrote it wrong.
var (
	errTable    = errors.New("a table is cut short")
	errRows     = errors.New("a table has too many rows")
	errColumns  = errors.New("a table has too many columns, or one of them twice")
	errColumn   = errors.New("a column is cut short or too long")
	errEncoding = errors.New("a column has an unknown encoding")
	errRef      = errors.New("a column refers to a column that cannot serve it")
	errPacked   = errors.New("a column does not decompress to its stated length")
	errTables   = errors.New("a block has the wrong number of tables")
	errBudget   = errors.New("a table is too large when decoded")
)

// A cursor reads varints from a slice.
type cursor struct {
	b  []byte
	ok bool
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.ok, c.b = false, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.ok, c.b = false, nil
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// decode reads the table that b consists of.
func (d *decoder) decode(b []byte) (*table, error) {
	c := cursor{b, true}
	t := &d.table
	t.number = c.uvarint()
	rows, columns := c.uvarint(), c.uvarint()
	switch {
	case !c.ok:
		return nil, errTable
	case rows == 0 || rows > schema.MaxRows:
		return nil, errRows
	case columns > schema.MaxColumns:
		return nil, errColumns
	}
	t.rows, t.fields, t.cols = int(rows), t.fields[:0], t.cols[:0]
	d.sizes, d.stubs, d.budget = d.sizes[:0], d.stubs[:0], schema.MaxPayload
	var seen uint64
	for range columns {
		s, err := parseStub(&c)
		if err != nil {
			return nil, err
		}
		if s.field >= schema.MaxColumns || seen>>s.field&1 != 0 {
			return nil, errColumns
		}
		seen |= 1 << s.field
		t.fields = append(t.fields, s.field)
		d.stubs = append(d.stubs, s)
	}
	if len(c.b) > 0 {
		return nil, errTable
	}
	needed := d.needed(t.number)
	for i := range d.stubs {
		if needed>>i&1 == 0 {
			d.push(column{vals: zeros}, 0)
			continue
		}
		if err := d.column(&d.stubs[i]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// A stub is a column that is not decoded.
type stub struct {
	field, ref uint64 // the column that it refers to, by its place in the table
	repr, rel  byte
	refers     bool
	packed     bool
	data       []byte
}

// parseStub reads what is in front of a column's data.
func parseStub(c *cursor) (s stub, err error) {
	s.field = c.uvarint()
	how := c.take(1)
	if !c.ok {
		return s, errTable
	}
	s.repr, s.rel, s.packed = how[0]&reprMask, how[0]&relMask, how[0]&packed != 0
	if how[0]&^(reprMask|relMask|packed) != 0 {
		return s, errEncoding
	}
	if s.refers = s.repr == reprLookup || s.rel == relGap; s.refers {
		s.ref = c.uvarint()
	}
	s.data = c.take(c.uvarint())
	if !c.ok {
		return s, errTable
	}
	return s, nil
}

// column decodes a column and appends it.
func (d *decoder) column(s *stub) (err error) {
	data := s.data
	if s.packed {
		if data, err = d.unpackColumn(data); err != nil {
			return err
		}
	}
	if d.budget -= len(data); d.budget < 0 {
		return errBudget
	}
	return d.values(data, s.repr, s.rel, s.ref)
}

// unpackColumn decompresses the front of a column's data. The result is valid until
// the next call.
func (d *decoder) unpackColumn(data []byte) ([]byte, error) {
	c := cursor{data, true}
	size := c.uvarint()
	frame := c.take(c.uvarint())
	if !c.ok || size > uint64(d.budget) {
		return nil, errBudget
	}
	if uint64(cap(d.unpack)) < size+uint64(len(c.b)) {
		d.unpack = make([]byte, 0, size+uint64(len(c.b)))
	}
	front, err := d.zstd.DecodeAll(frame, d.unpack[:0:size])
	if err != nil || uint64(len(front)) != size {
		return nil, errPacked
	}
	return append(d.unpack[:size], c.b...), nil
}

// values decodes the data of a column and appends the column.
func (d *decoder) values(data []byte, repr, rel byte, ref uint64) error {
	var dur column
	if rel == relGap {
		if ref >= uint64(len(d.table.cols)) || repr == reprLookup || d.table.cols[ref].texts != nil {
			return errRef
		}
		dur = d.table.cols[ref]
	}
	if rel != relNone && (repr == reprConst || repr == reprLookup || repr == reprText) {
		return errEncoding
	}
	switch repr {
	case reprConst:
		return d.constant(data)
	case reprText:
		return d.text(data)
	case reprLookup:
		return d.lookup(data, ref)
	}
	if repr > reprText {
		return errEncoding
	}
	n := d.table.rows
	if len(data) < n { // each form has at least a byte a row
		return errColumn
	}
	vals := d.alloc(n)
	ok := false
	size := 0
	switch repr {
	case reprVarint:
		var rest []byte
		rest, ok = uvarints(vals, data)
		ok = ok && len(rest) == 0
	case reprDict:
		size, ok = d.dict(vals, data)
	case reprSplit:
		ok = joinAll(vals, data)
	}
	if !ok {
		return errColumn
	}
	unrelate(vals, dur, rel)
	if rel != relNone {
		size = 0 // its bytes do not pick values, so nothing can be looked up by them
	}
	c := column{vals: vals, mask: -1}
	if size > 0 {
		c.picks = d.indexes[len(d.table.cols)]
	}
	d.push(c, size)
	return nil
}

// alloc returns room for the numbers of the next column.
func (d *decoder) alloc(n int) []uint64 {
	at := len(d.table.cols)
	for len(d.pool) <= at {
		d.pool = append(d.pool, nil)
	}
	if cap(d.pool[at]) < n {
		d.pool[at] = make([]uint64, n)
	}
	return d.pool[at][:n]
}

// push appends a column; size is that of its dictionary, 0 without.
func (d *decoder) push(c column, size int) {
	d.table.cols = append(d.table.cols, c)
	d.sizes = append(d.sizes, size)
}

func (d *decoder) constant(data []byte) error {
	vals := d.alloc(1)
	rest, ok := uvarints(vals, data)
	if !ok || len(rest) > 0 {
		return errColumn
	}
	d.push(column{vals: vals}, 0)
	return nil
}

// dict reads a byte for each row and the list that they pick from, and keeps the
// bytes for lookups. It returns the length of the list.
func (d *decoder) dict(vals []uint64, data []byte) (int, bool) {
	var list [maxDict]uint64
	index := data[:len(vals)]
	k, ok := parseList(&list, data[len(vals):])
	if !ok {
		return 0, false
	}
	largest := byte(0)
	for i, x := range index {
		vals[i] = list[x]
		largest = max(largest, x)
	}
	if int(largest) >= k {
		return 0, false
	}
	at := len(d.table.cols)
	for len(d.indexes) <= at {
		d.indexes = append(d.indexes, nil)
	}
	d.indexes[at] = append(d.indexes[at][:0], index...)
	return k, true
}

func (d *decoder) lookup(data []byte, ref uint64) error {
	if ref >= uint64(len(d.sizes)) || d.sizes[ref] == 0 {
		return errRef
	}
	var list [maxDict]uint64
	if k, ok := parseList(&list, data); !ok || k != d.sizes[ref] {
		return errColumn
	}
	vals := d.alloc(d.table.rows)
	for i, x := range d.indexes[ref] {
		vals[i] = list[x]
	}
	d.push(column{vals: vals, mask: -1, picks: d.indexes[ref]}, 0)
	return nil
}

// joinAll is the inverse of splitting each number.
func joinAll(vals []uint64, data []byte) bool {
	symbols, rest := data[:len(vals)], data[len(vals):]
	total, largest := uint(0), byte(0)
	for _, s := range symbols {
		total += uint(symbolForms[s].low)
		largest = max(largest, s)
	}
	if largest > lastSymbol || uint(len(rest)) != (total+7)/8 {
		return false
	}
	pos, i := uint(0), 0 // in bits, and the row
	vals = vals[:len(symbols)]
	for ; i < len(symbols); i++ {
		s := &symbolForms[symbols[i]]
		at := pos >> 3
		if at+8 > uint(len(rest)) || s.low > 57 {
			break
		}
		vals[i] = s.base | le.Uint64(rest[at:at+8])>>(pos&7)&s.mask
		pos += uint(s.low)
	}
	for ; i < len(symbols); i++ { // near the end, or where numbers are huge
		s := &symbolForms[symbols[i]]
		vals[i] = s.base | bitsAt(rest, pos, uint(s.low))
		pos += uint(s.low)
	}
	return true
}

// text copies the texts: they outlive the block.
func (d *decoder) text(data []byte) error {
	n := d.table.rows
	if len(data) < n {
		return errColumn
	}
	lengths := d.alloc(n)
	rest, ok := uvarints(lengths, data)
	if !ok {
		return errColumn
	}
	texts := make([]string, n)
	for i, length := range lengths {
		if length > uint64(len(rest)) || length > schema.MaxString {
			return errColumn
		}
		texts[i], rest = string(rest[:length]), rest[length:]
	}
	if len(rest) > 0 {
		return errColumn
	}
	d.push(column{vals: zeros, texts: texts}, 0)
	return nil
}

// maxTables is the largest number of tables in a block.
const maxTables = 4

// eachTable calls f with every table of a payload, each preceded by its length.
func (d *decoder) eachTable(payload []byte, f func(*table) error) error {
	c := cursor{payload, true}
	for count := 0; len(c.b) > 0; count++ {
		if count == maxTables {
			return errTables
		}
		b := c.take(c.uvarint())
		if !c.ok {
			return errTable
		}
		t, err := d.decode(b)
		if err != nil {
			return err
		}
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}

// find returns the column of a field, or one of zeros.
func (t *table) find(field int) column {
	for i, f := range t.fields {
		if f == uint64(field) {
			return t.cols[i]
		}
	}
	return column{vals: zeros}
}
