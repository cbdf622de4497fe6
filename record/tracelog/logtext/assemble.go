package logtext

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Assemble adds the records of a text to w. The text has the form that Dump writes. A field
// that is left out is 0. Fields may stand in any order, but a call's arguments stand last. Lines
// that are empty or begin with # are skipped. Assemble does not add the End record but
// returns it, for Close; it is the zero End where the text has none. An error names the line.
func Assemble(text io.Reader, w *tracelog.Writer) (tracelog.End, error) {
	a := assembler{w: w, functions: newFunctions()}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 4*schema.MaxString)
	for n := 1; lines.Scan(); n++ {
		if err := a.line(lines.Text()); err != nil {
			return a.end, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return a.end, lines.Err()
}

// An assembler makes records of lines.
type assembler struct {
	w         *tracelog.Writer
	functions functions
	end       tracelog.End
}

func (a *assembler) line(s string) error {
	s = strings.TrimSpace(s)
	if s == "" || s[0] == '#' {
		return nil
	}
	name, rest, _ := strings.Cut(s, " ")
	kind, ok := tracelog.KindByName(name)
	if !ok {
		return fmt.Errorf("%q is no kind of record", name)
	}
	record := tracelog.NewRecord(kind)
	if record == nil {
		a.end = tracelog.End{}
		return a.fields(kind, &a.end, rest)
	}
	if call, ok := record.(*tracelog.Call); ok {
		if err := a.call(call, rest); err != nil {
			return err
		}
	} else if err := a.fields(kind, record, rest); err != nil {
		return err
	}
	if f, ok := record.(*tracelog.Function); ok {
		a.functions.define(uint64(f.ID), f.Name, f.Library, f.Args)
	}
	a.w.Add(record)
	return nil
}

// fields reads the fields of a record of a kind.
func (a *assembler) fields(kind tracelog.Kind, record any, s string) error {
	l := schema.LayoutOf(kind)
	for {
		name, value, rest, err := cutField(s)
		if err != nil || name == "" {
			return err
		}
		s = rest
		f := l.Field(name)
		switch {
		case f < 0:
			return fmt.Errorf("a %v record has no field %q", kind, name)
		case kind == tracelog.KindCall && f == callFunc:
			id, ok := a.functions.parseRef(value)
			if !ok {
				return fmt.Errorf("%s: there is no function %q above", name, value)
			}
			value = strconv.FormatUint(id, 10)
		}
		if err := a.set(memberOf(record, &l.Fields[f]), l.Fields[f].Type, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// memberOf is the member of a record that has a field.
func memberOf(record any, f *schema.Field) reflect.Value {
	name, index, isArray := strings.Cut(strings.TrimSuffix(f.GoName(), "]"), "[")
	member := reflect.ValueOf(record).Elem().FieldByName(name)
	if !isArray {
		return member
	}
	i, err := strconv.Atoi(index)
	if err != nil {
		panic(err) // the tables are constant
	}
	return member.Index(i)
}

// set sets a member to the value of its field.
func (a *assembler) set(member reflect.Value, t schema.Type, value string) error {
	switch t {
	case schema.String:
		text, err := parseText(value)
		member.SetString(text)
		return err
	case schema.Int:
		v, err := strconv.ParseInt(value, 0, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", value)
		}
		if member.OverflowInt(v) {
			return fmt.Errorf("%q has more than %d bits", value, member.Type().Bits())
		}
		member.SetInt(v)
		return nil
	}
	v, err := strconv.ParseUint(value, 0, 64)
	if err != nil {
		return fmt.Errorf("%q is no number", value)
	}
	if member.OverflowUint(v) {
		return fmt.Errorf("%q has more than %d bits", value, member.Type().Bits())
	}
	member.SetUint(v)
	return nil
}

// call reads a call.
func (a *assembler) call(c *tracelog.Call, s string) error {
	fields, args, _ := strings.Cut(" "+s+" ", " args: ")
	if err := a.fields(tracelog.KindCall, c, fields); err != nil {
		return err
	}
	return a.args(c, args)
}

// args reads the arguments of a call by their place; their names are for people.
func (a *assembler) args(c *tracelog.Call, s string) error {
	known := a.functions.byID[uint64(c.Func)].args
	for n := 0; ; n++ {
		name, value, rest, err := cutField(s)
		if err != nil || name == "" {
			return err
		}
		s = rest
		if n == tracelog.MaxArgs {
			return fmt.Errorf("a call has at most %d arguments", tracelog.MaxArgs)
		}
		t := argHex
		if n < len(known) {
			t = known[n].typ
		}
		if c.Args[n], err = parseArg(t, value); err != nil {
			return fmt.Errorf("%s: %q is no number", name, value)
		}
		c.NArgs = uint32(n + 1)
	}
}

var errField = errors.New("a field must be name=value")

// cutField takes the first name=value off a line. The name is empty at its end.
func cutField(s string) (name, value, rest string, err error) {
	s = strings.TrimLeft(s, " ")
	if s == "" {
		return "", "", "", nil
	}
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" || strings.ContainsAny(name, " \"") {
		return "", "", "", errField
	}
	if !strings.HasPrefix(value, `"`) {
		value, rest, _ = strings.Cut(value, " ")
		return name, value, rest, nil
	}
	quoted, err := strconv.QuotedPrefix(value)
	if err != nil {
		return "", "", "", fmt.Errorf("%s: the quote is not closed", name)
	}
	return name, quoted, value[len(quoted):], nil
}

// parseText is the inverse of appendText.
func parseText(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return s, nil
	}
	text, err := strconv.Unquote(s)
	if err != nil {
		return "", errField
	}
	return text, nil
}
