package tracelog

import (
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// workRows are the rows of one open block of each kind of record of a launch.
func workRows(n int) map[Kind]*rowset {
	sets := make(map[Kind]*rowset)
	for _, k := range []Kind{KindCall, KindAPI, KindKernel} {
		s := newRowset(len(schema.LayoutOf(k).Fields), 0)
		sets[k] = &s
	}
	in := newInterner(schema.MaxStrings, schema.MaxStringBytes)
	add := func(k Kind, r *row) {
		s := sets[k]
		for !s.fits(r) {
			s.widen(r, n)
		}
		s.add(r)
	}
	w := newWorkload()
	var r row
	for sets[KindCall].n < n {
		if w.step(); w.call.TID != 4711 {
			continue
		}
		w.call.fill(&r, &in)
		add(KindCall, &r)
		w.api.fill(&r, &in)
		add(KindAPI, &r)
		w.kernel.fill(&r, &in)
		r[3] = 7
		add(KindKernel, &r)
	}
	return sets
}

const benchRows = 8192

func BenchmarkEncodeTable(b *testing.B) {
	for k, rows := range workRows(benchRows) {
		b.Run(k.String(), func(b *testing.B) {
			e, err := newEncoder()
			if err != nil {
				b.Fatal(err)
			}
			var table []byte
			b.SetBytes(int64(8 * benchRows * len(schema.LayoutOf(k).Fields)))
			b.ReportAllocs()
			for b.Loop() {
				table = e.appendTable(table[:0], schema.LayoutOf(k), rows, nil)
			}
			b.ReportMetric(float64(len(table))/benchRows, "B/row")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
		})
	}
}

func BenchmarkDecodeTable(b *testing.B) {
	for k, rows := range workRows(benchRows) {
		b.Run(k.String(), func(b *testing.B) {
			e, err := newEncoder()
			if err != nil {
				b.Fatal(err)
			}
			table := e.appendTable(nil, schema.LayoutOf(k), rows, nil)
			d, err := newDecoder()
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(8 * benchRows * len(schema.LayoutOf(k).Fields)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.decode(table); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
		})
	}
}

// One column of every shape, there and back.
func BenchmarkColumn(b *testing.B) {
	l := schema.NewLayout(&schema.Table{Kind: 99, Fields: []schema.Field{{Name: "a", Type: schema.Time}}})
	for _, name := range []string{"constant", "counting", "times", "few", "pointers", "magnitudes", "noise"} {
		rnd := rand.New(rand.NewPCG(7, 8))
		var rows []uint64
		for i := range benchRows {
			rows = append(rows, shapes[name](rnd, i))
		}
		e, err := newEncoder()
		if err != nil {
			b.Fatal(err)
		}
		d, err := newDecoder()
		if err != nil {
			b.Fatal(err)
		}
		set := e.transpose(l, rows)
		table := e.appendTable(nil, l, set, nil)
		b.Run("encode/"+name, func(b *testing.B) {
			b.SetBytes(8 * benchRows)
			b.ReportAllocs()
			for b.Loop() {
				table = e.appendTable(table[:0], l, set, nil)
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

// Adding rows to open blocks, without making blocks of them.
func BenchmarkAddRow(b *testing.B) {
	s := newRowset(len(schema.LayoutOf(KindKernel).Fields), 0)
	in := newInterner(schema.MaxStrings, schema.MaxStringBytes)
	w := newWorkload()
	var r [64]row
	for i := range r {
		w.step()
		w.kernel.fill(&r[i], &in)
	}
	b.SetBytes(int64(8 * len(schema.LayoutOf(KindKernel).Fields)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for !s.fits(&r[n%64]) {
			s.widen(&r[n%64], benchRows)
		}
		if s.add(&r[n%64]); s.n == benchRows {
			s.n = 0
		}
		n++
	}
}
