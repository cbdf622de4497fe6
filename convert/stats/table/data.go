package table

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteCSV writes a table as CSV, with a line of keys.
func (t *Table) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	record := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		record[i] = c.Key
	}
	out.Write(record) // Flush keeps the error
	for _, row := range t.Rows {
		for i, v := range row.Cells {
			record[i] = csvCell(v, t.Columns[i].Unit)
		}
		out.Write(record)
	}
	out.Flush()
	return out.Error()
}

// csvCell writes a value as a cell of CSV.
func csvCell(v any, u Unit) string {
	switch v := v.(type) {
	case Cell:
		return csvCell(v.Value, v.Unit)
	case string, []string:
		return csvText(plain(v, u))
	}
	return plain(v, u)
}

// csvText is a text as a cell of CSV. A traced program chooses its texts, and spreadsheets take one that begins like a
// formula for one: it gets an apostrophe in front. Line breaks become spaces.
func csvText(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		s = "'" + s
	}
	return lineBreaks.Replace(s)
}

var lineBreaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// WriteJSON writes an object: the members of a head, a list for each table, and the objects
// "reasons", "notes" and "left_out", which have a member for each table that has them.
func WriteJSON(w io.Writer, head []Member, tables []*Table) error {
	var b bytes.Buffer
	b.WriteString("{\n")
	for _, m := range head {
		member(&b, m)
		b.WriteString(",\n")
	}
	var reasons, notes, leftOut []Member
	for _, t := range tables {
		list(&b, t)
		if len(t.Rows) == 0 {
			reasons = append(reasons, Member{t.Name, t.Reason})
		}
		if len(t.Notes) > 0 {
			notes = append(notes, Member{t.Name, t.Notes})
		}
		if t.LeftOut > 0 {
			leftOut = append(leftOut, Member{t.Name, uint64(t.LeftOut)})
		}
	}
	object(&b, "reasons", reasons)
	b.WriteString(",\n")
	object(&b, "notes", notes)
	b.WriteString(",\n")
	object(&b, "left_out", leftOut)
	b.WriteString("\n}\n")
	_, err := w.Write(b.Bytes())
	return err
}

// A Member is a member of a JSON object.
type Member struct {
	Name  string
	Value any
}

// list writes the member of a table, a row a line.
func list(b *bytes.Buffer, t *Table) {
	fmt.Fprintf(b, "  %s: [", encoded(t.Name))
	for i, row := range t.Rows {
		b.WriteString(strings.Repeat(",", min(i, 1)) + "\n    {")
		for k, v := range row.Cells {
			fmt.Fprintf(b, "%s%s: %s", strings.Repeat(", ", min(k, 1)), encoded(t.Columns[k].Key), value(v, t.Columns[k].Unit))
		}
		b.WriteString("}")
	}
	if len(t.Rows) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteString("],\n")
}

func object(b *bytes.Buffer, name string, members []Member) {
	fmt.Fprintf(b, "  %s: {", encoded(name))
	for i, m := range members {
		b.WriteString(strings.Repeat(",", min(i, 1)) + "\n  ")
		member(b, m)
	}
	if len(members) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteString("}")
}

func member(b *bytes.Buffer, m Member) { fmt.Fprintf(b, "  %s: %s", encoded(m.Name), encoded(m.Value)) }

// value writes the value of a cell.
func value(v any, u Unit) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case Cell:
		return value(v.Value, v.Unit)
	case string:
		return encoded(v)
	case []string:
		return "[" + joined(v, ", ", func(s string) string { return encoded(s) }) + "]"
	case []uint64:
		return "[" + joined(v, ", ", func(n uint64) string { return plain(n, u) }) + "]"
	case []float64:
		return "[" + joined(v, ", ", func(n float64) string { return value(n, u) }) + "]"
	case float64:
		if !finite(v) {
			return "null"
		}
	case uint64:
		if u == Address {
			return encoded(plain(v, u))
		}
	}
	return plain(v, u)
}

// encoded writes a value as JSON, with < and > as they are: kernels have them in their names.
func encoded(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "null" // the values are texts, numbers and lists of them: they have a JSON form
	}
	return strings.TrimSuffix(b.String(), "\n")
}
