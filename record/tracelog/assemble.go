package tracelog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Assemble adds to w the records of a text in the form that Dump writes: it lets a
// test's input be written by hand. A field that is left out is 0; the fields may
// stand in any order, but a call's arguments stand last. Lines that are empty or
// begin with # are skipped. The End record is not added but returned, for Close;
// it is the zero End where the text has none. An error names the line.
func Assemble(text io.Reader, w *Writer) (End, error) {
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

type assembler struct {
	w         *Writer
	functions functions
	end       End
	kind      Kind
	row       row
	texts     [len(row{})]string // of string fields
}

func (a *assembler) line(s string) error {
	s = strings.TrimSpace(s)
	if s == "" || s[0] == '#' {
		return nil
	}
	name, rest, _ := strings.Cut(s, " ")
	kind, ok := KindByName(name)
	if !ok {
		return fmt.Errorf("%q is no kind of record", name)
	}
	a.kind, a.row, a.texts = kind, row{}, [len(a.texts)]string{}
	args := ""
	if kind == KindCall {
		rest, args, _ = strings.Cut(rest+" ", " args: ")
		if strings.HasPrefix(rest, "args: ") {
			rest, args = "", rest[len("args: "):]
		}
	}
	if err := a.fields(rest); err != nil {
		return err
	}
	if err := a.args(args); err != nil {
		return err
	}
	a.add()
	return nil
}

func (a *assembler) fields(s string) error {
	l := schema.LayoutOf(a.kind)
	for {
		name, value, rest, err := cutField(s)
		if err != nil || name == "" {
			return err
		}
		s = rest
		f := 0
		for f < len(l.Fields) && l.Fields[f].Name != name {
			f++
		}
		if f == len(l.Fields) {
			return fmt.Errorf("a %v record has no field %q", a.kind, name)
		}
		if err := a.set(f, l.Fields[f].Type, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func (a *assembler) set(f int, t schema.Type, value string) (err error) {
	switch {
	case t == schema.String:
		a.texts[f], err = parseText(value)
	case a.kind == KindCall && f == callFunc:
		id, ok := a.functions.parseRef(value)
		if !ok {
			return fmt.Errorf("there is no function %q above", value)
		}
		a.row[f] = id
	default:
		a.row[f], err = parseNumber(t, value)
		if err != nil {
			return fmt.Errorf("%q is no number", value)
		}
	}
	return err
}

// args reads the arguments of a call by their place; their names are for people.
func (a *assembler) args(s string) error {
	known := a.functions.byID[a.row[callFunc]].args
	for n := 0; ; n++ {
		name, value, rest, err := cutField(s)
		if err != nil || name == "" {
			return err
		}
		s = rest
		if n == MaxArgs {
			return fmt.Errorf("a call has at most %d arguments", MaxArgs)
		}
		t := argHex
		if n < len(known) {
			t = known[n].typ
		}
		if a.row[callArg0+n], err = parseArg(t, value); err != nil {
			return fmt.Errorf("%s: %q is no number", name, value)
		}
		a.row[callArg0-1] = uint64(n + 1)
	}
}

// add gives the row to the writer.
func (a *assembler) add() {
	switch a.kind {
	case KindEnd:
		a.end = End{Time: a.row[0], Complete: uint32(a.row[1]), Reason: a.texts[2]}
		return
	case KindFunction:
		a.functions.add(a.row[0], a.texts[1], a.texts[3])
	}
	if a.w.begin(a.kind) {
		for f, field := range schema.LayoutOf(a.kind).Fields {
			if field.Type == schema.String {
				a.row[f] = a.w.in.id(a.texts[f])
			}
		}
		a.w.add(a.kind, &a.row)
	}
	a.w.mu.Unlock()
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
