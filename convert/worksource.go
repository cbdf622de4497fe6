package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// A workSource gives the GPU work of a block in the order of its starts.
type workSource struct {
	chunk    *workChunk // work that comes next, and that the sink may still have
	at, to   int        // the head in there, and the end
	begin    uint64     // start of the head
	rows     rowOrder
	block    keptBlock
	onDevice uint32

	device, correlation, graph tracelog.Column
	node, start, dur           tracelog.Column
	shape                      shapeRows
	shapes                     *shapes
}

// comes says whether the head of a source comes before that of another.
func (s *workSource) comes(o *workSource) bool {
	if s.begin != o.begin {
		return s.begin < o.begin
	}
	return s.block.nth < o.block.nth
}

// of makes the source one of a block.
func (s *workSource) of(c *converter, b keptBlock) {
	s.block, s.shapes = b, c.shapes
	s.device, s.correlation, s.graph = b.Column("device"), b.Column("correlation"), b.Column("graph")
	s.node, s.start, s.dur = b.Column("graph_node"), b.Column("start"), b.Column("dur")
	c.shapes.of(&s.shape, b.Block)
	s.at, s.to = 0, 0
	s.rows.of(b.N, b.sorted, func(a, b *uint32) bool { return s.start.At(int(*a)) < s.start.At(int(*b)) })
}

var workKinds = map[tracelog.Kind]WorkKind{
	tracelog.KindKernel: WorkKernel,
	tracelog.KindMemcpy: WorkMemcpy,
	tracelog.KindMemset: WorkMemset,
	tracelog.KindGraph:  WorkGraph,
}

// head is the work that comes next.
func (s *workSource) head() *Work { return &s.chunk[s.at] }

// next makes the next piece of work the head; it reports false at the end.
func (s *workSource) next(c *converter, q *rawQueue) bool {
	if s.at++; s.at >= s.to && !s.fill(c, q) {
		return false
	}
	s.begin = s.chunk[s.at].Start
	return true
}

// fill takes some rows.
func (s *workSource) fill(c *converter, q *rawQueue) bool {
	s.leave(c)
	s.chunk, s.at, s.to = c.workChunks.get(), 0, 0
	for s.to < chunkWork {
		i, ok := s.rows.next()
		if !ok {
			break
		}
		q.rows--
		if c.wanted(s.block.Block, i) {
			if s.to == 0 {
				s.onDevice = uint32(s.device.At(i))
			}
			s.work(i, &s.chunk[s.to])
			s.to++
		}
	}
	return s.to > 0
}

// leave gives the chunk away.
func (s *workSource) leave(c *converter) {
	if s.chunk != nil {
		c.relay.retireWork(s.chunk)
		s.chunk = nil
	}
}

// left is how many pieces of work come after the head, or rows that may be.
func (s *workSource) left() int { return s.to - s.at - 1 + s.rows.left() }

// work takes a row.
func (s *workSource) work(i int, w *Work) {
	w.Kind, w.Start, w.Dur, w.Correlation = s.shape.kind, s.start.At(i), s.dur.At(i), uint32(s.correlation.At(i))
	w.Graph, w.GraphNode, w.Untimed, w.ID = uint32(s.graph.At(i)), s.node.At(i), false, 0
	w.Shape = s.shapes.row(&s.shape, s.block.Block, i)
}

// beginWork makes a block, of which the stream's rows are to come, a source; it is nil where
// none of them is wanted.
func (c *converter) beginWork(q *rawQueue, b keptBlock) *workSource {
	s := c.workSources.get()
	q.rows += b.N
	s.of(c, b)
	if s.next(c, q) {
		return s
	}
	c.endWork(s)
	return nil
}

// endWork takes a source back and its block with it.
func (c *converter) endWork(s *workSource) {
	s.leave(c)
	s.block.Release()
	s.block = keptBlock{}
	c.workSources.put(s)
}
