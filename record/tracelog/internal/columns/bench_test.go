package columns

import (
	"math/rand/v2"
	"testing"

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
		e, err := NewEncoder()
		if err != nil {
			b.Fatal(err)
		}
		d, err := NewDecoder()
		if err != nil {
			b.Fatal(err)
		}
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
				if _, err := d.decode(table); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
