package columns

import "github.com/cudatrace/cudatrace/record/tracelog/schema"

// A Row is one row of a table: a number for each field, in the order of the fields. Numbers
// behind those of the table's fields have no meaning.
type Row [schema.MaxFields]uint64

// firstRows is the number of rows for which Rows has room at first.
const firstRows = 16

// Rows are the rows of a table, stored by column. A field with the same value in every row so
// far has no column: most fields are like that, and cost one comparison a row.
type Rows struct {
	n      int
	room   int        // rows for which the columns have room
	first  Row        // the value of a field without a column
	cols   [][]uint64 // by field, nil for one without a column
	consts []uint8    // fields without a column
	varies []uint8    // fields with one
	salt   uint32     // see newColumn
}

// NewRows returns an empty table. The salt should differ from that of other Rows in use.
func NewRows(fields int, salt uint32) Rows {
	s := Rows{cols: make([][]uint64, fields), consts: make([]uint8, fields), salt: salt}
	for f := range s.consts {
		s.consts[f] = uint8(f)
	}
	return s
}

// Len is the number of rows.
func (s *Rows) Len() int { return s.n }

// Clear removes the rows and keeps the room.
func (s *Rows) Clear() { s.n = 0 }

// Fits reports whether Add may be called: there is room, and all fields in which the row
// differs from the previous ones have a column.
func (s *Rows) Fits(r *Row) bool {
	if s.n == 0 {
		return s.room > 0 || len(s.varies) == 0
	}
	if s.n >= s.room && len(s.varies) > 0 {
		return false
	}
	var diff uint64
	first := &s.first
	for _, f := range s.consts {
		diff |= r[f&31] ^ first[f&31]
	}
	return diff == 0
}

// Add appends a row that fits.
func (s *Rows) Add(r *Row) {
	if s.n == 0 {
		for _, f := range s.consts {
			s.first[f&31] = r[f&31]
		}
	}
	n, cols := s.n, s.cols
	for _, f := range s.varies {
		if col := cols[f]; n < len(col) { // always, for a row that fits
			col[n] = r[f&31]
		}
	}
	s.n = n + 1
}

// At is the value of a field in row i.
func (s *Rows) At(field, i int) uint64 {
	if c := s.cols[field]; c != nil {
		return c[i]
	}
	return s.first[field]
}

// HasColumn reports whether a field has had several values.
func (s *Rows) HasColumn(field int) bool { return s.cols[field] != nil }

// Column has the value of a field in each row. It is nil where all rows have the same.
func (s *Rows) Column(field int) []uint64 {
	if s.cols[field] == nil {
		return nil
	}
	c := s.cols[field][:s.n]
	for _, v := range c {
		if v != c[0] {
			return c
		}
	}
	return nil
}

// grown is the number of rows for which the columns have room after Widen.
func (s *Rows) grown(most int) int {
	if s.n < s.room {
		return s.room
	}
	return max(s.n+1, min(max(2*s.n, firstRows), most))
}

// Needs is the number of bytes that Widen takes.
func (s *Rows) Needs(r *Row, most int) int {
	columns := len(s.varies)
	for _, f := range s.consts {
		if s.n > 0 && r[f] != s.first[f] {
			columns++
		}
	}
	return 8 * (columns*s.grown(most) - len(s.varies)*s.room)
}

// Widen makes room for the row, and columns for the fields in which it differs. most is the
// largest number of rows for which there should be room.
func (s *Rows) Widen(r *Row, most int) {
	room := s.grown(most)
	if room > s.room {
		for _, f := range s.varies {
			col := s.newColumn(int(f), room)
			copy(col, s.cols[f][:s.n])
			s.cols[f] = col
		}
		s.room = room
	}
	kept := s.consts[:0]
	for _, f := range s.consts {
		if s.n == 0 || r[f] == s.first[f] {
			kept = append(kept, f)
			continue
		}
		col := s.newColumn(int(f), s.room)
		for i := range s.n {
			col[i] = s.first[f]
		}
		s.cols[f] = col
		s.varies = append(s.varies, f)
	}
	s.consts = kept
}

// newColumn makes a column. Columns are filled side by side. Large ones would all begin at the
// start of a page and compete for the same few lines of the processor's cache, so each
// begins somewhere behind it.
func (s *Rows) newColumn(f, room int) []uint64 {
	if room < 512 {
		return make([]uint64, room)
	}
	skip := 8 * int((uint32(f)*7+s.salt*13)%64)
	return make([]uint64, room+skip)[skip:]
}

// Memory is the number of bytes of the columns.
func (s *Rows) Memory() int { return 8 * s.room * len(s.varies) }
