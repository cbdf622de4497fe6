package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
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

// NewWriter returns a writer of a file.
func NewWriter(out io.Writer, o Options) *Writer {
	w := &Writer{out: out, options: o}
	w.write([]byte(magic))
	return w
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
	w.at += int64(len(b))
}

// An Encoders encodes columns on all processors. Several writers may use it, one after the other.
type Encoders struct{ all []*encoder }

// NewEncoders returns encoders for all processors.
func NewEncoders() *Encoders {
	e := new(Encoders)
	for range max(1, runtime.GOMAXPROCS(0)) {
		e.all = append(e.all, newEncoder())
	}
	return e
}

// Workers is the number of goroutines that encode columns.
func (e *Encoders) Workers() int { return len(e.all) }

// each encodes the columns of a row group, and takes their chunks in order.
func (e *Encoders) each(columns []Column, values func(worker, column int) Values, take func(*chunk)) {
	var turn sync.Mutex
	order := sync.NewCond(&turn)
	next, done := 0, 0
	var all sync.WaitGroup
	for worker, own := range e.all {
		all.Go(func() {
			turn.Lock()
			defer turn.Unlock()
			for next < len(columns) {
				i := next
				next++
				turn.Unlock()
				c := own.encode(&columns[i], values(worker, i))
				turn.Lock()
				for done < i {
					order.Wait()
				}
				take(c)
				done++
				order.Broadcast()
			}
		})
	}
	all.Wait()
}

// Group writes a row group. values returns the values of a column; each of the workers, which are goroutines, calls it,
// and is done with the values when it calls it again.
func (w *Writer) Group(e *Encoders, rows int, values func(worker, column int) Values) error {
	g := group{rows: rows, at: w.at}
	wrong := ""
	e.each(w.options.Columns, values, func(c *chunk) {
		if c.rows != rows {
			wrong = w.options.Columns[len(g.chunks)].Name
		}
		p := placed{chunk: *c, at: w.at, size: int64(len(c.bytes))}
		w.write(c.bytes)
		p.bytes = nil
		g.bytes += int64(p.plain)
		g.chunks = append(g.chunks, p)
	})
	if wrong != "" && w.err == nil {
		w.err = fmt.Errorf("column %s has not %d rows", wrong, rows)
	}
	g.size = w.at - g.at
	w.groups, w.rows = append(w.groups, g), w.rows+int64(rows)
	return w.err
}

// Close writes the footer. It does not close the file.
func (w *Writer) Close() error {
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
	}
	t.end()
	t.end()
	t.end()
}
