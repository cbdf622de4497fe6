package columns

import (
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// No table makes the decoder panic, and what it gives has the rows that it says.
func FuzzTable(f *testing.F) {
	e := must.Get(NewEncoder())(f)
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
	d := must.Get(NewDecoder())(f)
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
