package columns

import (
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/zstd"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Decoder reads tables. It checks every length and count before it uses it or allocates
// anything, and holds no more than the limits of the format allow.
type Decoder struct {
	zstd    *zstd.Decoder
	stubs   []stub // columns of the table
	table   Table
	pool    [][]uint64 // one a column
	unpack  []byte
	indexes [][]byte // bytes of the dictionary columns
	sizes   []int
	budget  int // decoded bytes that the table may still have
}

// NewDecoder returns a decoder.
func NewDecoder() (*Decoder, error) {
	z, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(schema.MaxPayload),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	return &Decoder{zstd: z}, nil
}

// ErrTables says that a block has more or fewer tables than it may have.
var ErrTables = errors.New("a block has the wrong number of tables")

// Faults of a block whose checksum is right: its writer wrote it wrong.
var (
	errTable    = errors.New("a table is cut short")
	errRows     = errors.New("a table has too many rows")
	errColumns  = errors.New("a table has too many columns, or one of them twice")
	errColumn   = errors.New("a column is cut short or too long")
	errEncoding = errors.New("a column has an unknown encoding")
	errRef      = errors.New("a column refers to a column that cannot serve it")
	errPacked   = errors.New("a column does not decompress to its stated length")
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

func (c *cursor) takeBytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.ok, c.b = false, nil
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// EachTable calls f with every table of a block's payload.
func (d *Decoder) EachTable(payload []byte, f func(*Table) error) error {
	c := cursor{payload, true}
	for count := 0; len(c.b) > 0; count++ {
		if count == schema.MaxTables {
			return ErrTables
		}
		b := c.takeBytes(c.uvarint())
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

// decode decodes the table that b consists of.
func (d *Decoder) decode(b []byte) (*Table, error) {
	c := cursor{b, true}
	t := &d.table
	t.Number = c.uvarint()
	rows, columns := c.uvarint(), c.uvarint()
	switch {
	case !c.ok:
		return nil, errTable
	case rows == 0 || rows > schema.MaxRows:
		return nil, errRows
	case columns > schema.MaxColumns:
		return nil, errColumns
	}
	t.Rows = int(rows)
	if err := d.split(&c, columns); err != nil {
		return nil, err
	}
	t.Columns, d.sizes, d.budget = t.Columns[:0], d.sizes[:0], schema.MaxPayload
	for i := range d.stubs {
		if err := d.column(&d.stubs[i]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// split finds the columns of a table.
func (d *Decoder) split(c *cursor, columns uint64) error {
	d.table.Fields, d.stubs = d.table.Fields[:0], d.stubs[:0]
	var seen uint64
	for range columns {
		s, err := parseStub(c)
		if err != nil {
			return err
		}
		if s.field >= schema.MaxColumns || seen>>s.field&1 != 0 {
			return errColumns
		}
		seen |= 1 << s.field
		d.table.Fields = append(d.table.Fields, s.field)
		d.stubs = append(d.stubs, s)
	}
	if len(c.b) > 0 {
		return errTable
	}
	return nil
}

// A stub is a column that is not decoded yet.
type stub struct {
	field     uint64
	ref       uint64 // the column that it refers to, by its place in the table
	repr, rel byte
	packed    bool
	data      []byte
}

// parseStub finds the parts of a column.
func parseStub(c *cursor) (s stub, err error) {
	s.field = c.uvarint()
	how := c.takeBytes(1)
	if !c.ok {
		return s, errTable
	}
	s.repr, s.rel, s.packed = how[0]&reprMask, how[0]&relMask, how[0]&packed != 0
	if s.rel == relDelta2|relMedian {
		return s, errEncoding
	}
	if s.repr == reprLookup || s.rel&relGap == relGap {
		s.ref = c.uvarint()
	}
	s.data = c.takeBytes(c.uvarint())
	if !c.ok {
		return s, errTable
	}
	return s, nil
}

// column decodes a column and appends it.
func (d *Decoder) column(s *stub) (err error) {
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
func (d *Decoder) unpackColumn(data []byte) ([]byte, error) {
	c := cursor{data, true}
	size := c.uvarint()
	frame := c.takeBytes(c.uvarint())
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
func (d *Decoder) values(data []byte, repr, rel byte, ref uint64) error {
	var dur Column
	if rel&relGap == relGap {
		if ref >= uint64(len(d.table.Columns)) || repr == reprLookup || d.table.Columns[ref].Texts != nil {
			return errRef
		}
		dur = d.table.Columns[ref]
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
	case reprVarint, reprDict, reprSplit:
		return d.numbers(data, repr, rel, dur)
	}
	return errEncoding
}

// numbers decodes a column that has a number for each row.
func (d *Decoder) numbers(data []byte, repr, rel byte, dur Column) error {
	n := d.table.Rows
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
		size = 0 // its bytes do not pick values, so no other column can use them
	}
	d.push(Column{Numbers: vals, Mask: -1}, size)
	return nil
}

// alloc returns room for the numbers of the next column.
func (d *Decoder) alloc(n int) []uint64 {
	at := len(d.table.Columns)
	for len(d.pool) <= at {
		d.pool = append(d.pool, nil)
	}
	if cap(d.pool[at]) < n {
		d.pool[at] = make([]uint64, n)
	}
	return d.pool[at][:n]
}

// push appends a column; size is that of its dictionary, 0 without.
func (d *Decoder) push(c Column, size int) {
	d.table.Columns = append(d.table.Columns, c)
	d.sizes = append(d.sizes, size)
}

// constant decodes a column with one number for all rows.
func (d *Decoder) constant(data []byte) error {
	vals := d.alloc(1)
	rest, ok := uvarints(vals, data)
	if !ok || len(rest) > 0 {
		return errColumn
	}
	d.push(Column{Numbers: vals}, 0)
	return nil
}

// dict reads a byte for each row and the list from which these pick, and keeps the
// bytes for lookups. It returns the length of the list.
func (d *Decoder) dict(vals []uint64, data []byte) (int, bool) {
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
	at := len(d.table.Columns)
	for len(d.indexes) <= at {
		d.indexes = append(d.indexes, nil)
	}
	d.indexes[at] = append(d.indexes[at][:0], index...)
	return k, true
}

// lookup decodes a column by the bytes of an earlier one.
func (d *Decoder) lookup(data []byte, ref uint64) error {
	if ref >= uint64(len(d.sizes)) || d.sizes[ref] == 0 {
		return errRef
	}
	var list [maxDict]uint64
	if k, ok := parseList(&list, data); !ok || k != d.sizes[ref] {
		return errColumn
	}
	vals := d.alloc(d.table.Rows)
	for i, x := range d.indexes[ref] {
		vals[i] = list[x]
	}
	d.push(Column{Numbers: vals, Mask: -1}, 0)
	return nil
}

// joinAll decodes numbers that are split into symbols and bits.
func joinAll(vals []uint64, data []byte) bool {
	symbols, rest := data[:len(vals)], data[len(vals):]
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
		if symbols[i] > lastSymbol {
			return false
		}
		vals[i] = s.base | bitsAt(rest, pos, uint(s.low))
		pos += uint(s.low)
	}
	return (pos+7)/8 == uint(len(rest))
}

// text decodes a column of texts. It copies them, as they outlive the block.
func (d *Decoder) text(data []byte) error {
	n := d.table.Rows
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
	d.push(Column{Numbers: zeros, Texts: texts}, 0)
	return nil
}
