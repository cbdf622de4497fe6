package critical

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Without is a replay from which a cause of lost time is being taken away: of a process, from one time to another.
type Without struct {
	r        *Replay
	of       *timeline.Process
	from, to uint64
	late     map[*timeline.Process]bool // whose own time is not looked at
	unknown  bool
}

// outside shortens the time before a call of a thread, outside of calls. With also set the thread waits for nothing
// else there.
func (x *Without) outside(t *Thread, i int, ns float64, also bool) {
	m := t.base + 2*int32(i)
	if i == 0 {
		return
	}
	e := x.r.first[m]
	x.r.cut[e] -= min(int64(ns), max(x.r.cut[e], 0))
	for e++; also && e < x.r.first[m+1]; e++ {
		x.r.cut[e] = never
	}
}

// call has a call take a time at most and wait for nothing.
func (x *Without) call(t *Thread, i int, most int64) {
	e, end := x.r.first[t.base+2*int32(i)+1], x.r.first[t.base+2*int32(i)+2]
	x.r.cut[e] = min(x.r.cut[e], most)
	for e++; e < end; e++ {
		x.r.cut[e] = never
	}
}

// calls are those of the threads of the process in the time.
func (x *Without) calls(each func(t *Thread, i int, c *call)) {
	for _, t := range x.r.threads {
		if t.Process != x.of {
			continue
		}
		for i := t.calls.search(func(c *call) bool { return c.start >= x.from }); i < t.kept &&
			t.calls.at(i).start < x.to; i++ {
			each(t, i, t.calls.at(i))
		}
	}
}

// work is that of the processes in the time: of the process alone, or with all set of those that have collectives with
// it.
func (x *Without) work(all bool, each func(s *Stream, i int, p *piece)) {
	for _, s := range x.r.streams {
		if !all && s.Context.Process != x.of {
			continue
		}
		for i := s.work.search(func(p *piece) bool { return p.start >= x.from }); i < s.kept &&
			s.work.at(i).start < x.to; i++ {
			each(s, i, s.work.at(i))
		}
	}
}

// launchOf returns the call that launched a piece of work.
func (p *piece) launchOf(c *Collector) (t *Thread, i int) {
	if p.thread == 0 {
		return nil, 0
	}
	t = c.threads[p.thread-1]
	if i = t.calls.search(func(x *call) bool { return x.start > p.callStart }) - 1; i < 0 || i >= t.kept ||
		t.calls.at(i).end < p.callStart {
		return nil, 0
	}
	return t, i
}

// shorten has a piece of work take less time by so much.
func (x *Without) shorten(s *Stream, i int, ns uint64) {
	m := s.base + 2*int32(i) + 1
	for e := x.r.first[m]; e < x.r.first[m+1]; e++ {
		x.r.cut[e] -= min(int64(ns), max(x.r.cut[e], 0))
	}
}

// Spent takes away the times outside of calls in which threads of the process were blocked by one thing, or had no
// processor. part is the part of a block of which nothing was seen that was by it, too, on a thread before a call at a
// place.
func (x *Without) Spent(kind Kind, name uint32, part func(t *timeline.Thread, next uint32) float64) {
	c := x.r.c
	for _, t := range x.r.threads {
		if t.Process != x.of || t.History == nil {
			continue
		}
		i := 0
		for _, b := range t.blocks(x.to) {
			if b.End <= x.from {
				continue
			}
			for i < t.kept && t.calls.at(i).end <= b.Start {
				i++
			}
			for k, at := i, b.Start; k < t.kept && at < b.End; k++ {
				call := t.calls.at(k)
				if start := min(b.End, call.start); at < start {
					if share := x.share(t, k, b.Owner, kind, name, part); share > 0 {
						also := b.Owner.OwnerKind == activity.WasBlocked || b.Owner.Holder != nil || isElastic(b.Owner)
						x.outside(t, k, share*float64(start-at), share > 0.5 && also)
					}
				}
				at = max(at, call.start)
				if end := min(b.End, call.end); at < end && kind == NoCPU && b.Owner.OwnerKind == activity.WaitedForCPU &&
					c.Text(name) == b.Owner.Text {
					m := t.base + 2*int32(k) + 1
					x.r.cut[x.r.first[m]] -= min(int64(end-at), max(x.r.cut[x.r.first[m]], 0))
				}
				at = max(at, call.end)
			}
		}
	}
}

