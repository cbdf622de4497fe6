package read

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Work is a piece of GPU work without a number and without its call.
type Work struct {
	timeline.Work
	Device  uint32 // as the process numbers it
	Program uint16 // index of the program in the process
}

// Works merge the GPU work of each stream.
type Works struct {
	kind    mergedKind[Work]
	catalog *Catalog
	wanted  *Wanted
	shapes  *shapeTable
	program map[*Merger[Work]]int // of the latest work with a time
}

// NewWorks returns mergers for the GPU work of a log.
func NewWorks(c *Catalog, w *Wanted) *Works {
	l := &Works{catalog: c, wanted: w, shapes: newShapeTable(), program: make(map[*Merger[Work]]int)}
	l.kind = mergedKind[Work]{
		start:  func(w *Work) uint64 { return w.Start },
		before: func(a, b *Work) bool { return a.Start < b.Start },
		decode: func() decoder[Work] { return &workDecoder{works: l} },
	}
	return l
}

// Stream returns the merger of a stream of a process.
func (l *Works) Stream(p *ProcessRecords) *Merger[Work] { return l.kind.merger(p) }

// Add passes the block that a reader has read to the merger of its stream.
func (l *Works) Add(r *tracelog.Reader, stream func(pid, context, stream uint32) *Merger[Work]) {
	b := r.Block()
	m := stream(keyOf(b, "pid"), keyOf(b, "context"), keyOf(b, "stream"))
	if len(m.process.Programs) == 1 {
		m.push(r.Keep(), false)
		return
	}
	s := l.kind.source()
	defer l.kind.put(s)
	decoder := s.decoder.(*workDecoder)
	decoder.open(b, nil)
	for i := range b.N {
		if !l.wanted.Match(b, i) {
			continue
		}
		var w Work
		decoder.row(i, &w)
		if w.Start != 0 {
			l.program[m] = m.process.Programs.At(w.Start)
		}
		w.Program = uint16(l.program[m]) // work without a time belongs to the program of the work before it
		m.loose.Add(w)
	}
}

// A workDecoder decodes rows into Works.
type workDecoder struct {
	works *Works
	block *tracelog.Block

	device, corr, graph tracelog.Column
	node, start, dur    tracelog.Column
	shape               shapeColumns
}

var workKinds = map[tracelog.Kind]timeline.WorkKind{
	tracelog.KindKernel: timeline.KernelWork,
	tracelog.KindMemcpy: timeline.MemcpyWork,
	tracelog.KindMemset: timeline.MemsetWork,
}

func (d *workDecoder) open(b *tracelog.Block, _ *ProcessRecords) {
	d.block = b
	d.device, d.corr, d.graph = b.Column("device"), b.Column("correlation"), b.Column("graph")
	d.node, d.start, d.dur = b.Column("graph_node"), b.Column("start"), b.Column("dur")
	d.shape.open(b, workKinds[b.Kind])
}

func (d *workDecoder) before(a, b *uint32) bool { return d.start.At(int(*a)) < d.start.At(int(*b)) }

func (d *workDecoder) rows(rows *Rows, into []Work, starts []uint64) (n int) {
	for n < len(into) {
		i, ok := rows.Next()
		if !ok {
			break
		}
		if d.works.wanted.Match(d.block, i) {
			d.row(i, &into[n])
			starts[n] = into[n].Start
			n++
		}
	}
	return n
}

func (d *workDecoder) row(i int, w *Work) {
	w.Kind, w.Start, w.Dur, w.Correlation = d.shape.kind, d.start.At(i), d.dur.At(i), uint32(d.corr.At(i))
	w.Graph, w.GraphNode, w.Untimed, w.ID = uint32(d.graph.At(i)), d.node.At(i), false, 0
	w.Shape, w.Device, w.Program = d.works.shapes.row(&d.shape, d.block, i), uint32(d.device.At(i)), 0
}
