package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// A callSource gives the calls or the API records of a block, or a list of either, in the
// order in which they nest.
type callSource struct {
	head   *item // that comes next
	ahead  []item
	buffer [sourceRows]item
	rows   rowOrder
	block  keptBlock
	list   *itemList // nil for a block
	nth    uint64

	pair            bool // calls, not API records
	function, start tracelog.Column
	dur, ret, flags tracelog.Column
	domain          tracelog.Column
	correlation     tracelog.Column
	args            argumentRows
	fn              *Function // of the latest row, and what it is found by
	id              uint64
	runtime         bool
}

// sourceRows is how many rows of a block are made items at once: what finds them and they
// themselves stay in the processor's nearest cache.
const sourceRows = 64

// comes says whether the head of a source comes before that of another.
func (s *callSource) comes(o *callSource) bool {
	if s.head.start != o.head.start {
		return s.head.start < o.head.start
	}
	if s.head.before(o.head) || o.head.before(s.head) {
		return s.head.before(o.head)
	}
	return s.nth < o.nth
}

// of makes the source one of a block.
func (s *callSource) of(c *converter, b keptBlock) {
	s.block, s.list, s.nth, s.fn = b, nil, b.nth, nil
	s.pair = b.Kind == tracelog.KindCall
	s.ret = b.Column("ret")
	s.dur = b.Column("dur")
	if s.pair {
		s.function, s.start, s.flags = b.Column("func"), b.Column("enter"), b.Column("flags")
		c.arguments.of(&s.args, b.Block)
	} else {
		s.function, s.start, s.domain, s.correlation = b.Column("name"), b.Column("start"), b.Column("domain"), b.Column("correlation")
	}
	s.ahead = nil
	s.rows.of(b.N, b.sorted, s.before)
}

// before is item.before of two rows.
func (s *callSource) before(a, b *uint32) bool {
	i, j := int(*a), int(*b)
	if x, y := s.start.At(i), s.start.At(j); x != y {
		return x < y
	}
	if x, y := end(s.start.At(i), s.dur.At(i)), end(s.start.At(j), s.dur.At(j)); x != y {
		return x > y
	}
	return !s.pair && s.rankOf(i) < s.rankOf(j)
}

func (s *callSource) rankOf(row int) rank {
	switch {
	case s.pair:
		return rankPair
	case s.domain.At(row) == tracelog.DomainRuntime:
		return rankRuntimeAPI
	}
	return rankDriverAPI
}

// next makes the next item the head; it reports false at the end.
func (s *callSource) next(c *converter, t *rawThread) bool {
	if len(s.ahead) == 0 && (s.list != nil || !s.fill(c, t)) {
		return false
	}
	s.head, s.ahead = &s.ahead[0], s.ahead[1:]
	return true
}

// fill makes some rows items.
func (s *callSource) fill(c *converter, t *rawThread) bool {
	n := 0
	for n < sourceRows {
		i, ok := s.rows.next()
		if !ok {
			break
		}
		t.rows--
		if c.wanted(s.block.Block, i) {
			s.item(c, t, i, &s.buffer[n])
			n++
		}
	}
	s.ahead = s.buffer[:n]
	return n > 0
}

// left is how many items come after the head, or rows that may be.
func (s *callSource) left() int { return len(s.ahead) + s.rows.left() }

// item makes a row of the block an item.
func (s *callSource) item(c *converter, t *rawThread, i int, it *item) {
	if s.pair {
		s.call(c, t, i, it)
	} else {
		s.api(c, t, i, it)
	}
}

// call takes a uprobe pair.
func (s *callSource) call(c *converter, t *rawThread, i int, it *item) {
	if id := s.function.At(i); s.fn == nil || id != s.id {
		s.fn, s.id = c.function(uint32(id)), id
	}
	it.start = s.start.At(i)
	it.end = end(it.start, s.dur.At(i))
	it.fn, it.args, it.correlation = s.fn, c.arguments.row(&s.args, i), 0
	it.ret, it.flags, it.part, it.rank = int32(s.ret.Int(i)), uint16(s.flags.At(i)), 0, rankPair
	if len(t.parts) > 1 {
		it.part = uint16(t.h.parts.place(it.end))
	}
	if it.flags&tracelog.CallUnfinished != 0 {
		it.end = max(t.h.parts[it.part].horizon, it.start)
	}
	c.found.stack.pairs++
}

// api takes an API record.
func (s *callSource) api(c *converter, t *rawThread, i int, it *item) {
	r := s.rankOf(i)
	if id := s.function.At(i); s.fn == nil || id != s.id || s.runtime != (r == rankRuntimeAPI) {
		s.id, s.runtime = id, r == rankRuntimeAPI
		s.fn = c.callback(s.block.Block, callback{s.runtime, id})
	}
	it.start = s.start.At(i)
	it.end = end(it.start, s.dur.At(i))
	it.fn, it.args, it.correlation = s.fn, noArguments, uint32(s.correlation.At(i))
	it.ret, it.flags, it.part, it.rank = int32(s.ret.At(i)), 0, 0, r
	if len(t.parts) > 1 {
		it.part = uint16(t.h.parts.place(it.end))
	}
	c.found.stack.apis++
}

// begin makes a block, of which the thread's rows are to come, a source; it is nil where
// none of them is wanted.
func (c *converter) begin(t *rawThread, b keptBlock) *callSource {
	s := c.sources.get()
	t.rows += b.N
	s.of(c, b)
	if s.next(c, t) {
		return s
	}
	c.end(s)
	return nil
}

// beginItems makes a list, of which there are some, a source.
func (c *converter) beginItems(l *itemList) *callSource {
	s := c.sources.get()
	s.list, s.nth, s.ahead = l, 0, l.live()[1:]
	s.head = &l.live()[0]
	return s
}

// end takes a source back and its block with it.
func (c *converter) end(s *callSource) {
	if s.list == nil {
		s.block.Release()
	}
	s.block, s.list, s.head, s.ahead = keptBlock{}, nil, nil, nil
	c.sources.put(s)
}