// share is the part of a block that is by one thing.
func (x *Without) share(t *Thread, next int, o *activity.Owner, kind Kind, name uint32,
	part func(*timeline.Thread, uint32) float64) float64 {
	switch {
	case o == nil:
	case o.OwnerKind == activity.WasBlocked && kind == Blocked:
		return part(t.Thread, t.comesTo(next))
	case (o.OwnerKind == activity.Waited && kind == Blocked || o.OwnerKind == activity.WaitedForCPU && kind == NoCPU) &&
		x.r.c.texts[name] == o.Text:
		return 1
	}
	return 0
}

// Copies takes away the copies of the process that have a name, with what their calls wait for them.
func (x *Without) Copies(name uint32) {
	x.work(false, func(s *Stream, i int, p *piece) {
		if p.kind == Copy && p.name == name {
			x.shorten(s, i, p.end-p.start)
			x.release(p)
		}
	})
}

// release has the call that launched a piece of work not wait for it.
func (x *Without) release(p *piece) {
	if t, i := p.launchOf(x.r.c); t != nil {
		x.call(t, i, entering)
	}
}

// Pageable has the larger copies from or to pageable memory go at a rate of pinned memory, in bytes a second, 0 if
// unknown. A call that copies to the GPU does not wait; the result of one that copies to the host is waited for.
func (x *Without) Pageable(rate func(gpu uint32) float64) {
	x.work(false, func(s *Stream, i int, p *piece) {
		if p.habit != pageable && p.habit != pageableToGPU {
			return
		}
		if rate := rate(s.Context.GPU); rate > 0 {
			x.shorten(s, i, p.end-p.start-min(p.end-p.start, uint64(float64(p.bytes)/rate*1e9)))
		}
		if p.habit == pageableToGPU {
			x.release(p)
		}
	})
}

// leastRun is the least number of small copies that follow each other of which it is said that they could be one.
const leastRun = 4

// SmallCopies takes away all but the first of the small copies of one direction that follow each other on a stream.
func (x *Without) SmallCopies() {
	run := 0
	var last *Stream
	x.work(false, func(s *Stream, i int, p *piece) {
		if s != last || run > 0 && (p.habit != small || p.name != s.work.at(i-1).name) {
			run = 0
		}
		last = s
		if p.habit != small {
			return
		}
		if run++; run < leastRun {
			return
		}
		first := i
		if run == leastRun {
			first = i - leastRun + 2
		}
		for ; first <= i; first++ {
			p := s.work.at(first)
			x.shorten(s, first, p.end-p.start)
			if t, k := p.launchOf(x.r.c); t != nil {
				x.call(t, k, 0)
			}
		}
	})
}

// Sets has no call of a memory set wait.
func (x *Without) Sets() {
	x.work(false, func(_ *Stream, _ int, p *piece) {
		if p.habit == syncSet {
			x.release(p)
		}
	})
}

// DeviceWaits takes away the waits for all work of a device or context.
func (x *Without) DeviceWaits() {
	x.calls(func(t *Thread, i int, c *call) {
		if x.r.c.roles[c.name] == activity.WaitsAll {
			x.call(t, i, 0)
		}
	})
}

// Allocations takes away the calls that allocate and free memory between launches.
func (x *Without) Allocations() {
	type use struct {
		t    *Thread
		name uint32
	}
	launches, before := make(map[*Thread]int), make(map[use]int)
	x.calls(func(t *Thread, i int, c *call) {
		switch x.r.c.roles[c.name] {
		case activity.Launching:
			launches[t]++
		case activity.Allocating:
			n, again := before[use{t, c.name}]
			if again && n != launches[t] {
				x.call(t, i, 0)
			}
			before[use{t, c.name}] = launches[t]
		}
	})
}

// A Lost is a time in which a GPU was idle, or a thread loaded code, of the thread that launched the next work.
type Lost struct {
	From, To uint64
	Ready    uint64 // when the next work had been launched
	By       *timeline.Thread
}

// Outside takes away a part of what threads did outside of calls in some times.
func (x *Without) Outside(list []Lost, part float64) {
	x.lost(list, func(t *Thread, i int, from, to uint64) {
		c := t.calls.at(i)
		end := uint64(0)
		if i > 0 {
			end = t.calls.at(i - 1).end
		}
		if from, to = max(from, end), min(to, c.start); from < to {
			x.outside(t, i, part*float64(to-from), part > 0.5)
		}
	})
}

