// Package table writes tables: as text for a terminal, as Markdown, CSV and JSON.
//
// Input: tables, whose columns say what their numbers are. Output: text.
package table

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// A Unit is the kind of value that a column has. It decides how people see the value; CSV and
// JSON have the value itself.
type Unit uint8

// The units, with the type of their values. Any value may be nil: not known. Text, Moment and
// Share may have lists: []string, []uint64 and []float64.
const (
	Text       Unit = iota // string
	Number                 // uint64, a count or a name that is a number
	Duration               // uint64 or float64, ns
	Moment                 // uint64, ns from the start of the recording
	Bytes                  // uint64 or float64
	Share                  // float64, 1 is all
	Rate                   // float64, GB/s
	Address                // uint64
	Flag                   // bool
	ID                     // uint64, a number that names something
	Percent                // float64, a change: 0.05 is 5 % more
	Difference             // float64, ns more
	Figures                // string, numbers with their units
	Plain                  // string, a word of ours
	OfPeak                 // float64, 37.5 is 37.5 %
	ByteRate               // float64, bytes a second
	Hertz                  // float64
	Watt                   // float64
	Celsius                // float64, °C
)

// A Cell is a value with a unit of its own, in a column of several units.
type Cell struct {
	Value any
	Unit  Unit
}

// A Column describes the values of a column.
type Column struct {
	Key   string // name in JSON and CSV
	Title string // name in text and Markdown, "" for a column that only JSON and CSV have
	Unit  Unit
	Rank  int // the columns with the highest rank are left out first where there is no room
	// Short is the short text of a row where lines have a width, unless two texts then read alike; "" for the whole text.
	// nil: texts are not shortened.
	Short func(row Row) string
	// Words writes the value of a row for people. nil: [Words] does.
	Words func(row Row) string
}

// MaxRows bounds the rows of a report.
const MaxRows = 10_000

// A Table is a list of rows.
type Table struct {
	Name    string // "kernels", its key in JSON
	Title   string // for people
	Columns []Column
	Rows    []Row
	Type    reflect.Type // of the structs that the rows come from
	Reason  string       // why there are no rows, "" if there are
	Notes   []string
	LeftOut int  // rows that Top left out
	Whole   bool // no cell is cut for people, however long their line is
	// Prose is what people read in place of a row with columns. nil: they read the columns.
	Prose func(row Row) Paragraph
}

// A Paragraph is a row in words.
type Paragraph struct {
	Head  string // "" for none
	Items []Item
}

// An Item is a line of a paragraph.
type Item struct{ Label, Text string }

// Column returns the index of a column by its key, -1 if there is none.
func (t *Table) Column(key string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Key == key })
}

// Add adds a row of cells.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// Hide leaves columns to JSON and CSV.
func (t *Table) Hide(keys ...string) {
	for _, key := range keys {
		t.Columns[t.Column(key)].Title = ""
	}
}

// SetRank changes the rank of columns.
func (t *Table) SetRank(rank int, keys ...string) {
	for _, key := range keys {
		t.Columns[t.Column(key)].Rank = rank
	}
}

// Words writes the value of a column of a row for people.
func (t *Table) Words(row Row, column int) string {
	c := &t.Columns[column]
	if c.Words != nil {
		return c.Words(row)
	}
	return Words(row.Cells[column], c.Unit)
}

// Sort sorts the rows by a column: numbers from the largest, texts from A, unknown values last.
// Equal rows are sorted by their names. It does nothing if the table has no such column.
func (t *Table) Sort(key string) {
	i := t.Column(key)
	if i < 0 {
		return
	}
	slices.SortStableFunc(t.Rows, func(a, b Row) int {
		return cmp.Or(compare(a.Cells[i], b.Cells[i]), t.CompareNames(a, b))
	})
}

// CompareNames compares what names two rows: their texts, and their numbers that are names.
func (t *Table) CompareNames(a, b Row) int {
	for i, c := range t.Columns {
		order := 0
		switch c.Unit {
		case Text:
			order = compare(a.Cells[i], b.Cells[i])
		case ID:
			order = compare(b.Cells[i], a.Cells[i])
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

func compare(a, b any) int {
	x, textX := a.(string)
	y, textY := b.(string)
	if textX && textY {
		return strings.Compare(x, y)
	}
	n, knownN := number(a)
	m, knownM := number(b)
	if !knownN || !knownM {
		return cmp.Compare(order(knownN), order(knownM))
	}
	return cmp.Compare(m, n)
}

func order(known bool) int {
	if known {
		return 0
	}
	return 1
}

// number returns a number as a float, which is enough to sort it.
func number(v any) (n float64, known bool) {
	switch v := v.(type) {
	case uint64:
		return float64(v), true
	case float64:
		return v, finite(v)
	}
	return 0, false
}

// Top keeps the first n rows; 0 keeps all.
func (t *Table) Top(n int) {
	if n > 0 && len(t.Rows) > n {
		t.LeftOut += len(t.Rows) - n
		t.Rows = t.Rows[:n]
	}
}
