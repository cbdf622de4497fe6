package tracelog

import (
	"strconv"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// The two forms of a line: text, and a JSON object. Values that people read in
// hexadecimal are JSON strings, all other numbers JSON numbers of up to 64 bits.

func (d *dumper) begin(kind string) {
	if !d.json {
		d.buf = append(d.buf, kind...)
		return
	}
	d.buf = append(appendJSON(append(d.buf, `{"kind":`...), kind), ',')
}

func (d *dumper) finish() {
	if d.json {
		d.closeObject()
	}
	d.buf = append(d.buf, '\n')
}

// closeObject puts the brace in place of the comma behind the last member.
func (d *dumper) closeObject() {
	if last := len(d.buf) - 1; d.buf[last] == ',' {
		d.buf = d.buf[:last]
	}
	d.buf = append(d.buf, '}')
}

func (d *dumper) name(name string) {
	if d.json {
		d.buf = append(appendJSON(d.buf, name), ':')
		return
	}
	d.buf = append(append(append(d.buf, ' '), name...), '=')
}

// comma ends a member of an object.
func (d *dumper) comma() {
	if d.json {
		d.buf = append(d.buf, ',')
	}
}

func (d *dumper) text(name, value string) {
	d.name(name)
	if d.json {
		d.buf = appendJSON(d.buf, value)
	} else {
		d.buf = appendText(d.buf, value)
	}
	d.comma()
}

func (d *dumper) number(name string, t schema.Type, v uint64) {
	d.name(name)
	d.quote(t == schema.Hex)
	d.buf = appendNumber(d.buf, t, v)
	d.quote(t == schema.Hex)
	d.comma()
}

// quote puts a value that is no JSON number between quotes.
func (d *dumper) quote(hex bool) {
	if d.json && hex {
		d.buf = append(d.buf, '"')
	}
}

// function appends what a call names its function by.
func (d *dumper) function(id uint64) {
	d.name("func")
	d.quote(true)
	d.buf = d.functions.appendRef(d.buf, id) // bare: nothing to escape
	d.quote(true)
	d.comma()
}

func (d *dumper) beginArgs(nargs int) {
	switch {
	case d.json:
		d.buf = append(d.buf, `"args":{`...)
	case nargs > 0:
		d.buf = append(d.buf, " args:"...)
	}
}

func (d *dumper) arg(a argument, v uint64) {
	d.name(a.name)
	start := len(d.buf)
	d.buf = appendArg(d.buf, a.typ, v)
	if d.json && len(d.buf) > start+1 && d.buf[start+1] == 'x' {
		d.buf = append(d.buf, '"', '"')
		copy(d.buf[start+1:], d.buf[start:len(d.buf)-2])
		d.buf[start] = '"'
	}
	d.comma()
}

func (d *dumper) endArgs() {
	if d.json {
		d.closeObject()
	}
}

// appendJSON appends a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendJSON(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s { // an invalid byte is U+FFFD
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20 || r == 0x7F:
			dst = append(dst, `\u00`...)
			if r < 0x10 {
				dst = append(dst, '0')
			}
			dst = strconv.AppendUint(dst, uint64(r), 16)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
