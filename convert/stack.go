package convert

import (
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// stackStats counts what joining the observations of threads found.
type stackStats struct {
	pairs   uint64 // uprobe pairs
	apis    uint64 // CUPTI API records
	joined  uint64 // API records with the uprobe pair of their call
	unseen  uint64 // API records of calls that succeeded and no uprobe saw
	calls   uint64 // outermost slices: what the program called
	failed  uint64 // outermost calls that returned an error
	open    uint64 // calls that had not returned
	clipped uint64 // slices that crossed the end of the one around them
	late    uint64 // slices that began before what was shown already, and were moved up
	alone   uint64 // calls that create GPU work, succeeded, and have no API record

	launches uint64 // calls that launched a kernel, the outermost of each
	errors   map[failure]uint64
}

// A failure is a function with the error that it returned.
type failure struct {
	name, category string
	ret            int32
}

// An item is a uprobe pair or an API record.
type item struct {
	start, end  uint64
	fn          *Function
	args        *Arguments
	correlation uint32
	ret         int32
	flags       uint16
	part        uint16 // which of the PID's sessions
	rank        rank
}

// rank orders intervals that are equal: a runtime call makes the driver call
// that the pair saw, and a pair holds the driver's record of the same call.
type rank uint8

const (
	rankRuntimeAPI rank = iota
	rankPair
	rankDriverAPI
)

// before says whether an interval comes first in the order in which they nest.
func (a *item) before(b *item) bool {
	if a.start != b.start {
		return a.start < b.start
	}
	if a.end != b.end {
		return a.end > b.end
	}
	return a.rank < b.rank
}

// A state says what a slice is made of and how far it has come.
type state uint16

const (
	fromPair state = 1 << iota
	fromAPI
	hasPartner // a runtime record that holds its driver call's pair
	isPartner  // that pair
	closed     // nothing can lie within it or be merged with it any more
	committed  // still open, but shown: nothing is merged with it any more
	awaiting   // the GPU work that its correlation ID names may come
	launching  // its function launches a kernel, which is all that it does on the GPU
	waiting    // what it waited for is not known yet

	source = fromPair | fromAPI | hasPartner | isPartner
)

// A callThread rebuilds the call stacks of one thread of a session, as its items come in
// the order in which they nest.
type callThread struct {
	out     *Thread
	s       *session
	open    []*Slice // outermost first
	pending sliceQueue
	waits   waitList
	last    uint64 // the latest start
	stack   sliceStack
	shown   bool  // some slices
	launch  int32 // depth of the launching call that has begun, deepest without
	joined  int32 // the same of the outermost call that has work
}

const deepest = 1<<31 - 1

// maxOpenPending is how many slices a thread holds back because one around them is still
// open, a call that takes hours say.
const maxOpenPending = 1 << 15

// place puts one interval on the stack: into the slice of the same call when the
// other observer already made it, else as a slice of its own.
func (t *callThread) place(c *converter, it *item) {
	if it.start < t.last {
		it.start, it.end = t.last, max(it.end, t.last)
		c.found.stack.late++
	}
	t.last = it.start
	t.closeUntil(c, it.start)
	from := fromAPI
	if it.rank == rankPair {
		from = fromPair
	}
	if len(t.open) > 0 {
		top := t.open[len(t.open)-1]
		if top.merge(it, from) {
			c.found.stack.joined++
			return
		}
		if it.end > top.End {
			it.end = top.End
			c.found.stack.clipped++
		}
		from |= t.partner(c, it, from)
	}
	t.push(c, it, from)
}

func (t *callThread) push(c *converter, it *item, from state) {
	sl := t.pending.push(&c.chunks)
	if it.fn.launches {
		from |= launching
	}
	// Field by field: what a literal costs is a copy more.
	sl.Function, sl.Arguments, sl.Start, sl.End = it.fn, it.args, it.start, it.end
	sl.Queue, sl.Kernel, sl.first[0], sl.links = nil, nil, 0, nil
	sl.stream, sl.Depth, sl.Correlation = it.fn.streamOf(it.args.Args), int32(len(t.open)), it.correlation
	sl.Ret, sl.tid, sl.Flags, sl.state = it.ret, t.out.TID, it.flags, from
	if sl.wait != 0 && t.s.waits != nil {
		t.s.waits.add(t, sl)
	}
	t.open = append(t.open, sl)
	if t.pending.len() > maxOpenPending && t.pending.front()[0].state&(closed|committed) == 0 {
		t.commit(c)
	}
}

// closeUntil closes the slices that end by a time.
func (t *callThread) closeUntil(c *converter, at uint64) {
	for n := len(t.open); n > 0 && t.open[n-1].End <= at; n-- {
		t.close(c, t.open[n-1])
		t.open = t.open[:n-1]
	}
}

func (t *callThread) closeAll(c *converter) { t.closeUntil(c, never) }

// close takes in that a slice is what it will be.
func (t *callThread) close(c *converter, sl *Slice) {
	if sl.state&committed == 0 {
		c.register(t.s, sl)
		if sl.state&waiting != 0 {
			t.s.waits.closed(&t.waits, sl)
		}
	}
	sl.state |= closed
}

// commit shows the open slices, as what lies within them is too much to hold back.
func (t *callThread) commit(c *converter) {
	for _, sl := range t.open {
		if sl.state&committed == 0 {
			c.register(t.s, sl)
			sl.state |= committed
		}
	}
}

// unclosed is when the first of the open slices began that may create work, which is not
// joined with it before it is closed.
func (t *callThread) unclosed() uint64 {
	for _, sl := range t.open {
		if sl.wait == 0 && sl.state&committed == 0 {
			return sl.Start
		}
	}
	return never
}

// merge folds a second view of one call into the slice that already holds it.
func (sl *Slice) merge(it *item, from state) bool {
	if sl.state&(from|committed) != 0 || it.end > sl.End || !sl.same(it.fn) {
		return false
	}
	if from == fromAPI {
		sl.Correlation = it.correlation
	} else {
		sl.Function, sl.Ret, sl.Flags, sl.Arguments = it.fn, it.ret, it.flags, it.args
		sl.stream = it.fn.streamOf(it.args.Args)
	}
	sl.state |= from
	return true
}

// partner notes that a driver call's pair lies in the runtime record around it. It
// returns isPartner when there is such a record.
func (t *callThread) partner(c *converter, it *item, from state) (mark state) {
	if from != fromPair || !it.fn.driver {
		return 0
	}
	for _, o := range t.open {
		if o.state&fromAPI == 0 || !o.runtime {
			continue
		}
		mark = isPartner
		if o.stream == 0 {
			o.stream = it.fn.streamOf(it.args.Args)
		}
		// With its own pair the record was counted when the two were merged.
		if o.state&(fromPair|hasPartner) == 0 {
			o.state |= hasPartner
			c.found.stack.joined++
		}
	}
	return mark
}

// emit gives the sink the slices that are what they will be, in pre-order.
func (t *callThread) emit(c *converter) {
	for t.pending.len() > 0 {
		list := t.pending.front()
		n := 0
		for n < len(list) && c.settled(t.s, &list[n]) {
			t.show(c, &list[n])
			n++
		}
		if n == 0 {
			break
		}
		t.shown = true
		c.relay.Slices(&t.stack, list[:n])
		t.pending.pop(n, c.relay.retire)
	}
	if c.eof && t.shown {
		c.relay.EndSlices(&t.stack)
	}
}

// show makes a slice ready to be shown.
func (t *callThread) show(c *converter, sl *Slice) {
	t.finish(c, sl)
	sl.hidden = !c.shows(sl)
	if sl.state&closed == 0 { // what it was is still asked for
		open := *sl
		t.open[sl.Depth] = &open
	}
}

// settled says whether a slice may be shown: it is closed, and what could still be
// joined to it has come, or has not for so long that it will not.
func (c *converter) settled(s *session, sl *Slice) bool {
	switch {
	case sl.state&(closed|committed) == 0:
		return false
	case sl.state&(awaiting|waiting) == 0 || c.eof:
		return true
	case c.pressed:
		c.found.forced++
		return true
	case sl.state&waiting != 0 && s.waits.done <= end(sl.End, s.waits.tolerance):
		return false
	}
	return sl.state&awaiting == 0 || s.progress.past(sl)
}

// finish names the kernel of a launch and counts the call.
func (t *callThread) finish(c *converter, sl *Slice) {
	c.release(t.s, sl)
	if sl.state&waiting != 0 {
		t.waits.remove(sl)
	}
	if sl.Depth <= t.joined {
		t.joined = deepest
		switch {
		case sl.first[0] != 0:
			t.joined = sl.Depth
		case sl.handle >= 0 && sl.handle < len(sl.Args):
			sl.Kernel = t.s.symbols.kernel(sl.Args[sl.handle], sl.Start)
		}
	}
	if sl.Depth <= t.launch {
		t.launch = deepest
		if sl.launches {
			t.launch = sl.Depth
			if sl.Ret == 0 {
				c.found.stack.launches++
			}
		}
	}
	c.found.stack.count(sl, t.s.correlated && sl.End <= t.s.handedOver)
}

func (s *stackStats) count(sl *Slice, correlated bool) {
	// A call that fails may do so before it reaches the probed function.
	if sl.state&source == fromAPI && sl.Ret == 0 {
		s.unseen++
	}
	if sl.state&source == fromPair && sl.work && sl.Ret == 0 && sl.Flags == 0 && correlated {
		s.alone++
	}
	if sl.Flags&tracelog.CallUnfinished != 0 {
		s.open++
	}
	if sl.Depth > 0 {
		return
	}
	s.calls++
	if sl.Ret == 0 || sl.Ret == notReady || sl.Ret == deinitialized || sl.Flags&(tracelog.CallUnfinished|tracelog.CallNoReturn) != 0 {
		return
	}
	s.failed++
	if s.errors == nil {
		s.errors = make(map[failure]uint64)
	}
	s.errors[failure{sl.Name, sl.Category, sl.Ret}]++
}
