package critical

import (
	"math"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Times of a replay, in ns.
const (
	launching = 3000    // an idle GPU starts work so long after the call that launches it has returned, if it is not known
	following = 1500    // and behind other work of its stream
	entering  = 5000    // a call that waits has put its work on the stream after that time
	elastic   = 200_000 // a thread that was blocked for so long by what others do, not by itself, goes on no earlier
	jammed    = 50_000  // a launch that takes so long may have waited for room in the queue of a stream
	leastJam  = 256     // pieces in a full queue
	returning = 200_000 // a call that waits returns within that time on a busy machine
	mostKnots = 1 << 20 // moments of a replay: of more, those of the beginning
	never     = math.MinInt64 / 4
	unlinked  = 0.05 // part of the time that such communication may have: more decides what is saved
)

// A Replay is a part of a timeline as a graph: the moments at which calls and work began and ended, and by how much
// each came after the ones that it had to wait for. A moment comes when the last of those is there, so the replay of
// what happened is what happened. [Replay.Saved] replays the program without a cause of lost time: then other things
// may come last. Times of processes that have collectives together are in one replay.
//
// What the log does not tell goes on as it was: time outside of calls passes, GPU work that was queued behind an
// unknown thing is queued as long, and a thread that was blocked by another process, or by a queue of unknown owner, goes
// on no earlier than it did; one that waited for a lock goes on after a call of another thread that ended just before.
type Replay struct {
	c       *Collector
	threads []*Thread
	streams []*Stream
	of      map[*timeline.Process]bool
	until   uint64   // moments before it are there
	at      []uint64 // of moments
	first   []int32  // edge of each moment, and the number of edges
	pred    []int32  // the moment that an edge comes from; anchor
	lag     []int64  // ns after it, at the earliest
	order   []int32
	joins   []join
	queued  []rest
	waits   bool                         // calls that wait are among the calls
	apart   map[*timeline.Process]uint64 // ns of communication of which it is not known whether it waits for other ranks
	returns int64                        // ns from the end of work to the return of a call that waited for it, lately

	now []int64
	cut []int64
}

// anchor is the moment 0 of time, which no cause moves.
const anchor = -1

// A join is the moment at which the last rank has entered a collective.
type join struct {
	collective
	at      uint64
	members []place // streams, and numbers of pieces
}

// A rest is time for which a piece of work was queued behind something that is not known.
type rest struct {
	moment int32
	ns     int64
}

// Replay returns the replay of a process.
func (c *Collector) Replay(of *timeline.Process) *Replay {
	c.settle()
	if r, known := c.replays[of]; known {
		return r
	}
	if c.replays == nil {
		c.replays = make(map[*timeline.Process]*Replay)
	}
	r := &Replay{c: c, of: c.together(of), apart: make(map[*timeline.Process]uint64), until: timeline.Never}
	for _, t := range c.threads {
		if r.of[t.Process] {
			r.threads = append(r.threads, t)
			r.until = min(r.until, t.process.until)
		}
	}
	for _, s := range c.streams {
		if r.of[s.Context.Process] {
			r.streams = append(r.streams, s)
		}
	}
	for p := range r.of {
		c.replays[p] = r
	}
	return r
}

// together returns a process, with those that have collectives if it has.
func (c *Collector) together(of *timeline.Process) map[*timeline.Process]bool {
	all := make(map[*timeline.Process]bool)
	for _, s := range c.streams {
		if p := s.Context.Process; !all[p] && s.parts {
			all[p] = true
		}
	}
	if !all[of] {
		return map[*timeline.Process]bool{of: true}
	}
	return all
}

// size is the number of moments before a time.
func (r *Replay) size(until uint64) (n int) {
	for _, t := range r.threads {
		n += 2 * t.calls.search(func(x *call) bool { return x.end >= until })
	}
	for _, s := range r.streams {
		n += 2 * s.work.search(func(p *piece) bool { return p.start >= until })
	}
	return n
}

// build builds the graph.
func (r *Replay) build() {
	if r.size(r.until) > mostKnots {
		low, high := uint64(0), r.until
		if high == timeline.Never {
			high = 0
			for _, s := range r.streams {
				if s.work.n > 0 {
					high = max(high, s.work.at(s.work.n-1).start)
				}
			}
			for _, t := range r.threads {
				if t.calls.n > 0 {
					high = max(high, t.calls.at(t.calls.n-1).start)
				}
			}
		}
		for high-low > 1000 {
			if mid := low + (high-low)/2; r.size(mid) > mostKnots {
				high = mid
			} else {
				low = mid
			}
		}
		r.until = low
	}
	n := int32(0)
	for _, t := range r.threads {
		t.base, t.kept = n, t.calls.search(func(x *call) bool { return x.end >= r.until })
		n += 2 * int32(t.kept)
	}
	for _, s := range r.streams {
		s.base, s.kept = n, s.work.search(func(p *piece) bool { return p.start >= r.until })
		n += 2 * int32(s.kept)
	}
	index := r.meet()
	r.at = make([]uint64, 0, int(n)+len(r.joins))
	for _, t := range r.threads {
		for i := range t.kept {
			x := t.calls.at(i)
			r.at = append(r.at, x.start, x.end)
		}
	}
	for _, s := range r.streams {
		for i := range s.kept {
			p := s.work.at(i)
			r.at = append(r.at, p.start, p.end)
		}
	}
	for i := range r.joins {
		r.at = append(r.at, r.joins[i].at)
	}
	r.first = make([]int32, 0, len(r.at)+1)
	r.pred, r.lag = make([]int32, 0, 2*n), make([]int64, 0, 2*n)
	w := &walk{c: r.c}
	for _, t := range r.threads {
		r.thread(w, t)
	}
	for _, s := range r.streams {
		for i := range s.kept {
			r.piece(w, s, i, index)
		}
	}
	for i := range r.joins {
		j := &r.joins[i]
		r.moment()
		for _, m := range j.members {
			r.edge(r.c.streams[m.stream].base+2*int32(m.start), 0)
		}
		r.close()
	}
	r.first = append(r.first, int32(len(r.pred)))
	r.sort()
}

// meet finds the collectives of which all is known.
func (r *Replay) meet() map[collective]int32 {
	index := make(map[collective]int32)
	for _, s := range r.streams {
		for i := range s.kept {
			p := s.work.at(i)
			if p.part == 0 {
				continue
			}
			x := &r.c.parts[p.part-1]
			last, known := r.c.lasts[x.collective]
			if !known || last.start >= r.until {
				continue
			}
			k, known := index[x.collective]
			if !known {
				k = int32(len(r.joins))
				index[x.collective] = k
				r.joins = append(r.joins, join{collective: x.collective})
			}
			j := &r.joins[k]
			j.at = max(j.at, p.start)
			j.members = append(j.members, place{s.index, uint64(i)})
		}
	}
	return index
}

// moment begins the edges of the next moment.
func (r *Replay) moment() { r.first = append(r.first, int32(len(r.pred))) }

// moments is the number of moments that have their edges, with the latest one.
func (r *Replay) moments() int32 { return int32(len(r.first)) }

// edge adds an edge of the latest moment: it comes no earlier than another one, and a time after that.
func (r *Replay) edge(from int32, lag int64) {
	r.pred, r.lag = append(r.pred, from), append(r.lag, lag)
}

// close ends the edges of the latest moment: by how much it came after all of them is added to each.
func (r *Replay) close() {
	m := r.moments() - 1
	left := r.behind(m)
	for e := int(r.first[m]); e < len(r.pred); e++ {
		if r.pred[e] != anchor {
			r.lag[e] += left
		}
	}
}

// behind is by how much the latest moment came after all that it had to wait for.
func (r *Replay) behind(m int32) (left int64) {
	left = math.MaxInt64
	for e := int(r.first[m]); e < len(r.pred); e++ {
		if p := r.pred[e]; p != anchor {
			left = min(left, int64(r.at[m])-int64(r.at[p])-r.lag[e])
		}
	}
	if left == math.MaxInt64 {
		return 0
	}
	return left
}

// thread adds the calls of a thread.
func (r *Replay) thread(w *walk, t *Thread) {
	blocks := t.blocks(r.until)
	end := uint64(0)
	for i := range t.kept {
		x := t.calls.at(i)
		r.moment()
		if i > 0 {
			r.outside(w, t, i, end, blocks)
		} else if o, k := r.before(t, x.start); o != nil {
			r.edge(o.base+2*int32(k)+1, int64(x.start-o.calls.at(k).end)) // which may have started the thread
		}
		for len(blocks) > 0 && blocks[0].Start < x.end {
			blocks = blocks[1:]
		}
		r.close()
		r.moment()
		r.call(t, i)
		r.close()
		end = x.end
	}
}

// blocks are the times for which the thread was blocked, outside of calls as in calls. A longer one outside of which
// nothing was seen was a wait for a lock of another thread if all that were seen so far at its place were, and the last
// of them lasted half as long. Its place is that of the next call, and how many there were since the one before: a
// thread may sleep behind a wait, and samples may always meet the wait.
func (t *Thread) blocks(until uint64) (list []activity.Stretch) {
	if t.History == nil {
		return nil
	}
	list = t.History.Blocks(0, until)
	if len(t.process.threads) < 2 {
		return list
	}
	type place struct {
		next uint32
		nth  int
	}
	seen, next, nth := make(map[place]activity.Stretch), 0, 0
	for i := range list {
		b := &list[i]
		for ; next < t.kept && t.calls.at(next).start < b.End; next++ {
			nth = 0
		}
		if b.End-b.Start < elastic || b.Owner == nil || b.Owner.OwnerKind == activity.WaitedForCPU ||
			next > 0 && t.calls.at(next-1).end > b.Start {
			continue
		}
		at := place{t.comesTo(next), nth}
		nth++
		switch s := seen[at]; {
		case s.Owner != nil && s.Owner.By != timeline.SomeLock:
		case b.Owner.OwnerKind == activity.Waited:
			seen[at] = *b
		case s.Owner != nil && 2*(s.End-s.Start) >= b.End-b.Start:
			b.Owner = s.Owner
		}
	}
	return list
}

// before is the last call of another thread of the process that ended before a time.
func (r *Replay) before(t *Thread, at uint64) (last *Thread, number int) {
	latest := uint64(0)
	for n, o := range t.process.threads {
		if n >= mostThreads || o == t {
			continue
		}
		i := o.calls.search(func(x *call) bool { return x.end > at }) - 1
		if i >= 0 && i < o.kept && o.calls.at(i).end > latest {
			latest, last, number = o.calls.at(i).end, o, i
		}
	}
	return last, number
}

// outside adds the edges of the beginning of a call: the thread did things outside of calls since the end of the one
// before, or waited there for another thread.
func (r *Replay) outside(w *walk, t *Thread, i int, end uint64, blocks []activity.Stretch) {
	x := t.calls.at(i)
	own := r.moments() - 1
	r.edge(own-1, int64(x.start)-int64(end))
	e := len(r.lag) - 1
	w.at = x.start
	if other, at := w.passed(t, end); other != nil {
		if k := other.calls.search(func(o *call) bool { return o.start >= x.start }) - 1; k >= 0 && k < other.kept {
			begun := other.calls.search(func(o *call) bool { return o.start >= end })
			since := min(max(other.calls.at(begun).start, end), at)
			r.lag[e] -= int64(at - since)
			r.edge(other.base+2*int32(k)+1, int64(x.start-at))
			return
		}
	}
	for n := range blocks {
		b := &blocks[n]
		if b.Start >= x.start {
			break
		}
		from, to := max(b.Start, end), min(b.End, x.start)
		if b.Owner == nil || from >= to {
			continue
		}
		if h := r.c.byThread[b.Owner.Holder]; h != nil && h != t && r.of[h.Process] {
			if k := h.calls.search(func(o *call) bool { return o.end > to }) - 1; k >= 0 && k < h.kept &&
				h.calls.at(k).end > from {
				r.lag[e] -= int64(to - from)
				r.edge(h.base+2*int32(k)+1, int64(x.start-h.calls.at(k).end))
			}
			continue
		}
		if to-from < elastic || !isElastic(b.Owner) {
			continue
		}
		if o, k := r.before(t, to); o != nil && b.Owner.By == timeline.SomeLock && o.calls.at(k).end > max(from, to-elastic) {
			r.lag[e] -= int64(to - from)
			r.edge(o.base+2*int32(k)+1, int64(x.start-o.calls.at(k).end))
		} else {
			r.edge(anchor, int64(x.start))
			return
		}
	}
}

// isElastic reports whether what blocked a thread may go on by itself meanwhile: another process, or a thread that is
// not known. A file or a device does not.
func isElastic(o *activity.Owner) bool {
	switch {
	case o.OwnerKind != activity.Waited || o.Holder != nil || o.By == timeline.OwnSleep:
		return false
	case o.By == timeline.SomeLock:
		return o.On != timeline.BlockGIL
	}
	return o.ByOthers
}

// call adds the edges of the end of a call: it does its own part, and waits for work.
func (r *Replay) call(t *Thread, i int) {
	x := t.calls.at(i)
	start, took := r.moments()-2, int64(x.end-x.start)
	r.edge(start, took)
	own := len(r.lag) - 1
	waited := false
	for n, a := 0, t.awaited(x); a != nil && n < mostOverlap; n, a = n+1, t.following(a) {
		s := r.c.streams[a.stream]
		k, found := s.find(a)
		if !found || k >= s.kept || !r.of[s.Context.Process] || a.end > x.end+slack {
			continue
		}
		r.edge(s.base+2*int32(k)+1, int64(x.end)-int64(a.end))
		if a.end > x.start {
			waited = true
			r.lag[own] = min(r.lag[own], max(int64(x.end)-int64(a.end), 0))
		}
	}
	after := r.lag[own]
	if waited {
		r.returns += (after - r.returns) / 16
	} else {
		after = max(after, r.returns)
	}
	for e := own + 1; e < len(r.lag); e++ {
		r.lag[e] = min(r.lag[e], after)
	}
	if len(r.lag) == own+1 {
		if s, k := r.c.jam(t, x); s != nil && k < s.kept {
			after := int64(x.end - s.work.at(k).end)
			r.lag[own] = min(after, took)
			r.edge(s.base+2*int32(k)+1, after)
		}
	}
	role := r.c.roles[x.name]
	r.waits = r.waits || role == activity.Waits || role == activity.WaitsAll || len(r.lag) > own+1
}

// following is the next work that the call waited for, nil for none.
func (t *Thread) following(a *awaited) *awaited {
	if a.next == 0 {
		return nil
	}
	return &t.waits[a.next-1]
}

// frees reports whether a call frees memory: it waits for all work.
func (c *Collector) frees(x *call) bool {
	return c.roles[x.name] == activity.Allocating && strings.Contains(c.texts[x.name], "Free")
}

// jam returns the work for whose end a call waited of which that is not recorded: a launch that takes long, for room in
// the queue of a stream; a call that frees memory, for all work; one that waits, for work that ended shortly before it
// returned. Of an event it is not known for which stream it waits: its work may have ended earlier. A wait for a stream
// without work may be one for a host function.
func (c *Collector) jam(t *Thread, x *call) (last *Stream, at int) {
	role := c.roles[x.name]
	waits, launches := role == activity.Waits || role == activity.WaitsAll, role == activity.Launching
	mostLate := uint64(starting)
	if x.unknown {
		mostLate = max(mostLate, min((x.end-x.start)/16, returning))
	}
	frees := c.frees(x)
	if !waits && (!launches && !frees || x.end-x.start < jammed) {
		return nil, 0
	}
	latest := uint64(0)
	for n, s := range t.process.streams {
		if n >= mostStreams {
			return nil, 0
		}
		k := s.work.search(func(p *piece) bool { return p.start >= x.end }) - 1
		if k >= 0 && s.work.at(k).end > x.end {
			if frees {
				return nil, 0
			}
			k--
		}
		if k < 0 || s.work.at(k).end <= max(latest, x.start) || s.work.at(k).end > x.end {
			continue
		}
		if !frees && x.end-s.work.at(k).end > mostLate {
			continue
		}
		if full := k + leastJam; launches && (full >= s.work.n || s.mixed || s.work.at(full).callStart >= x.start) {
			continue
		}
		latest, last, at = s.work.at(k).end, s, k
	}
	return last, at
}

// piece adds a piece of work.
func (r *Replay) piece(w *walk, s *Stream, i int, index map[collective]int32) {
	p := s.work.at(i)
	r.moment()
	w.all = w.reasons(s, i, w.all[:0])
	for n := range w.all {
		x := &w.all[n]
		if x.thread != nil {
			r.launch(x.thread, p)
			continue
		}
		q := x.stream.work.at(x.piece)
		if x.piece < x.stream.kept && r.of[x.stream.Context.Process] {
			r.edge(x.stream.base+2*int32(x.piece)+1, min(int64(p.start)-int64(q.end), following))
		}
	}
	m := r.moments() - 1
	if left := r.behind(m); left > starting {
		if o, k := s.endedAt(p); o != nil && k < o.kept {
			r.edge(o.base+2*int32(k)+1, int64(p.start-o.work.at(k).end))
		} else {
			r.queued = append(r.queued, rest{m, left})
		}
	}
	r.close()
	r.moment()
	if p.part != 0 {
		if j, known := index[r.c.parts[p.part-1].collective]; known &&
			(r.c.parts[p.part-1].sure || !r.c.parts[p.part-1].waits) && r.joins[j].at <= p.end {
			r.edge(r.joined(j), int64(p.end-r.joins[j].at))
			return
		}
	}
	if p.kind == Communication {
		r.apart[s.Context.Process] += p.end - p.start
	}
	r.edge(m, int64(p.end-p.start))
}

// joined is the moment of a join.
func (r *Replay) joined(j int32) int32 {
	last := r.streams[len(r.streams)-1]
	return last.base + 2*int32(last.kept) + j
}

// launch adds the edge from the call that launched a piece of work.
func (r *Replay) launch(t *Thread, p *piece) {
	i := t.cursor
	for i+1 < t.calls.n && t.calls.at(i+1).start <= p.callStart && i < t.cursor+mostAhead {
		i++
	}
	if i >= t.calls.n || t.calls.at(i).start > p.callStart || t.calls.at(i).end < p.callStart {
		i = t.calls.search(func(x *call) bool { return x.start > p.callStart }) - 1
	}
	if i < 0 || i >= t.kept || t.calls.at(i).end < p.callStart {
		return
	}
	t.cursor = i
	x := t.calls.at(i)
	switch {
	case p.start >= x.end:
		r.edge(t.base+2*int32(i)+1, min(int64(p.start-x.end), launching))
	case p.start < x.start:
	case x.wait != 0 || p.end <= x.end:
		r.edge(t.base+2*int32(i), min(int64(p.start-x.start), entering))
	default:
		r.edge(t.base+2*int32(i), int64(min(p.start, max(p.callEnd, x.start))-x.start))
	}
}

// sort puts the moments in an order in which each comes after all that it waits for. Where clocks are wrong, things may
// seem to wait for each other: the edge that closes the circle is left out.
func (r *Replay) sort() {
	const (
		fresh = iota
		open
		done
	)
	n := len(r.at)
	r.order = make([]int32, 0, n)
	state := make([]uint8, n)
	next := make([]int32, n)
	copy(next, r.first[:n])
	var stack []int32
	for m := range int32(n) {
		if state[m] != fresh {
			continue
		}
		stack = append(stack, m)
		state[m] = open
		for len(stack) > 0 {
			top := stack[len(stack)-1]
			if next[top] == r.first[top+1] {
				state[top] = done
				r.order = append(r.order, top)
				stack = stack[:len(stack)-1]
				continue
			}
			e := next[top]
			next[top]++
			switch p := r.pred[e]; {
			case p == anchor:
			case state[p] == open:
				r.lag[e] = never
			case state[p] == fresh:
				state[p] = open
				stack = append(stack, p)
			}
		}
	}
}

// What a replay lacks.
const (
	Unkept   = "there are too many calls and too much work to replay"
	Waitless = "no calls that wait were recorded"
	Apart    = "how long its collectives wait for other ranks is not known"
)

// Saved is by how much the part of a process from one time to another, in ns of the timeline, is shorter without a
// cause: cut takes it away. lack says why that is not known, "" where it is. Of a part of which more than half is kept,
// it is an estimate.
func (r *Replay) Saved(of *timeline.Process, from, to uint64, cut func(*Without)) (ns uint64, lack string) {
	kept := func() bool { return from < to && r.until >= from+(to-from)/2 }
	if kept() && r.first == nil {
		r.build()
	}
	switch {
	case !kept():
		return 0, Unkept
	case !r.waits:
		return 0, Waitless
	case float64(r.apart[of]) > unlinked*float64(to-from):
		return 0, Apart
	}
	if r.now == nil {
		r.now, r.cut = make([]int64, len(r.at)), make([]int64, len(r.lag))
	}
	copy(r.cut, r.lag)
	x := &Without{r: r, of: of, from: from, to: to}
	if cut(x); x.unknown {
		return 0, Apart
	}
	measured := map[*timeline.Process]bool{of: true}
	if x.late != nil {
		clear(measured)
		for p := range r.of {
			measured[p] = !x.late[p]
		}
	}
	for _, m := range r.order {
		at := int64(r.at[m])
		if r.at[m] < from {
			r.now[m] = at
			continue
		}
		latest := int64(never)
		for e := r.first[m]; e < r.first[m+1]; e++ {
			t := r.cut[e]
			if p := r.pred[e]; p != anchor {
				t += r.now[p]
			}
			latest = max(latest, t)
		}
		if latest < 0 {
			latest = at
		}
		r.now[m] = latest
	}

	last, now := r.last(measured, to)
	saved := uint64(max(last-now, 0))
	if until := min(to, r.until); until < to {
		saved = uint64(float64(saved) * float64(to-from) / float64(until-from))
	}
	return saved, ""
}

// last is the latest end of work of processes before a time, and when the latest one came in the replay; of processes
// without work, of calls. Other threads, such as those that look after a communicator once a second, go on as they did.
func (r *Replay) last(of map[*timeline.Process]bool, to uint64) (last, now int64) {
	look := func(base int32, n int) {
		for m := base; m < base+2*int32(n); m++ {
			if r.at[m] <= to {
				last, now = max(last, int64(r.at[m])), max(now, r.now[m])
			}
		}
	}
	for _, s := range r.streams {
		if of[s.Context.Process] {
			look(s.base, s.kept)
		}
	}
	for _, t := range r.threads {
		if last == 0 && of[t.Process] {
			look(t.base, t.kept)
		}
	}
	return last, now
}
