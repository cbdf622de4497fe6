package stats

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// rangeCells is a row of nvtx.
type rangeCells struct {
	Name   string `key:"name" title:"range"`             // a `null` domain is the default one
	Domain string `key:"domain" title:"domain" rank:"2"` // =
	Kind   string `key:"kind"`                           // `range` or `mark`
	totals
	// part of the time of all ranges; nested ones count twice
	Share *float64 `key:"share" title:"share" rank:"2"`
	spread
	Unfinished uint64 `key:"unfinished"` // ranges that had not ended
	// GPU work of the calls made in the range on its thread: sum of times, and pieces; work in nested ranges counts for
	// each
	GPU  uint64 `key:"gpu_ns" title:"on the GPU" rank:"2"`
	Work uint64 `key:"gpu_work"` // =

	timed // ranges that ended
	marks uint64
}

type rangeKey struct{ name, domain, kind string }

var nvtxReport = declare(grouped[rangeKey, rangeCells]{
	Report: Report{Name: "nvtx", Title: "NVTX ranges and marks", needs: gpuWork, whyEmpty: "no NVTX ranges or marks"},
	things: [2]string{"range or mark", "ranges and marks"},
	others: rangeKey{other, "", "range"},
	row:    func(k rangeKey) rangeCells { return rangeCells{Name: k.name, Domain: k.domain, Kind: k.kind} },
	from: func(s *section, rows *query.Rows[rangeKey, rangeCells]) {
		s.spans.Each(func(e *timeline.SpanEnd) {
			if e.Track.Category != timeline.NVTX {
				return
			}
			r := rows.Of(rangeKey{e.Name, e.Track.Domain, "range"})
			if e.Flags&timeline.Unfinished != 0 {
				r.Unfinished++ // the end is a guess
				return
			}
			r.time.Add(e.End - min(e.End, e.Start))
		})
		s.instants.Each(func(e *timeline.Instant) {
			if e.Track.Category == timeline.NVTX {
				rows.Of(rangeKey{e.Name, e.Track.Domain, "mark"}).marks++
			}
		})
		s.ranged.By(func(stack *timeline.RangeStack) func(*piece) {
			var list []*rangeCells // each once
			for ; stack != nil; stack = stack.Outer {
				if r := rows.Of(rangeKey{stack.Name, stack.Domain, "range"}); !slices.Contains(list, r) {
					list = append(list, r)
				}
			}
			return func(w *piece) {
				for _, r := range list {
					r.Work++
					if !w.Untimed {
						r.GPU = sketch.Sum(r.GPU, w.Dur)
					}
				}
			}
		})
	},
	merge: func(r, later *rangeCells) {
		r.timed.merge(&later.timed)
		r.Unfinished, r.marks, r.Work = r.Unfinished+later.Unfinished, r.marks+later.marks, r.Work+later.Work
		r.GPU = sketch.Sum(r.GPU, later.GPU)
	},
	fill: func(_ *view, r *rangeCells, total uint64) {
		r.totals, r.Share, r.spread = r.columns(total, r.Unfinished+r.marks)
	},
})
