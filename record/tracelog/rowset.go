package tracelog

import (
	"encoding/binary"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A rowset is rows by column. A field that has the same value in every row so far
// has no column: most fields of an open block are like that, and cost one
// comparison a row.
type rowset struct {
	n      int
	room   int        // rows for which the columns have room
	first  row        // the value of a field without a column
	cols   [][]uint64 // by field, nil for one without a column
	consts []uint8    // fields without a column
	varies []uint8    // fields with one
	salt   uint32     // see newColumn
}

// newRowset returns rows without any. The salt should differ from that of other
// rowsets in use.
func newRowset(fields int, salt uint32) rowset {
	s := rowset{cols: make([][]uint64, fields), consts: make([]uint8, fields), salt: salt}
	for f := range s.consts {
		s.consts[f] = uint8(f)
	}
	return s
}

// fits reports whether add may be called: there is room, and all fields of the
// row that are different from those before have a column.
func (s *rowset) fits(r *row) bool {
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

// add appends a row that fits.
func (s *rowset) add(r *row) {
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

// at is the value of field f in row i.
func (s *rowset) at(f, i int) uint64 {
	if c := s.cols[f]; c != nil {
		return c[i]
	}
	return s.first[f]
}

// column is the column of a field, nil where all rows have the same value.
func (s *rowset) column(f int) []uint64 {
	if s.cols[f] == nil {
		return nil
	}
	c := s.cols[f][:s.n]
	for _, v := range c {
		if v != c[0] {
			return c
		}
	}
	return nil
}

// grown is the number of rows for which the columns have room after widen.
func (s *rowset) grown(most int) int {
	if s.n < s.room {
		return s.room
	}
	return max(s.n+1, min(max(2*s.n, firstRows), most))
}

// needs returns the bytes that widen will take.
func (s *rowset) needs(r *row, most int) int {
	columns := len(s.varies)
	for _, f := range s.consts {
		if s.n > 0 && r[f] != s.first[f] {
			columns++
		}
	}
	return 8 * (columns*s.grown(most) - len(s.varies)*s.room)
}

// widen makes room for the row, and columns of the fields in which it differs.
func (s *rowset) widen(r *row, most int) {
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

// newColumn makes a column. Columns are filled side by side: large ones, which
// begin at a page each, would take turns in the same few lines of the processor's
// cache, so they begin at different places behind it.
func (s *rowset) newColumn(f, room int) []uint64 {
	if room < 512 {
		return make([]uint64, room)
	}
	skip := 8 * int((uint32(f)*7+s.salt*13)%64)
	return make([]uint64, room+skip)[skip:]
}

// memory is the bytes of the columns.
func (s *rowset) memory() int { return 8 * s.room * len(s.varies) }

// span is the time that the rows take up.
func (s *rowset) span(l *schema.Layout) (sp span) {
	for nth, f := range l.Times {
		dur := -1
		if nth == 0 {
			dur = l.Dur
		}
		if s.cols[f] == nil && (dur < 0 || s.cols[dur] == nil) {
			sp.add(s.first[f], durAt(s, dur, 0))
			continue
		}
		for i := range s.n {
			sp.add(s.at(f, i), durAt(s, dur, i))
		}
	}
	return sp
}

func durAt(s *rowset, dur, i int) uint64 {
	if dur < 0 {
		return 0
	}
	return s.at(dur, i)
}

// transpose makes a rowset of rows that lie one after the other. It is valid
// until the next call.
func (e *encoder) transpose(l *schema.Layout, rows []uint64) *rowset {
	width := len(l.Fields)
	e.rows = newRowset(width, 0)
	var r row
	for i := 0; i < len(rows); i += width {
		copy(r[:], rows[i:i+width])
		for !e.rows.fits(&r) {
			e.rows.widen(&r, schema.MaxRows)
		}
		e.rows.add(&r)
	}
	return &e.rows
}

// appendSized appends a table preceded by its length.
func (e *encoder) appendSized(dst []byte, l *schema.Layout, rows *rowset, texts []string) []byte {
	e.sized = e.appendTable(e.sized[:0], l, rows, texts)
	dst = binary.AppendUvarint(dst, uint64(len(e.sized)))
	return append(dst, e.sized...)
}
