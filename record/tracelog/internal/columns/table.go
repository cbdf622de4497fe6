package columns

// A Table is a decoded table. Its columns are valid until the decoder's next table.
type Table struct {
	Number  uint64
	Rows    int
	Fields  []uint64 // number of the field of each column
	Columns []Column
}

// Find returns the column of a field, or one of zeros.
func (t *Table) Find(field int) Column {
	for i, f := range t.Fields {
		if f == uint64(field) {
			return t.Columns[i]
		}
	}
	return Zeros()
}

// A Column is a decoded column. Row i has Numbers[i&Mask], so that a number that all rows
// share takes no room. A column of texts has Texts instead.
type Column struct {
	Numbers []uint64
	Mask    int
	Texts   []string
}

var zeros = []uint64{0}

// Zeros returns the column of a field that is 0 in all rows.
func Zeros() Column { return Column{Numbers: zeros} }

// Rows returns a column of some of the rows.
func (c Column) Rows(list []int) Column {
	if c.Texts != nil {
		texts := make([]string, len(list))
		for to, i := range list {
			texts[to] = c.Texts[i]
		}
		return Column{Texts: texts}
	}
	if c.Mask == 0 {
		return c
	}
	some := Column{Numbers: make([]uint64, len(list)), Mask: c.Mask}
	for to, i := range list {
		some.Numbers[to] = c.Numbers[i]
	}
	return some
}

// At is the number in row i.
func (c *Column) At(i int) uint64 { return c.Numbers[i&c.Mask] }

// Text is the text in row i, "" in a column that is missing.
func (c *Column) Text(i int) string {
	if c.Texts == nil {
		return ""
	}
	return c.Texts[i]
}
