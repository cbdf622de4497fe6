// Package ndjsonsink writes the rows of a joined run as lines of JSON: an object a row, with its table, its partition
// and the fields that have a value. The tables are those of package joined.
package ndjsonsink

import (
	"io"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A Writer writes rows.
type Writer struct {
	out    io.Writer
	tables [][]field
	line   []byte
	begins map[beginning][]byte
	err    error
}

// A beginning is what the lines of a table begin with in a partition.
type beginning struct{ table, partition int }

// A field is a field of a row.
type field struct {
	member []byte // what stands in front of the value
	kind   reflect.Kind
	offset uintptr
	null   bool
	moment bool // a time in µs since 1970, which becomes text
}

// bufferBytes is how much is written at once, or a little more.
const bufferBytes = 64 << 10

// New returns a writer to a file.
func New(out io.Writer) *Writer {
	w := &Writer{out: out, begins: make(map[beginning][]byte)}
	for _, t := range joined.Tables {
		var fields []field
		for f := range t.Row.Fields() {
			_, null := f.Tag.Lookup("null")
			fields = append(fields, field{
				append(figures.AppendJSON([]byte{','}, f.Tag.Get("key")), ':'), f.Type.Kind(), f.Offset, null,
				f.Type == reflect.TypeFor[joined.Moment](),
			})
		}
		w.tables = append(w.tables, fields)
	}
	return w
}

// Take takes rows.
func (w *Writer) Take(of *joined.Partition, rows joined.Batch) {
	begin := w.begin(of, rows.Table)
	for i := range rows.N {
		w.line = append(w.line, begin...)
		for k := range w.tables[rows.Table] {
			w.line = w.tables[rows.Table][k].append(w.line, &rows, i)
		}
		w.line = append(w.line, "}\n"...)
		if len(w.line) >= bufferBytes {
			w.flush()
		}
	}
}

// begin is what the lines of a table begin with in a partition.
func (w *Writer) begin(of *joined.Partition, table int) []byte {
	key := beginning{table, of.Number}
	b := w.begins[key]
	if b == nil {
		b = figures.AppendJSON([]byte(`{"table":`), joined.Tables[table].Name)
		b = figures.AppendJSON(append(b, `,"run":`...), of.Run)
		b = figures.AppendJSON(append(b, `,"host":`...), of.Host)
		b = append(append(b, `,"rank":`...), of.Rank...) // a number
		b = figures.AppendJSON(append(b, `,"log_id":`...), of.Log)
		w.begins[key] = b
	}
	return b
}

// append appends the member of a row, or nothing if it has no value.
func (f *field) append(b []byte, rows *joined.Batch, row int) []byte {
	if f.moment {
		at := time.UnixMicro(*joined.Field[int64](rows, f.offset, row)).UTC()
		return append(at.AppendFormat(append(append(b, f.member...), '"'), time.RFC3339Nano), '"')
	}
	switch f.kind {
	case reflect.Int64:
		if v := *joined.Field[int64](rows, f.offset, row); !f.null || v != joined.NoNumber {
			return strconv.AppendInt(append(b, f.member...), v, 10)
		}
	case reflect.Uint32:
		if v := *joined.Field[uint32](rows, f.offset, row); !f.null || v != joined.None {
			return strconv.AppendUint(append(b, f.member...), uint64(v), 10)
		}
	case reflect.Float64:
		if v := *joined.Field[float64](rows, f.offset, row); !math.IsNaN(v) && !math.IsInf(v, 0) {
			return strconv.AppendFloat(append(b, f.member...), v, 'g', -1, 64)
		}
	case reflect.Bool:
		return strconv.AppendBool(append(b, f.member...), *joined.Field[bool](rows, f.offset, row))
	case reflect.String:
		if v := *joined.Field[string](rows, f.offset, row); !f.null || v != "" {
			return figures.AppendJSON(append(b, f.member...), v)
		}
	}
	return b
}

func (w *Writer) flush() {
	if w.err == nil {
		_, w.err = w.out.Write(w.line)
	}
	w.line = w.line[:0]
}

// Check returns the error of writing.
func (w *Writer) Check() error { return w.err }

// End writes the rest.
func (w *Writer) End(error) error {
	w.flush()
	return w.err
}
