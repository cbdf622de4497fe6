package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// transferCells are the columns of copies and sets behind their names.
type transferCells struct {
	totals          // as in `kernels`
	Share  *float64 `key:"share" title:"share" rank:"2"` // as in `kernels`
	Bytes  uint64   `key:"bytes" title:"bytes" rank:"2"` // bytes copied
	// GB (10<sup>9</sup> bytes) a second, of the copies with times
	Rate        *float64 `key:"gbps" title:"GB/s" rank:"2" unit:"rate"`
	spread               // as in `kernels`
	MinBytes    uint64   `key:"min_bytes"`                          // sizes of the copies
	MedianBytes uint64   `key:"median_bytes" title:"size" rank:"8"` // =
	MeanBytes   float64  `key:"mean_bytes"`                         // =
	MaxBytes    uint64   `key:"max_bytes"`                          // =
	Untimed     uint64   `key:"untimed"`                            // as in `kernels`

	timed
	bytes      sketch.Distribution
	timedBytes uint64 // bytes of the copies with times
}

func (r *transferCells) countTransfer(w *timeline.Work, bytes uint64) {
	r.bytes.Add(bytes)
	if w.Untimed {
		r.Untimed++
		return
	}
	r.time.Add(w.Dur)
	r.timedBytes = sketch.Sum(r.timedBytes, bytes)
}

func (r *transferCells) merge(later *transferCells) {
	r.timed.merge(&later.timed)
	r.bytes.Merge(&later.bytes)
	r.Untimed, r.timedBytes = r.Untimed+later.Untimed, sketch.Sum(r.timedBytes, later.timedBytes)
}

func (r *transferCells) fillTransfer(total uint64) {
	r.totals, r.Share, r.spread = r.columns(total, r.Untimed)
	if r.time.Total > 0 {
		r.Rate = new(float64(r.timedBytes) / float64(r.time.Total)) // bytes per ns are GB per s
	}
	b := &r.bytes
	r.Bytes, r.MinBytes, r.MedianBytes, r.MeanBytes, r.MaxBytes = b.Total, b.Min, b.Percentile(50), b.Mean(), b.Max
}

// copyCells is a row of copies.
type copyCells struct {
	Name string `key:"name" title:"direction"`
	// kinds of memory: `Pageable`, `Pinned`, `Device`, `Array`, `Managed`, `DeviceStatic`, `ManagedStatic`, `unknown`
	From string `key:"from" title:"from"`
	To   string `key:"to" title:"to"` // =
	Peer bool   `key:"peer"`          // whether the copy is between two GPUs
	transferCells
}

// A copyKey is the direction of a copy, with the kinds of memory.
type copyKey struct {
	direction, source, destination string
	peer                           bool // between two GPUs
}

var copiesReport = declare(grouped[copyKey, copyCells]{
	Report: Report{
		Name: "copies", Title: "copies by direction and kind of memory", needs: gpuWork, whyEmpty: "no copies",
	},
	things: [2]string{"copy", "copies"},
	others: copyKey{direction: other},
	row: func(k copyKey) copyCells {
		return copyCells{Name: k.direction, From: k.source, To: k.destination, Peer: k.peer}
	},
	from: func(s *section, rows *query.Rows[copyKey, copyCells]) {
		s.work[timeline.MemcpyWork].By(func(shape *timeline.Shape) func(*piece) {
			m := &shape.Memcpy
			from, to := cudaapi.MemoryKindName(m.SrcKind), cudaapi.MemoryKindName(m.DstKind)
			r := rows.Of(copyKey{cudaapi.MemcpyKindName(m.CopyKind), from, to, m.SrcDevice != m.DstDevice})
			return func(w *piece) { r.countTransfer(w.Work, m.Bytes) }
		})
	},
	merge: func(r, later *copyCells) { r.merge(&later.transferCells) },
	of:    onGPU,
	fill:  func(_ *view, r *copyCells, total uint64) { r.fillTransfer(total) },
})

// setCells is a row of sets.
type setCells struct {
	Name          string `key:"name" title:"operation"`
	transferCells        // as in `copies`
}

var setsReport = declare(grouped[string, setCells]{
	Report: Report{Name: "sets", Title: "memory sets", needs: gpuWork, whyEmpty: "no memory sets"},
	things: [2]string{"set", "sets"},
	others: other,
	row:    func(name string) setCells { return setCells{Name: name} },
	from: func(s *section, rows *query.Rows[string, setCells]) {
		s.work[timeline.MemsetWork].By(func(shape *timeline.Shape) func(*piece) {
			r := rows.Of("Memset")
			return func(w *piece) { r.countTransfer(w.Work, shape.Memset.Bytes) }
		})
	},
	merge: func(r, later *setCells) { r.merge(&later.transferCells) },
	of:    onGPU,
	fill:  func(_ *view, r *setCells, total uint64) { r.fillTransfer(total) },
})
