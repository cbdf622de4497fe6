package convert

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A rawThread has the calls and API records of a thread that can't be stacked yet, as
// blocks to come may reach back to before them.
type rawThread struct {
	threadKey
	h      *history
	groups []*group
	blocks keptBlocks
	calls  itemList // of blocks of several threads
	apis   itemList
	active []*callSource // what is gone through, the earliest last
	rows   int           // of the blocks among these, that are to come
	parts  []*callThread // by session of the PID, nil for one without its calls
}

// An itemList holds items of one observer.
type itemList struct {
	items  []item
	head   int // of the first that is still there
	sorted int // up to here they are in order
}

// live are the items that are still there.
func (l *itemList) live() []item { return l.items[l.head:] }

func (l *itemList) sort() {
	insertSorted(l.live(), l.sorted-l.head, (*item).before)
	l.sorted = len(l.items)
}

// drop removes the first n items. What is behind them moves up once that is little.
func (l *itemList) drop(n int) {
	l.head += n
	if left := len(l.items) - l.head; left <= l.head {
		copy(l.items, l.live())
		clear(l.items[left:])
		l.items, l.head, l.sorted = l.items[:left], 0, left
	}
}

// rawThread returns the thread of a record.
func (c *converter) rawThread(pid, tid uint32) *rawThread {
	if t := c.latest; t != nil && t.pid == pid && t.tid == tid {
		return t
	}
	key := threadKey{pid, tid}
	t := c.threads[key]
	if t == nil {
		h := c.processes[pid]
		t = &rawThread{threadKey: key, h: h, groups: c.byThread[key], parts: make([]*callThread, len(h.parts))}
		t.groups = append(t.groups, c.mixed(tracelog.KindCall)...)
		t.groups = append(t.groups, c.mixed(tracelog.KindAPI)...)
		c.threads[key] = t
		c.threadOrder = append(c.threadOrder, t)
	}
	c.latest = t
	return t
}

// mixed has the group of blocks that hold several threads or streams, if there are any.
func (c *converter) mixed(k tracelog.Kind) []*group {
	if g := c.groups[groupKey{kind: k, mixed: true}]; g != nil {
		return []*group{g}
	}
	return nil
}

// low is the earliest start of an item that may still come.
func (t *rawThread) low() uint64 { return lowest(t.groups) }

func lowest(groups []*group) uint64 {
	low := uint64(never)
	for _, g := range groups {
		low = min(low, g.low())
	}
	return low
}

// advance stacks what begins before low.
func (t *rawThread) advance(c *converter, low uint64) {
	t.openItems(c)
	for n := len(t.active); n > 0 || t.blocks.any(); n = len(t.active) {
		if t.blocks.any() && (n == 0 || t.blocks.first() <= t.active[n-1].head.start) {
			if t.blocks.first() >= low && !c.eof {
				break
			}
			if n < maxActive {
				t.open(c)
			} else {
				t.flatten(c, low)
			}
			continue
		}
		if n >= 2 && t.both(c, low) {
			continue
		}
		s := t.active[n-1]
		if s.head.start >= low && !c.eof {
			break
		}
		t.part(c, int(s.head.part)).place(c, s.head)
		t.next(c, s)
	}
	t.closeItems(c)
	for _, part := range t.parts {
		if part != nil && !c.eof {
			part.closeUntil(c, low)
		}
	}
}

// both goes through the two sources that come first, the thread's calls and its API
// records nearly always, as far as that is simple. It says whether it did anything.
func (t *rawThread) both(c *converter, low uint64) (some bool) {
	n := len(t.active)
	a, b := t.active[n-2], t.active[n-1]
	until := t.blocks.first()
	if n > 2 {
		until = min(until, t.active[n-3].head.start)
	}
	if !c.eof {
		until = min(until, low)
	}
	for {
		s := b
		if a.head.start <= b.head.start && a.comes(b) {
			s = a
		}
		if s.head.start >= until || len(s.ahead) == 0 {
			break
		}
		some = true
		t.part(c, int(s.head.part)).place(c, s.head)
		s.head, s.ahead = &s.ahead[0], s.ahead[1:]
	}
	if some {
		t.active = t.active[:n-2]
		t.insert(a)
		t.insert(b)
	}
	return some
}

// open begins with the first of the blocks.
func (t *rawThread) open(c *converter) {
	if s := c.begin(t, t.blocks.take()); s != nil {
		t.insert(s)
	}
}

// next goes on with the source that comes first.
func (t *rawThread) next(c *converter, s *callSource) {
	last := len(t.active) - 1
	if s.next(c, t) {
		if last > 0 && s.head.start >= t.active[last-1].head.start {
			t.sink(last)
		}
		return
	}
	t.active = t.active[:last]
	if s.list != nil {
		s.list.drop(len(s.list.live()))
	}
	c.end(s)
}

// insert puts a source among those that are gone through.
func (t *rawThread) insert(s *callSource) {
	t.active = append(t.active, s)
	t.sink(len(t.active) - 1)
}

