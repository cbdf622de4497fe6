package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// A workSource gives the GPU work of a block in the order of its starts.
type workSource struct {
	head   *rawWork // that comes next
	ahead  []rawWork
	buffer [sourceRows]rawWork
	rows   rowOrder
	block  keptBlock

	kind                       WorkKind
	device, correlation, graph tracelog.Column
	node, start, dur           tracelog.Column
	shape                      shapeRows
	shapes                     *shapes
}

// comes says whether the head of a source comes before that of another.
func (s *workSource) comes(o *workSource) bool {
	if s.head.Start != o.head.Start {
		return s.head.Start < o.head.Start
	}
	return s.block.nth < o.block.nth
}

// of makes the source one of a block.
func (s *workSource) of(c *converter, b keptBlock) {
	s.block, s.shapes, s.kind = b, c.shapes, workKinds[b.Kind]
	s.device, s.correlation, s.graph = b.Column("device"), b.Column("correlation"), b.Column("graph")
	s.node, s.start, s.dur = b.Column("graph_node"), b.Column("start"), b.Column("dur")
	c.shapes.of(&s.shape, b.Block)
	s.ahead = nil
	s.rows.of(b.N, b.sorted, func(a, b *uint32) bool { return s.start.At(int(*a)) < s.start.At(int(*b)) })
}

var workKinds = map[tracelog.Kind]WorkKind{
	tracelog.KindKernel: WorkKernel,
	tracelog.KindMemcpy: WorkMemcpy,
	tracelog.KindMemset: WorkMemset,
	tracelog.KindGraph:  WorkGraph,
}

// next makes the next piece of work the head; it reports false at the end.
func (s *workSource) next(c *converter, q *rawQueue) bool {
	if len(s.ahead) == 0 && !s.fill(c, q) {
		return false
	}
	s.head, s.ahead = &s.ahead[0], s.ahead[1:]
	return true
}

// fill takes some rows.
func (s *workSource) fill(c *converter, q *rawQueue) bool {
	n := 0
	for n < sourceRows {
		i, ok := s.rows.next()
		if !ok {
			break
		}
		q.rows--
		if c.wanted(s.block.Block, i) {
			s.work(i, &s.buffer[n])
			n++
		}
	}
	s.ahead = s.buffer[:n]
	return n > 0
}

// left is how many pieces of work come after the head, or rows that may be.
func (s *workSource) left() int { return len(s.ahead) + s.rows.left() }

// work takes a row.
func (s *workSource) work(i int, w *rawWork) {
	w.device, w.part = uint32(s.device.At(i)), 0
	w.Kind, w.Start, w.Dur, w.Correlation = s.kind, s.start.At(i), s.dur.At(i), uint32(s.correlation.At(i))
	w.Graph, w.GraphNode, w.Untimed, w.ID = uint32(s.graph.At(i)), s.node.At(i), false, 0
	switch s.kind {
	case WorkKernel:
		w.Shape = s.shapes.ofKernel(&s.shape, s.block.Block, i)
	case WorkMemcpy:
		w.Shape = s.shapes.ofCopy(&s.shape, i)
	case WorkMemset:
		w.Shape = s.shapes.ofSet(&s.shape, i)
	default:
		w.Shape = s.shapes.none
	}
}

// workSourcePool has sources without a use.
type workSourcePool struct{ free []*workSource }

func (p *workSourcePool) get() *workSource {
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s
	}
	return new(workSource)
}

// put takes a source back and its block with it.
func (p *workSourcePool) put(s *workSource) {
	s.block.Release()
	s.block, s.head, s.ahead = keptBlock{}, nil, nil
	p.free = append(p.free, s)
}
