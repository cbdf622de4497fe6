package convert

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A rawThread has the blocks and items of a thread that can't be stacked yet, as blocks
// to come may reach back to before them.
type rawThread struct {
	threadKey
	h      *history
	groups []*group
	calls  itemList
	apis   itemList
	blocks keptBlocks
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

// keptBlocks are blocks that are not taken apart yet: a block takes a third of the memory
// of its items.
type keptBlocks struct {
	list []keptBlock
	rows int
}

type keptBlock struct {
	*tracelog.Block
	from, to uint64 // the earliest and the latest start
}

func (k *keptBlocks) add(b *tracelog.Block) {
	starts := b.Column(eventKinds[b.Kind].start)
	kept := keptBlock{b, never, 0}
	for i := range b.N {
		at := starts.At(i)
		kept.from, kept.to = min(kept.from, at), max(kept.to, at)
	}
	k.list = append(k.list, kept)
	k.rows += b.N
}

// take gives the blocks that begin before a time, or all, to f, and then back to the reader.
func (k *keptBlocks) take(before uint64, all bool, f func(*tracelog.Block)) {
	left := k.list[:0]
	for _, b := range k.list {
		if b.from >= before && !all {
			left = append(left, b)
			continue
		}
		k.rows -= b.N
		f(b.Block)
		b.Release()
	}
	clear(k.list[len(left):])
	k.list = left
}

// extent is the time between the earliest and the latest start below a time.
func (k *keptBlocks) extent(below uint64) (from, to uint64, rows int) {
	from = never
	for i := range k.list {
		if b := &k.list[i]; b.from < below {
			from, to = min(from, b.from), max(to, min(b.to, below))
			rows += b.N
		}
	}
	return from, to, rows
}

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

// advance stacks the items that begin before low.
func (t *rawThread) advance(c *converter, low uint64) {
	t.blocks.take(low, c.eof, c.items)
	t.calls.sort()
	t.apis.sort()
	a, b := t.calls.live(), t.apis.live()
	i, j := 0, 0
	for {
		var it *item
		switch {
		case i < len(a) && (j >= len(b) || !b[j].before(&a[i])):
			it = &a[i]
			i++
		case j < len(b):
			it = &b[j]
			j++
		}
		if it == nil {
			break
		}
		if it.start >= low && !c.eof {
			if it.rank == rankPair {
				i--
			} else {
				j--
			}
			break
		}
		t.part(c, int(it.part)).place(c, it)
	}
	t.calls.drop(i)
	t.apis.drop(j)
	for _, part := range t.parts {
		if part != nil && !c.eof {
			part.closeUntil(c, low)
		}
	}
}

func (t *rawThread) part(c *converter, i int) *callThread {
	part := t.parts[i]
	if part == nil {
		s := t.h.parts[i]
		s.callers++
		part = &callThread{out: c.thread(s, t.tid), s: s, launch: deepest, joined: deepest}
		t.parts[i] = part
	}
	return part
}

// callColumns are the fields of a block of calls.
type callColumns struct {
	pid, tid, fn, flags, enter, dur, ret tracelog.Column
}

func (x *callColumns) of(b *tracelog.Block) {
	x.pid, x.tid, x.fn, x.flags = b.Column("pid"), b.Column("tid"), b.Column("func"), b.Column("flags")
	x.enter, x.dur, x.ret = b.Column("enter"), b.Column("dur"), b.Column("ret")
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
	c.rawThread(uint32(pid), number).blocks.add(r.Keep())
}

// items takes a block of calls or API records apart.
func (c *converter) items(b *tracelog.Block) {
	if b.Kind == tracelog.KindCall {
		c.calls(b)
	} else {
		c.apis(b)
	}
}

// calls takes a block of uprobe pairs.
func (c *converter) calls(b *tracelog.Block) {
	x := &c.callColumns
	x.of(b)
	c.arguments.of(b)
	var fn *Function
	last := uint64(never)
	for i := range b.N {
		if !c.wanted(b, i) {
			continue
		}
		if id := x.fn.At(i); id != last {
			fn, last = c.function(uint32(id)), id
		}
		t := c.rawThread(uint32(x.pid.At(i)), uint32(x.tid.At(i)))
		enter := x.enter.At(i)
		it := item{start: enter, end: end(enter, x.dur.At(i)), fn: fn, args: c.arguments.row(i), ret: int32(x.ret.Int(i)), flags: uint16(x.flags.At(i)), rank: rankPair}
		if len(t.parts) > 1 {
			it.part = uint16(t.h.parts.place(it.end))
		}
		if it.flags&tracelog.CallUnfinished != 0 {
			it.end = max(t.h.parts[it.part].horizon, enter)
		}
		t.calls.items = append(t.calls.items, it)
		c.found.stack.pairs++
	}
}

// apis takes a block of API records.
func (c *converter) apis(b *tracelog.Block) {
	pids, tids, domains, names := b.Column("pid"), b.Column("tid"), b.Column("domain"), b.Column("name")
	starts, durs, ids, rets := b.Column("start"), b.Column("dur"), b.Column("correlation"), b.Column("ret")
	var fn *Function
	var known callback
	r := rankDriverAPI
	for i := range b.N {
		if !c.wanted(b, i) {
			continue
		}
		if key := (callback{domains.At(i) == tracelog.DomainRuntime, names.At(i)}); fn == nil || key != known {
			fn, known, r = c.callback(b, key), key, rankDriverAPI
			if key.runtime {
				r = rankRuntimeAPI
			}
		}
		pid, start := uint32(pids.At(i)), starts.At(i)
		t := c.rawThread(pid, c.globalTID(pid, uint32(tids.At(i))))
		it := item{start: start, end: end(start, durs.At(i)), fn: fn, args: noArguments, correlation: uint32(ids.At(i)), ret: int32(rets.At(i)), rank: r}
		if len(t.parts) > 1 {
			it.part = uint16(t.h.parts.place(it.end))
		}
		t.apis.items = append(t.apis.items, it)
		c.found.stack.apis++
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
		held += t.blocks.rows + len(t.calls.live()) + len(t.apis.live())
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
