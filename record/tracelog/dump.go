package tracelog

import (
	"io"
	"reflect"
	"slices"
	"strconv"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// DumpOptions say what Dump writes. The zero value is all records as text.
type DumpOptions struct {
	Filter Filter
	JSON   bool // an object a line, as docs/ndjson.md describes
}

// Dump writes the records of a log as text, a line each, in the order of the log.
// Where something is damaged or missing it writes a remark, a line that begins
// with #, and goes on. The error is that of writing, or of reading the file; what
// is damaged is in r.Damage.
func Dump(w io.Writer, r *Reader) error { return DumpWith(w, r, DumpOptions{}) }

// DumpWith is Dump of a part of the log, or in another form. With a filter, the
// parts of the log that it rules out are not read (see Select).
func DumpWith(w io.Writer, r *Reader, o DumpOptions) error {
	d := dumper{w: w, r: r, functions: newFunctions(), filter: &o.Filter, json: o.JSON}
	if d.all = reflect.ValueOf(o.Filter).IsZero(); !d.all {
		if err := r.Select(o.Filter.with(KindFunction)); err != nil {
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
	if d.err == nil && r.err != nil {
		return r.Err()
	}
	return d.err
}

// with is the filter with one more kind: what a line needs to be made.
func (f Filter) with(k Kind) Filter {
	if len(f.Kinds) > 0 {
		f.Kinds = append(slices.Clone(f.Kinds), k)
	}
	return f
}

type dumper struct {
	w         io.Writer
	r         *Reader
	filter    *Filter
	all       bool // the filter wants all
	json      bool
	buf       []byte
	err       error
	told      int // faults already shown
	functions functions
}

// dumpBuffer is the number of bytes from which text is written.
const dumpBuffer = 64 << 10

func (d *dumper) write() {
	if d.err == nil && len(d.buf) > 0 {
		_, d.err = d.w.Write(d.buf)
	}
	d.buf = d.buf[:0]
}

// remarks shows the damage found since the last block.
func (d *dumper) remarks() {
	for ; d.told < len(d.r.damage.Errors); d.told++ {
		d.remark(d.r.damage.Errors[d.told].Error())
	}
}

func (d *dumper) remark(text string) {
	if d.json {
		d.begin("remark")
		d.text("text", text)
		d.finish()
		return
	}
	d.buf = append(append(append(d.buf, "# "...), text...), '\n')
}

func (d *dumper) block(b *Block) {
	for i := 0; i < b.N && d.err == nil; i++ {
		if b.Kind == KindFunction && b.Known() {
			d.functions.add(b.at(0, i), b.str(1, i), b.str(3, i))
		}
		if !d.all && !d.filter.Match(b, i) {
			continue
		}
		d.begin(b.name)
		switch {
		case b.Kind == KindCall && b.Known():
			d.call(b, i)
		case b.fields == nil:
			d.unnamed(b, i)
		default:
			d.fields(b, i)
		}
		d.finish()
		if len(d.buf) >= dumpBuffer {
			d.write()
		}
	}
}

// fields appends what the log's schema says a record has.
func (d *dumper) fields(b *Block, i int) {
	own := schema.LayoutOf(b.Kind)
	for f := range b.fields {
		field := &b.fields[f]
		v := b.file[f].at(i)
		if v == 0 && !d.json && own != nil && f < len(own.Fields) && own.Fields[f].Optional {
			continue
		}
		switch field.Type {
		case schema.String:
			d.text(field.Name, b.table.text(v))
		case schema.Text:
			d.text(field.Name, b.file[f].text(i))
		default:
			d.number(field.Name, field.Type, v)
		}
	}
}

// unnamed appends the columns of a kind that is in no schema.
func (d *dumper) unnamed(b *Block, i int) {
	for f := range b.file {
		if v := b.file[f].at(i); v != 0 {
			d.number("field"+strconv.Itoa(f), schema.Uint, v)
		}
	}
}

// call appends a call: its function by name, and its arguments by the names that
// the function's record gives them.
func (d *dumper) call(b *Block, i int) {
	own := schema.LayoutOf(KindCall)
	for f := range callArg0 - 1 {
		v := b.at(f, i)
		switch {
		case f == callFunc:
			d.function(v)
		case v != 0 || d.json || !own.Fields[f].Optional:
			d.number(own.Fields[f].Name, own.Fields[f].Type, v)
		}
	}
	args := d.functions.byID[b.at(callFunc, i)].args
	nargs := int(min(b.at(callArg0-1, i), MaxArgs))
	d.beginArgs(nargs)
	for k := range nargs {
		arg := argument{name: argNames[k]}
		if k < len(args) {
			arg = args[k]
		}
		d.arg(arg, b.at(callArg0+k, i))
	}
	d.endArgs()
}

// Fields of a call: its function and its first argument, behind the number of arguments.
const (
	callFunc = 2
	callArg0 = 8
)

// argNames name the arguments that the function's record does not name.
var argNames = func() (names [MaxArgs]string) {
	for i := range names {
		names[i] = "arg" + strconv.Itoa(i)
	}
	return names
}()