// sink moves the last source behind those that come before it.
func (t *rawThread) sink(i int) {
	s := t.active[i]
	for ; i > 0 && t.active[i-1].comes(s); i-- {
		t.active[i] = t.active[i-1]
	}
	t.active[i] = s
}

// maxActive is how many blocks of a thread or stream are gone through side by side. Where
// more of them overlap they are taken apart.
const maxActive = 64

// flatten takes apart what is gone through and all blocks that begin before low.
func (t *rawThread) flatten(c *converter, low uint64) {
	t.closeItems(c)
	active := t.active
	t.active = t.active[:0]
	for _, s := range active {
		t.takeApart(c, s)
	}
	clear(active)
	for t.blocks.any() && (t.blocks.first() < low || c.eof) {
		if s := c.begin(t, t.blocks.take()); s != nil {
			t.takeApart(c, s)
		}
	}
	t.openItems(c)
}

// takeApart puts what is left of a source into a list.
func (t *rawThread) takeApart(c *converter, s *callSource) {
	l := &t.apis
	if s.pair {
		l = &t.calls
	}
	for ok := true; ok; ok = s.next(c, t) {
		l.items = append(l.items, *s.head)
	}
	c.end(s)
}

// openItems makes the lists sources.
func (t *rawThread) openItems(c *converter) {
	for _, l := range []*itemList{&t.calls, &t.apis} {
		if len(l.live()) > 0 {
			l.sort()
			t.insert(c.beginItems(l))
		}
	}
}

// closeItems takes the lists out of what is gone through: they may grow.
func (t *rawThread) closeItems(c *converter) {
	kept := t.active[:0]
	for _, s := range t.active {
		if s.list == nil {
			kept = append(kept, s)
			continue
		}
		s.list.drop(len(s.list.live()) - 1 - len(s.ahead)) // the head is still there
		c.end(s)
	}
	t.active = kept
}

func (t *rawThread) part(c *converter, i int) *callThread {
	part := t.parts[i]
	if part == nil {
		s := t.h.parts[i]
		s.callers++
		part = &callThread{out: c.thread(s, t.tid), s: s, launch: deepest, joined: deepest}
		part.stack.out = part.out
		t.parts[i] = part
	}
	return part
}

// keep takes a block of calls or API records. One of a single thread is kept as it is.
func (c *converter) keep(r *reading) {
	b := r.Block()
	pids, tids := b.Column("pid"), b.Column("tid")
	pid, ok := pids.Const()
	tid, same := tids.Const()
	if !ok || !same {
		c.items(b)
		return
	}
	number := uint32(tid)
	if b.Kind == tracelog.KindAPI {
		number = c.globalTID(uint32(pid), number)
	}
	c.rawThread(uint32(pid), number).blocks.add(r.Keep(), true)
}

// items takes a block of several threads apart.
func (c *converter) items(b *tracelog.Block) {
	s := c.sources.get()
	defer c.end(s)
	s.of(c, keptBlock{Block: b, sorted: true})
	pids, tids := b.Column("pid"), b.Column("tid")
	for i := range b.N {
		if !c.wanted(b, i) {
			continue
		}
		pid, tid := uint32(pids.At(i)), uint32(tids.At(i))
		if b.Kind == tracelog.KindAPI {
			tid = c.globalTID(pid, tid)
		}
		t := c.rawThread(pid, tid)
		l := &t.calls
		if b.Kind == tracelog.KindAPI {
			l = &t.apis
		}
		l.items = append(l.items, item{})
		s.item(c, t, i, &l.items[len(l.items)-1])
	}
}

// maxRows is how many calls and API records all threads together hold back for blocks to
// come.
const maxRows = 1 << 21

// relieve stacks the older half of what is held back when that is too much: a call that
// lasted for hours, or a lost return, keeps all that its thread did meanwhile waiting.
func (c *converter) relieve() {
	held := 0
	for _, t := range c.threadOrder {
		held += t.blocks.rows + t.rows + len(t.calls.live()) + len(t.apis.live())
	}
	if held <= maxRows {
		return
	}
	for _, t := range c.threadOrder {
		if from, to, rows := t.extent(never); rows > 0 {
			t.advance(c, from+(to-from)/2+1)
		}
	}
}

// extent is the time between the earliest and the latest start of what is held back and
// begins below a time.
func (t *rawThread) extent(below uint64) (from, to uint64, rows int) {
	from, to, rows = t.blocks.extent(below)
	for _, s := range t.active {
		if s.head.start < below {
			from, to, rows = min(from, s.head.start), max(to, min(s.block.to, below)), rows+1+s.left()
		}
	}
	for _, l := range []*itemList{&t.calls, &t.apis} {
		items := l.live()
		if n := len(items); n > 0 && items[0].start < below {
			from, to, rows = min(from, items[0].start), max(to, min(items[n-1].start, below)), rows+n
		}
	}
	return from, to, rows
}

// trim gives back memory that a burst took.
func (l *itemList) trim() {
	if cap(l.items) > 1<<15 && len(l.items) < cap(l.items)/8 {
		l.items, l.head, l.sorted = slices.Clone(l.live()), 0, l.sorted-l.head
	}
}
