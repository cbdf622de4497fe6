package logtext

import (
	"strconv"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A form collects lines of text or of JSON, which have an object each. In JSON, values that
// people read in hexadecimal are strings, all others are numbers of up to 64 bits.
type form struct {
	json bool
	buf  []byte
}

// begin begins the line of a record of a kind.
func (f *form) begin(kind string) {
	if !f.json {
		f.buf = append(f.buf, kind...)
		return
	}
	f.buf = append(figures.AppendJSON(append(f.buf, `{"kind":`...), kind), ',')
}

func (f *form) finish() {
	if f.json {
		f.closeObject()
	}
	f.buf = append(f.buf, '\n')
}

// remark appends the line of a remark.
func (f *form) remark(text string) {
	if f.json {
		f.begin("remark")
		f.text("text", text)
		f.finish()
		return
	}
	f.buf = append(f.buf, "# "...)
	if isShown(text) {
		f.buf = append(f.buf, text...)
	} else {
		f.buf = strconv.AppendQuote(f.buf, text)
	}
	f.buf = append(f.buf, '\n')
}

// closeObject puts the brace in place of the comma behind the last member.
func (f *form) closeObject() {
	if last := len(f.buf) - 1; f.buf[last] == ',' {
		f.buf = f.buf[:last]
	}
	f.buf = append(f.buf, '}')
}

func (f *form) name(name string) {
	if f.json {
		f.buf = append(figures.AppendJSON(f.buf, name), ':')
		return
	}
	f.buf = append(append(append(f.buf, ' '), name...), '=')
}

// comma ends a member of an object.
func (f *form) comma() {
	if f.json {
		f.buf = append(f.buf, ',')
	}
}

func (f *form) text(name, value string) {
	f.name(name)
	if f.json {
		f.buf = figures.AppendJSON(f.buf, value)
	} else {
		f.buf = appendText(f.buf, value)
	}
	f.comma()
}

func (f *form) number(name string, t schema.Type, v uint64) {
	f.name(name)
	f.quote(t == schema.Hex)
	f.buf = appendNumber(f.buf, t, v)
	f.quote(t == schema.Hex)
	f.comma()
}

// quote puts a value that is no JSON number between quotes.
func (f *form) quote(needed bool) {
	if f.json && needed {
		f.buf = append(f.buf, '"')
	}
}

// reference appends the field that names a function.
func (f *form) reference(name string, known *functions, id uint64) {
	f.name(name)
	f.quote(true)
	f.buf = known.appendRef(f.buf, id) // bare: nothing to escape
	f.quote(true)
	f.comma()
}

// beginArgs begins the arguments of a call.
func (f *form) beginArgs(nargs int) {
	switch {
	case f.json:
		f.buf = append(f.buf, `"args":{`...)
	case nargs > 0:
		f.buf = append(f.buf, " args:"...)
	}
}

func (f *form) arg(a argument, v uint64) {
	f.name(a.name)
	start := len(f.buf)
	f.buf = appendArg(f.buf, a.typ, v)
	if f.json && len(f.buf) > start+1 && f.buf[start+1] == 'x' {
		f.buf = append(f.buf, '"', '"')
		copy(f.buf[start+1:], f.buf[start:len(f.buf)-2])
		f.buf[start] = '"'
	}
	f.comma()
}

// beginValues begins the values of a sample; endArgs ends them.
func (f *form) beginValues() {
	if f.json {
		f.buf = append(f.buf, `"values":{`...)
		return
	}
	f.buf = append(f.buf, " values:"...)
}

// value appends a value of a sample.
func (f *form) value(v SampleValue) {
	if f.json {
		f.name(v.Name)
		f.buf = append(f.buf, v.JSON...)
		f.comma()
		return
	}
	f.buf = appendText(append(f.buf, ' '), v.Label)
	f.buf = append(append(f.buf, '='), v.Text...)
}

func (f *form) endArgs() {
	if f.json {
		f.closeObject()
	}
}

// isShown reports whether people can see every character of a text: none is a control character
// or changes the direction of writing.
func isShown(s string) bool {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}
