package columns

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// No table makes the decoder panic, and what it gives has the rows that it says.
func FuzzTable(f *testing.F) {
	e, err := NewEncoder()
	if err != nil {
		f.Fatal(err)
	}
	call := schema.LayoutOf(6)
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, scale := range []uint64{1, 1000} { // the times of the second table are in relation to medians
		var rows []uint64
		for i := range uint64(100) {
			for f := range call.Fields {
				rows = append(rows, i*uint64(f)*scale+rnd.Uint64N(1+uint64(f)*scale/10))
			}
		}
		f.Add(e.appendContent(nil, call, e.Transpose(call, rows), nil))
	}
	texts := schema.LayoutOf(schema.Strings)
	f.Add(e.appendContent(nil, texts, e.Transpose(texts, []uint64{1, 0, 2, 0}), []string{"a", ""}))
	d, err := NewDecoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := d.decode(b)
		if err != nil {
			return
		}
		for i := range table.Columns {
			c := &table.Columns[i]
			c.At(table.Rows - 1)
			if c.Texts != nil {
				c.Text(table.Rows - 1)
			}
		}
	})
}

// Any numbers come back from a table as they were.
func FuzzColumns(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 9}, byte(1))
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0xFF}, 80), byte(3))
	l := schema.NewLayout(&schema.Table{Kind: 99, Fields: []schema.Field{
		{Name: "a", Type: schema.Hex}, {Name: "b", Type: schema.Time}, {Name: "c", Type: schema.Dur}, {Name: "d", Type: schema.Uint}}})
	e, err := NewEncoder()
	if err != nil {
		f.Fatal(err)
	}
	d, err := NewDecoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, size byte) {
		step := 1 + int(size)%8
		var rows []uint64
		for len(b) >= step && len(rows) < 4*schema.MaxRows {
			var v [8]byte
			copy(v[:], b[:step])
			rows, b = append(rows, le.Uint64(v[:])), b[step:]
		}
		rows = rows[:len(rows)/4*4]
		if len(rows) == 0 {
			return
		}
		table, err := d.decode(e.appendContent(nil, l, e.Transpose(l, rows), nil))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(rowsOf(table, 4), rows) {
			t.Fatal("the rows are not what they were")
		}
	})
}
