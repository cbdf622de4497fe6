package logtext

import (
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A View shows values as people want them: times from the beginning of the recording, durations
// with a unit, names for numbers. Assemble does not read this form. A View serves one Dump.
type View struct {
	Begin uint64 // times count from here
	// the names of an enumeration or of flags, nil without; a value without a name has ""
	Names    func(kind, field string) func(uint64) string
	Result   func(library string, code int32) string // the name of a failure, "" for success
	Demangle func(string) string
	Text     func(string) string // a text as it is shown; not for JSON
	Samples  SampleValues        // nil shows stored numbers

	demangled map[string]string
}

// mangled are the fields that hold mangled names.
var mangled = map[tracelog.Kind]string{
	tracelog.KindKernel: "name", tracelog.KindSymbol: "name", tracelog.KindCaller: "symbol",
}

// isMangled reports whether a field holds mangled names.
func isMangled(k tracelog.Kind, field string) bool { return mangled[k] == field }

// name demangles a name, each once.
func (v *View) name(text string) string {
	if !strings.HasPrefix(text, "_") {
		return text // C++, Rust and D begin so
	}
	name, ok := v.demangled[text]
	if !ok {
		if v.demangled == nil {
			v.demangled = make(map[string]string)
		}
		name = v.Demangle(text)
		v.demangled[text] = name
	}
	return name
}

// appendTime appends a time, in seconds from the beginning of the recording: 0.387291439s.
func (v *View) appendTime(dst []byte, at uint64) []byte {
	const second = 1_000_000_000
	if at == 0 {
		return append(dst, "unknown"...)
	}
	ns := at - v.Begin
	if at < v.Begin {
		dst, ns = append(dst, '-'), v.Begin-at
	}
	dst = strconv.AppendUint(dst, ns/second, 10)
	fraction := strconv.AppendUint(nil, second+ns%second, 10)
	fraction[0] = '.'
	return append(append(dst, fraction...), 's')
}

// appendDuration appends a duration in the unit that suits it, without a loss: 2.9us.
func appendDuration(dst []byte, ns uint64) []byte {
	unit, name, digits := uint64(1), "ns", 0
	switch {
	case ns >= 1e9:
		unit, name, digits = 1e9, "s", 9
	case ns >= 1e6:
		unit, name, digits = 1e6, "ms", 6
	case ns >= 1e3:
		unit, name, digits = 1e3, "us", 3
	}
	dst = strconv.AppendUint(dst, ns/unit, 10)
	if rest := ns % unit; rest > 0 {
		fraction := strconv.FormatUint(unit+rest, 10)[1 : 1+digits]
		dst = append(append(dst, '.'), strings.TrimRight(fraction, "0")...)
	}
	return append(dst, name...)
}

// learn reads what a block says of values to come.
func (v *View) learn(b *tracelog.Block) {
	if v.Samples != nil {
		v.Samples.Take(b)
	}
}

// A columnView shows a field of one kind of record. The zero columnView shows it as it is.
type columnView struct {
	names   func(uint64) string
	time    bool
	mangled bool
}

// columns returns the views of some fields.
func (v *View) columns(dst []columnView, k tracelog.Kind, fields []schema.Field) []columnView {
	for i := range fields {
		f := &fields[i]
		dst = append(dst, columnView{
			names:   v.Names(k.String(), f.Name),
			time:    f.Type == schema.Time && k != tracelog.KindClock, // whose times relate the clocks
			mangled: isMangled(k, f.Name),
		})
	}
	return dst
}

// viewed appends a number as the view shows it. It returns false for one that the view shows as
// it is.
func (d *dumper) viewed(f int, field *schema.Field, v uint64) bool {
	if d.view == nil || d.json {
		return false
	}
	how := &d.views[f]
	switch {
	case how.time:
		d.name(field.Name)
		d.buf = d.view.appendTime(d.buf, v)
		return true
	case field.Type == schema.Dur:
		d.name(field.Name)
		d.buf = appendDuration(d.buf, v)
		return true
	case how.names != nil:
		if name := how.names(v); name != "" {
			d.text(field.Name, name)
			return true
		}
	}
	return false
}

// viewedResult appends the name of a failure. It returns false for success.
func (d *dumper) viewedResult(field *schema.Field, library string, code int32) bool {
	if d.view == nil || d.json {
		return false
	}
	name := d.view.Result(library, code)
	if name != "" {
		d.text(field.Name, name)
	}
	return name != ""
}

// viewedText appends a text; a mangled name demangled, in JSON beside the name itself.
func (d *dumper) viewedText(f int, field *schema.Field, text string) {
	if d.view == nil {
		d.text(field.Name, text)
		return
	}
	name := text
	if d.views[f].mangled {
		name = d.view.name(text)
	}
	if !d.json {
		d.text(field.Name, d.view.Text(name))
		return
	}
	d.text(field.Name, text)
	if name != text {
		d.text("demangled", name)
	}
}
