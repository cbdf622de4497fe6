package columns

import (
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

const benchRows = 8192

// One column of every shape, there and back.
func BenchmarkColumn(b *testing.B) {
	l := schema.NewLayout(&schema.Table{Kind: 99, Fields: []schema.Field{{Name: "a", Type: schema.Time}}})
	for _, name := range []string{"constant", "counting", "times", "few", "pointers", "magnitudes", "noise"} {
		rnd := rand.New(rand.NewPCG(7, 8))
		var rows []uint64
		for i := range benchRows {
			rows = append(rows, shapes[name](rnd, i))
		}
		e := must.Get(NewEncoder())(b)
		d := must.Get(NewDecoder())(b)
		set := e.Transpose(l, rows)
		table := e.appendContent(nil, l, set, nil)
		b.Run("encode/"+name, func(b *testing.B) {
			b.SetBytes(8 * benchRows)
			b.ReportAllocs()
			for b.Loop() {
				table = e.appendContent(table[:0], l, set, nil)
			}
			b.ReportMetric(float64(len(table))/benchRows, "B/row")
		})
		b.Run("decode/"+name, func(b *testing.B) {
			b.SetBytes(8 * benchRows)
			b.ReportAllocs()
			for b.Loop() {
				must.Get(d.decode(table))(b)
			}
		})
	}
}