// In takes away the calls of some roles in some times; of all where none is given.
func (x *Without) In(list []Lost, roles ...activity.Role) {
	x.lost(list, func(t *Thread, i int, from, to uint64) {
		c := t.calls.at(i)
		if len(roles) > 0 && !slices.Contains(roles, x.r.c.roles[c.name]) {
			return
		}
		if from, to = max(from, c.start), min(to, c.end); from < to {
			x.call(t, i, int64(c.end-c.start-(to-from)))
		}
	})
}

// lost gives the calls of threads that end or come next in some times.
func (x *Without) lost(list []Lost, each func(t *Thread, i int, from, to uint64)) {
	for _, l := range list {
		t := x.r.c.byThread[l.By]
		if t == nil || l.From < x.from {
			continue
		}
		for i := t.calls.search(func(c *call) bool { return c.end > l.From }); i < t.kept; i++ {
			each(t, i, l.From, l.Ready)
			if t.calls.at(i).start >= l.Ready {
				break
			}
		}
	}
}

// Queued takes away the time for which work was queued behind things that are not known, in some times.
func (x *Without) Queued(list []Lost) {
	for _, q := range x.r.queued {
		at := x.r.at[q.moment]
		if !slices.ContainsFunc(list, func(l Lost) bool { return l.To == at && at >= x.from }) {
			continue
		}
		for e := x.r.first[q.moment]; e < x.r.first[q.moment+1]; e++ {
			x.r.cut[e] -= q.ns
		}
	}
}

// mostBetween is the longest time between two launches, in ns, that belongs to what a launch costs a program.
const mostBetween = 20e3

// Launches takes away the launches of kernels that are shorter than their launch and that an idle GPU waits for, with
// what the thread needs from one to the next.
func (x *Without) Launches() {
	x.work(false, func(s *Stream, i int, p *piece) {
		if p.kind != Kernel || p.graph != 0 || p.end-p.start >= p.callEnd-p.callStart || p.start > p.callEnd+starting {
			return
		}
		if i > 0 && s.work.at(i-1).end > p.callStart {
			return
		}
		t, k := p.launchOf(x.r.c)
		if t == nil {
			return
		}
		x.call(t, k, 0)
		if c := t.calls.at(k); k > 0 && float64(c.start-t.calls.at(k-1).end) <= mostBetween {
			x.outside(t, k, float64(c.start-t.calls.at(k-1).end), false)
		}
	})
}

// Kernels has the kernels of the process take a part less of their time; those of one name, or all where it is "".
func (x *Without) Kernels(name string, part float64) {
	x.work(false, func(s *Stream, i int, p *piece) {
		if p.kind == Kernel && (name == "" || x.r.c.texts[p.name] == name) {
			x.shorten(s, i, uint64(part*float64(p.end-p.start)))
		}
	})
}

// Communication takes away the time of communication, on all ranks, but for what they wait for each other.
func (x *Without) Communication() {
	x.work(true, func(s *Stream, i int, p *piece) {
		if p.kind == Communication {
			x.shorten(s, i, p.end-p.start)
		}
	})
}

// TakingTurns has no work wait for work of another stream of which no call says that it has to.
func (x *Without) TakingTurns() {
	x.work(false, func(s *Stream, i int, p *piece) {
		m := s.base + 2*int32(i)
		own := false
		for e := x.r.first[m]; e < x.r.first[m+1]; e++ {
			p := x.r.pred[e]
			if p >= s.base && p < s.base+2*int32(s.kept) || p < x.r.streams[0].base {
				own = true
				continue
			}
			if own {
				x.r.cut[e] = never
			}
		}
	})
}

// Late has no other rank wait for some processes in a collective. What that saves the other ranks save.
func (x *Without) Late(who map[*timeline.Process]bool) {
	x.late, x.unknown = who, true
	for n := range x.r.joins {
		j := &x.r.joins[n]
		m := x.r.joined(int32(n))
		others := 0
		for _, part := range j.members {
			if !who[x.r.c.streams[part.stream].Context.Process] {
				others++
			}
		}
		if others == 0 || j.at < x.from {
			continue
		}
		for e := x.r.first[m]; e < x.r.first[m+1]; e++ {
			if part := j.members[e-x.r.first[m]]; who[x.r.c.streams[part.stream].Context.Process] {
				x.r.cut[e], x.unknown = never, false
			}
		}
	}
}
