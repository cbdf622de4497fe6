package stats

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// ranges is the report of NVTX ranges and marks.
type ranges struct {
	rows groups[rangeKey, rangeRow]
	held map[*timeline.RangeStack]*heldBy
}

// heldBy are the rows of a stack of ranges, each once.
type heldBy struct{ rows []*rangeRow }

type rangeKey struct {
	name, domain string
	mark         bool
}

// A rangeRow has the ranges, or the marks, of one name.
type rangeRow struct {
	rangeKey
	time       sketch.Ordered // of the ranges that ended
	unfinished uint64
	marks      uint64
	work       uint64 // pieces of GPU work that calls in the ranges caused
	gpuTime    uint64 // ns of that work
}

func newRanges() ranges {
	return ranges{held: make(map[*timeline.RangeStack]*heldBy),
		rows: newGroups(rangeKey{name: other}, func(k rangeKey) *rangeRow { return &rangeRow{rangeKey: k} })}
}

func (s *ranges) countRange(e *timeline.SpanEnd) {
	if e.Track.Category != timeline.NVTX {
		return
	}
	r := s.rows.of(rangeKey{name: e.Name, domain: e.Track.Domain})
	if e.Flags&timeline.Unfinished != 0 {
		r.unfinished++ // the end is a guess
		return
	}
	r.time.Add(e.End - min(e.End, e.Start))
}

// gpu takes a piece of work for the ranges that were open when its call began.
func (s *ranges) gpu(w *timeline.Work) {
	if w.Call.Ranges == nil {
		return
	}
	for _, r := range cached(s.held, w.Call.Ranges, func() *heldBy { return s.rowsOf(w.Call.Ranges) }).rows {
		r.work++
		if !w.Untimed {
			r.gpuTime = sketch.Sum(r.gpuTime, w.Dur)
		}
	}
}

func (s *ranges) rowsOf(stack *timeline.RangeStack) *heldBy {
	h := new(heldBy)
	for ; stack != nil; stack = stack.Outer {
		if r := s.rows.of(rangeKey{name: stack.Name, domain: stack.Domain}); !slices.Contains(h.rows, r) {
			h.rows = append(h.rows, r)
		}
	}
	return h
}

func (s *ranges) countMark(e *timeline.Instant) {
	if e.Track.Category == timeline.NVTX {
		s.rows.of(rangeKey{name: e.Name, domain: e.Track.Domain, mark: true}).marks++
	}
}

var nvtxReport = Report{
	Name: "nvtx", Title: "NVTX ranges and marks",
	needs: gpuWork, whyEmpty: "no NVTX ranges or marks",
	table: func(s *Sink, _ Facts) *table.Table { return s.ranges.table() },
}

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
}

func (s *ranges) table() *table.Table {
	total := totalOf(s.rows.list, func(r *rangeRow) *sketch.Distribution { return &r.time.Distribution })
	var rows []rangeCells
	for _, r := range s.rows.list {
		kind := "range"
		if r.mark {
			kind = "mark"
		}
		rows = append(rows, rangeCells{
			Name: r.name, Domain: r.domain, Kind: kind, totals: totals{r.time.Count + r.unfinished + r.marks, r.time.Total},
			Share: table.ShareOf(r.time.Total, total), spread: spreadOf(&r.time), Unfinished: r.unfinished, GPU: r.gpuTime, Work: r.work,
		})
	}
	t := table.Of(rows)
	t.Sort("total_ns")
	return t
}
