package tracelog

import (
	"io"
	"strconv"
)

// Dump writes the records of a log as text, a line each, in the order of the log.
// Where something is damaged or missing it writes a remark, a line that begins
// with #, and goes on. The error is that of writing, or of reading the file; what
// is damaged is in r.Damage.
func Dump(w io.Writer, r *Reader) error {
	d := dumper{w: w, r: r, functions: newFunctions()}
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

type dumper struct {
	w         io.Writer
	r         *Reader
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
		d.buf = append(d.buf, "# "...)
		d.buf = append(d.buf, d.r.damage.Errors[d.told].Error()...)
		d.buf = append(d.buf, '\n')
	}
}

func (d *dumper) block(b *Block) {
	for i := 0; i < b.N && d.err == nil; i++ {
		d.buf = append(d.buf, b.name...)
		switch {
		case b.Kind == KindCall && b.Known():
			d.call(b, i)
		case b.fields == nil:
			d.unnamed(b, i)
		default:
			d.fields(b, i)
		}
		d.buf = append(d.buf, '\n')
		if b.Kind == KindFunction && b.Known() {
			d.functions.add(b.at(0, i), b.str(1, i), b.str(3, i))
		}
		if len(d.buf) >= dumpBuffer {
			d.write()
		}
	}
}

// fields appends what the log's schema says a record has.
func (d *dumper) fields(b *Block, i int) {
	own := layouts[b.Kind]
	for f := range b.fields {
		field := &b.fields[f]
		v := b.file[f].at(i)
		if v == 0 && own != nil && f < len(own.Fields) && own.Fields[f].use&optional != 0 {
			continue
		}
		d.field(field.Name)
		switch field.Type {
		case TypeString:
			d.buf = appendText(d.buf, d.r.strings.text(v))
		case TypeText:
			d.buf = appendText(d.buf, b.file[f].text(i))
		default:
			d.buf = appendNumber(d.buf, field.Type, v)
		}
	}
}

// unnamed appends the columns of a kind that is in no schema.
func (d *dumper) unnamed(b *Block, i int) {
	for f := range b.file {
		if v := b.file[f].at(i); v != 0 {
			d.field("field" + strconv.Itoa(f))
			d.buf = strconv.AppendUint(d.buf, v, 10)
		}
	}
}

func (d *dumper) field(name string) {
	d.buf = append(append(append(d.buf, ' '), name...), '=')
}

// call appends a call: its function by name, and behind "args:" the arguments by
// the names that the function's record gives them.
func (d *dumper) call(b *Block, i int) {
	own := layouts[KindCall]
	for f := range callArg0 - 1 {
		v := b.at(f, i)
		if v == 0 && own.Fields[f].use&optional != 0 {
			continue
		}
		d.field(own.Fields[f].Name)
		if own.Fields[f].Name == "func" {
			d.buf = d.functions.appendRef(d.buf, v)
			continue
		}
		d.buf = appendNumber(d.buf, own.Fields[f].Type, v)
	}
	args := d.functions.byID[b.at(callFunc, i)].args
	nargs := int(min(b.at(callArg0-1, i), MaxArgs))
	if nargs > 0 {
		d.buf = append(d.buf, " args:"...)
	}
	for k := range nargs {
		arg := argument{}
		if k < len(args) {
			arg = args[k]
			d.field(arg.name)
		} else {
			d.field(argNames[k])
		}
		d.buf = appendArg(d.buf, arg.typ, b.at(callArg0+k, i))
	}
}

// callFunc is the field of a call's function.
const callFunc = 2

// argNames name the arguments that the function's record does not name.
var argNames = func() (names [MaxArgs]string) {
	for i := range names {
		names[i] = "arg" + strconv.Itoa(i)
	}
	return names
}()
