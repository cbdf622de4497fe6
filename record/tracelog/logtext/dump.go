package logtext

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Options say what Dump writes. The zero value is all records as text.
type Options struct {
	Filter tracelog.Filter
	JSON   bool // an object a line, as docs/ndjson.md describes
	// Wants chooses among the records that the filter wants; nil chooses all.
	Wants func(b *tracelog.Block, row int) bool
	// View shows values to people; nil shows them as the log has them.
	View *View
	// Only limits definitions to things to which others refer; nil is no limit.
	Only *References

	all bool // the filter wants all
}

// prepare notes and returns whether the filter wants all.
func (o *Options) prepare() bool {
	o.all = reflect.ValueOf(o.Filter).IsZero()
	return o.all
}

// shows reports whether the filter and Wants choose a record.
func (o *Options) shows(b *tracelog.Block, i int) bool {
	return (o.all || o.Filter.Match(b, i)) && (o.Wants == nil || o.Wants(b, i))
}

// Dump writes the records of a log, a line each, in the order of the log. With a filter, the
// parts of the log that it rules out are not read (see Reader.Select). Where something is
// damaged or missing Dump writes a remark and goes on. The error is that of writing, of reading
// the file, or of a log with more text than its size allows; what is damaged is in r.Damage.
func Dump(w io.Writer, r *tracelog.Reader, o Options) error {
	d := dumper{
		w: w, r: r, left: freeBytes + bytesPerByte*r.Size(), functions: newFunctions(), options: &o, view: o.View,
		form: form{json: o.JSON},
	}
	if !o.prepare() {
		if err := r.Select(withNames(o.Filter)); err != nil {
			return err
		}
	}
	for r.Next() {
		d.remarks()
		d.block(r.Block())
		if d.err != nil {
			return d.err
		}
	}
	d.remarks()
	d.write()
	if d.err != nil {
		return d.err
	}
	switch err := r.Err().(type) {
	case nil, *tracelog.CorruptError, *tracelog.TruncatedError:
		return nil
	default:
		return err
	}
}

// withNames is the filter that also wants functions and metrics: the lines of calls and samples have
// their names.
func withNames(f tracelog.Filter) tracelog.Filter {
	if len(f.Kinds) > 0 {
		f.Kinds = append(slices.Clone(f.Kinds), tracelog.KindFunction, tracelog.KindMetricSet, tracelog.KindMetric)
	}
	return f
}

// A dumper writes the lines of a log.
type dumper struct {
	form
	w         io.Writer
	r         *tracelog.Reader
	options   *Options
	view      *View
	err       error
	left      int64  // bytes that may still be written
	told      int    // faults already written
	refused   uint64 // records of which this was written
	functions functions
	columns   []tracelog.Column // of the current block: those of the fields of its lines
	views     []columnView      // of these columns, with a view
}

// writeSize is the number of bytes from which text is written.
const writeSize = 64 << 10

// Bounds of the text of a log: so many bytes for any log, and so many more for each byte of the log. A launch takes 8
// bytes in a log and 800 as JSON, and up to 10,000 with the longest names of kernels. A log that was made for it could
// fill any disk.
const (
	freeBytes    = 16 << 20
	bytesPerByte = 2048
)

func (d *dumper) write() {
	if d.left -= int64(len(d.buf)); d.left < 0 && d.err == nil {
		d.err = fmt.Errorf("%s has more text than a log of its %d bytes can have: no recorder writes such a log; choose "+
			"a part of it", d.r.Name(), d.r.Size())
	}
	if d.err == nil && len(d.buf) > 0 {
		_, d.err = d.w.Write(d.buf)
	}
	d.buf = d.buf[:0]
}

// remarks writes the damage found since the last block.
func (d *dumper) remarks() {
	for list := d.r.Damage().Errors; d.told < len(list); d.told++ {
		d.remark(list[d.told].Error())
	}
	if n := d.r.Refused(); n > d.refused {
		d.remark(fmt.Sprintf("records left out, with times that cannot be: %d", n-d.refused))
		d.refused = n
	}
}

func (d *dumper) block(b *tracelog.Block) {
	name, fields := b.Name(), b.Fields()
	own := ownFields(b)
	d.columns = appendColumns(d.columns[:0], b, own)
	if d.view != nil {
		shown := fields
		if own != nil {
			shown = own
		}
		d.views = d.view.columns(d.views[:0], b.Kind, shown)
		d.view.learn(b)
	}
	for i := 0; i < b.N && d.err == nil; i++ {
		if b.Known() && b.Kind == tracelog.KindFunction {
			d.functions.addRow(b, i)
		}
		if !d.options.shows(b, i) || d.options.Only != nil && !d.options.Only.names(b, i) {
			continue
		}
		d.begin(name)
		switch {
		case own != nil && b.Kind == tracelog.KindCall:
			d.call(i)
		case own != nil:
			d.sample(i)
		case fields == nil:
			d.unnamed(i)
		default:
			d.fields(b, fields, i)
		}
		d.finish()
		if len(d.buf) >= writeSize {
			d.write()
		}
	}
}

