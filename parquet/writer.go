package parquet

import (
	"encoding/binary"
	"errors"
	"io"
)

const magic = "PAR1"

// Options are the facts of a file.
type Options struct {
	Columns   []Column
	Sorted    string // column by which the rows of each row group are sorted, ascending; "" for none
	CreatedBy string // program and version
	Facts     []Fact // metadata of the file
}

// A Fact is a key and its value.
type Fact struct{ Key, Value string }

// A Writer writes one file.
type Writer struct {
	out     io.Writer
	options Options
	at      int64 // bytes written
	rows    int64
	groups  []group
	err     error
}

// A group is a row group in the footer.
type group struct {
	rows   int
	bytes  int64 // without compression
	at     int64
	size   int64
	chunks []placed
}

// A placed is a chunk in the file, without its bytes.
type placed struct {
	chunk
	at, size int64
}

// NewWriter returns a writer of a file. It writes nothing yet.
func NewWriter(out io.Writer, o Options) *Writer {
	return &Writer{out: out, options: o}
}

// begin writes the beginning of the file.
func (w *Writer) begin() {
	if w.at == 0 {
		w.write([]byte(magic))
	}
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
	w.at += int64(len(b))
}

// Close writes the footer. All row groups have been written: see [Encoders.Wait]. It does not close the file.
func (w *Writer) Close() error {
	w.begin()
	b := w.footer()
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)))
	w.write(append(b, magic...))
	err := w.err
	if w.err == nil {
		w.err = errors.New("the file is closed")
	}
	return err
}

func (w *Writer) footer() []byte {
	t, o := newThrift(), &w.options
	t.i32(1, 1)
	t.list(2, thriftStruct, 1+len(o.Columns))
	t.open()
	t.binary(4, []byte("schema"))
	t.i32(5, int32(len(o.Columns)))
	t.end()
	for i := range o.Columns {
		o.Columns[i].describe(t)
	}
	t.i64(3, w.rows)
	t.list(4, thriftStruct, len(w.groups))
	for i := range w.groups {
		w.describe(t, &w.groups[i])
	}
	if len(o.Facts) > 0 {
		t.list(5, thriftStruct, len(o.Facts))
		for _, f := range o.Facts {
			t.open()
			t.binary(1, []byte(f.Key))
			t.binary(2, []byte(f.Value))
			t.end()
		}
	}
	t.binary(6, []byte(o.CreatedBy))
	t.list(7, thriftStruct, len(o.Columns)) // bounds are in the order of the type
	for range o.Columns {
		t.open()
		t.begin(1)
		t.end()
		t.end()
	}
	return append(t.b, 0)
}

// describe adds a row group to the footer.
func (w *Writer) describe(t *thrift, g *group) {
	t.open()
	t.list(1, thriftStruct, len(g.chunks))
	for i := range g.chunks {
		g.chunks[i].describe(t, &w.options.Columns[i])
	}
	t.i64(2, g.bytes)
	t.i64(3, int64(g.rows))
	for i := range w.options.Columns {
		if w.options.Columns[i].Name == w.options.Sorted {
			t.list(4, thriftStruct, 1)
			t.open()
			t.i32(1, int32(i))
			t.bool(2, false)
			t.bool(3, false)
			t.end()
		}
	}
	t.i64(5, g.at)
	t.i64(6, g.size)
	t.end()
}

// describe adds a chunk to the footer.
func (p *placed) describe(t *thrift, c *Column) {
	t.open()
	t.i64(2, 0)
	t.begin(3)
	t.i32(1, physical[c.Type])
	t.list(2, thriftI32, len(p.encodings))
	for _, e := range p.encodings {
		t.zigzag(int64(e))
	}
	t.list(3, thriftBinary, 1)
	t.bytes([]byte(c.Name))
	t.i32(4, codecZstd)
	t.i64(5, int64(p.rows))
	t.i64(6, int64(p.plain))
	t.i64(7, p.size)
	t.i64(9, p.at+int64(p.dictionary))
	if p.dictionary > 0 {
		t.i64(11, p.at)
	}
	t.begin(12)
	t.i64(3, int64(p.nulls))
	if p.least != nil {
		t.binary(5, p.most)
		t.binary(6, p.least)
		t.bool(7, !p.mostCut)
		t.bool(8, !p.leastCut)
	}
	t.end()
	t.end()
	t.end()
}
