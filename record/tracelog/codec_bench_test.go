package tracelog

import (
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// workRows are the rows of one open block of each kind of record of a launch.
func workRows(n int) map[Kind]*columns.Rows {
	sets := make(map[Kind]*columns.Rows)
	for _, k := range []Kind{KindCall, KindAPI, KindKernel} {
		s := columns.NewRows(len(schema.LayoutOf(k).Fields), 0)
		sets[k] = &s
	}
	in := newInterner(schema.MaxStrings, schema.MaxStringBytes)
	add := func(k Kind, r *columns.Row) {
		s := sets[k]
		for !s.Fits(r) {
			s.Widen(r, n)
		}
		s.Add(r)
	}
	w := newWorkload()
	var r columns.Row
	for sets[KindCall].Len() < n {
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
			e := newEncoder(b)
			var table []byte
			b.SetBytes(int64(8 * benchRows * len(schema.LayoutOf(k).Fields)))
			b.ReportAllocs()
			for b.Loop() {
				table = e.AppendTable(table[:0], schema.LayoutOf(k), rows, nil)
			}
			b.ReportMetric(float64(len(table))/benchRows, "B/row")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
		})
	}
}

func BenchmarkDecodeTable(b *testing.B) {
	for k, rows := range workRows(benchRows) {
		b.Run(k.String(), func(b *testing.B) {
			e := newEncoder(b)
			table := e.AppendTable(nil, schema.LayoutOf(k), rows, nil)
			d := must.Get(columns.NewDecoder())(b)
			b.SetBytes(int64(8 * benchRows * len(schema.LayoutOf(k).Fields)))
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, d.EachTable(table, func(*columns.Table) error { return nil }))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
		})
	}
}

// Adding rows to open blocks, without making blocks of them.
func BenchmarkAddRow(b *testing.B) {
	s := columns.NewRows(len(schema.LayoutOf(KindKernel).Fields), 0)
	in := newInterner(schema.MaxStrings, schema.MaxStringBytes)
	w := newWorkload()
	var r [64]columns.Row
	for i := range r {
		w.step()
		w.kernel.fill(&r[i], &in)
	}
	b.SetBytes(int64(8 * len(schema.LayoutOf(KindKernel).Fields)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for !s.Fits(&r[n%64]) {
			s.Widen(&r[n%64], benchRows)
		}
		if s.Add(&r[n%64]); s.Len() == benchRows {
			s.Clear()
		}
		n++
	}
}