// ownFields are the fields of calls and samples, whose lines have the fields that this version
// knows; nil for other kinds, whose lines have those that the log describes.
func ownFields(b *tracelog.Block) []schema.Field {
	switch {
	case !b.Known():
		return nil
	case b.Kind == tracelog.KindCall:
		return callFields
	case b.Kind == tracelog.KindSample:
		return sampleFields
	}
	return nil
}

// appendColumns appends the columns from which the lines of a block are made: those of its own
// fields (ownFields), else those of the fields that the log describes.
func appendColumns(dst []tracelog.Column, b *tracelog.Block, own []schema.Field) []tracelog.Column {
	switch fields := b.Fields(); {
	case own != nil:
		for _, f := range own {
			dst = append(dst, b.Column(f.Name))
		}
	case fields != nil:
		for f := range fields {
			dst = append(dst, b.FileColumn(f))
		}
	default:
		for f := range schema.MaxColumns {
			dst = append(dst, b.FileColumn(f))
		}
	}
	return dst
}

// fields appends the fields that a record has by the log's schema.
func (d *dumper) fields(b *tracelog.Block, fields []schema.Field, i int) {
	own := schema.LayoutOf(b.Kind)
	for f := range fields {
		field, c := &fields[f], &d.columns[f]
		v := c.At(i)
		if v == 0 && !d.json && own != nil && f < len(own.Fields) && own.Fields[f].Optional {
			continue
		}
		switch {
		case field.Type == schema.String:
			d.viewedText(f, field, b.Text(v))
		case field.Type == schema.Text:
			d.text(field.Name, c.Text(i))
		case b.Known() && b.Kind == tracelog.KindAPI && f == apiRet && d.viewedResult(field, d.domain(b, i), int32(v)):
		case !d.viewed(f, field, v):
			d.number(field.Name, field.Type, v)
		}
	}
}

// domain is the library of an API record.
func (d *dumper) domain(b *tracelog.Block, i int) string {
	c := b.Column("domain")
	return domains[c.At(i)]
}

// unnamed appends the columns of a kind that is in no schema.
func (d *dumper) unnamed(i int) {
	for f := range d.columns {
		if v := d.columns[f].At(i); v != 0 {
			d.number("field"+strconv.Itoa(f), schema.Uint, v)
		}
	}
}

// callFields are the fields of a call. Its arguments stand last, behind their number.
var callFields = schema.LayoutOf(tracelog.KindCall).Fields

// domains are the libraries of API records.
var domains = map[uint64]string{tracelog.DomainDriver: "driver", tracelog.DomainRuntime: "runtime"}

// Numbers of fields of an API record and of a call: results, the function and the first argument.
var (
	apiRet   = schema.LayoutOf(tracelog.KindAPI).Field("ret")
	callRet  = schema.LayoutOf(tracelog.KindCall).Field("ret")
	callFunc = schema.LayoutOf(tracelog.KindCall).Field("func")
	callArg0 = schema.LayoutOf(tracelog.KindCall).Field("arg0")
)

// call appends a call: its function by name, and its arguments by the names that
// the function's record gives them.
func (d *dumper) call(i int) {
	nargs := callArg0 - 1
	for f := range nargs {
		field := &callFields[f]
		v := d.columns[f].At(i)
		switch {
		case f == callFunc:
			d.reference(field.Name, &d.functions, v)
		case f == callRet && d.viewedResult(field, d.functions.byID[d.columns[callFunc].At(i)].library,
			int32(d.columns[f].Int(i))):
		case v == 0 && !d.json && field.Optional:
		case !d.viewed(f, field, v):
			d.number(field.Name, field.Type, v)
		}
	}
	args := d.functions.byID[d.columns[callFunc].At(i)].args
	used := int(min(d.columns[nargs].At(i), tracelog.MaxArgs))
	d.beginArgs(used)
	for k := range used {
		arg := argument{name: argNames[k]}
		if k < len(args) {
			arg = args[k]
		}
		d.arg(arg, d.columns[callArg0+k].At(i))
	}
	d.endArgs()
}

// argNames name the arguments that the function's record does not name.
var argNames = func() (names [tracelog.MaxArgs]string) {
	for i := range names {
		names[i] = "arg" + strconv.Itoa(i)
	}
	return names
}()
