package activity

import (
	"cmp"
	"maps"
	"slices"
)

// A Cause is the reason why a device was idle.
type Cause uint8

// The causes. The work that ends a gap decides.
const (
	LaunchedLate Cause = iota // the call that launches the work had not returned
	Dependency                // the work was queued behind work of its own stream
	OtherWork                 // the work was queued, and work of another stream was the last to end
	OtherCause                // the work had just been launched, or its call is not known
	Causes                    // number of causes
)

// A Gap is a time without work on a device.
type Gap struct {
	From, To uint64
	Ready    uint64 // when the call that launches Next returned; not before From, nor after To
	Queued   Cause  // of the time from Ready on
	What     string // likewise: see [Reason]
	Next     *Piece // the work that ends it
	Lane     *Lane  // of Next
	Last     *Piece // the work that was the last to end before
	// Spent is what the thread that launched Next did up to Ready.
	Spent []Spent
}

// A Watcher looks at the idle time of devices.
type Watcher interface {
	Gap(*Gap)
	// Behind is called for work that was queued while work of another stream ran alone, and
	// started after its end. It could have started at ready, if nothing but its own stream
	// held it back.
	Behind(last, next *Piece, lanes [2]*Lane, ready uint64)
}

// An Idle is the idle time of a device by cause. It is empty where nobody watches.
type Idle struct {
	Time [Causes]uint64
	Rows map[Reason]*Row

	late    []*Row // of LaunchedLate, by the index of the function
	owned   map[*Owner]*Row
	pooled  bool // see Pool
	outside *Row
	unknown *Row
	seen    lastSeen
	spent   []Spent
	cut     []Spent // of a gap that a mark divides
}

// A Reason is a cause, with what the launching thread did meanwhile.
type Reason struct {
	Cause Cause
	What  string // a function, or a text
}

// A Row has the idle times of one reason.
type Row struct {
	Reason
	Seen                // a time each gap
	MaxAt     uint64    // of Longest
	Low, High uint64    // see Estimate; both are 0 before Pool
	Owner     *Owner    // of Reason.What; nil for other reasons
	Function  *Function // likewise
	now       latestGap
	latest    [scales]latest
}

// Estimate is the time of the row. The times have been divided: see Pool.
func (r *Row) Estimate() Estimate { return Estimate{r.Time, r.Low, r.High} }

// A latestGap is the last gap that has time of a row.
type latestGap struct{ from, ns uint64 }

// add adds time of a gap. It returns the row's time in the gap, and whether there was some before.
func (g *latestGap) add(from, ns uint64) (now uint64, more bool) {
	if more = g.ns > 0 && g.from == from; !more {
		*g = latestGap{from: from}
	}
	g.ns += ns
	return g.ns, more
}

// Texts of reasons that are no functions.
const (
	OutsideCalls = "(outside of CUDA calls)"
	NotKnown     = "(not known)"
	ToStart      = "(start of work on an idle GPU)"
	NoCall       = "(work without a known call)"
	ItsStream    = "(earlier work of its stream)"
	AnotherOne   = "(work of another stream)"
)

// countIdle adds idle time of the gap that begins at a time.
func (r *Row) countIdle(at uint64, s *Spent, seen *lastSeen) {
	now, more := r.now.add(at, s.Time)
	if now > r.Longest {
		r.MaxAt = at
	}
	r.add(more, now, s)
	r.Turns += seen.shows(r, s)
}

// row returns the row of a reason.
func (d *Idle) row(cause Cause, what string) *Row {
	key := Reason{cause, what}
	r := d.Rows[key]
	if r == nil {
		if d.Rows == nil {
			d.Rows = make(map[Reason]*Row)
		}
		r = &Row{Reason: key}
		d.Rows[key] = r
	}
	return r
}

// gap takes the gap between the last work and the next.
func (d *Idle) gap(watch Watcher, last, next *behind) {
	l, p := next.lane, &next.Piece
	g := Gap{From: last.End, To: p.Start, Ready: last.End, Queued: OtherCause, Next: p, Lane: l, Last: &last.Piece}
	what := NoCall
	switch {
	case p.Thread == nil:
	case p.CallEnd > g.From:
		g.Ready = min(p.CallEnd, g.To)
		what = ToStart
	case last.lane == l:
		g.Queued, what = Dependency, ItsStream
	default:
		g.Queued, what = OtherWork, AnotherOne
	}
	g.What = what
	if g.Ready > g.From {
		d.spent = p.Thread.during(g.From, g.Ready, d.spent[:0])
		g.Spent = d.spent
		d.Time[LaunchedLate] += g.Ready - g.From
		for i := range g.Spent {
			d.lateRow(&g.Spent[i]).countIdle(g.From, &g.Spent[i], &d.seen)
		}
		l.Part.late(d, &g)
	}
	if queued := g.To - g.Ready; queued > 0 {
		d.Time[g.Queued] += queued
		r := d.row(g.Queued, what)
		r.countIdle(g.Ready, &Spent{Time: queued}, &d.seen)
		l.Part.queued(r, &g)
	}
	watch.Gap(&g)
}

// What names what the thread did, as the rows of idle time do.
func (s *Spent) What() string {
	switch {
	case s.Unknown:
		return NotKnown
	case s.Owner != nil:
		return s.Owner.Text
	case s.Function == nil:
		return OutsideCalls
	}
	return s.Function.Name
}

// lateRow returns the row of LaunchedLate for what a thread did.
func (d *Idle) lateRow(s *Spent) *Row {
	switch {
	case s.Unknown:
		return d.kept(&d.unknown, NotKnown)
	case s.Owner != nil:
		return d.ownedRow(s.Owner)
	case s.Function == nil:
		return d.kept(&d.outside, OutsideCalls)
	}
	for len(d.late) <= s.Function.index {
		d.late = append(d.late, nil)
	}
	r := d.kept(&d.late[s.Function.index], s.Function.Name)
	r.Function = s.Function
	return r
}

// ownedRow returns the row of LaunchedLate for what a thread did outside of calls.
func (d *Idle) ownedRow(o *Owner) *Row {
	r := d.owned[o]
	if r == nil {
		if d.owned == nil {
			d.owned = make(map[*Owner]*Row)
		}
		r = d.row(LaunchedLate, o.Text)
		r.Owner, d.owned[o] = o, r
	}
	return r
}

// Pool divides the time of which it is not known what code ran, or what blocked the thread, among what was seen: see
// Divide.
func (d *Idle) Pool() {
	if d.pooled {
		return
	}
	d.pooled = true
	for _, r := range d.Rows {
		r.Low, r.High = r.Time, r.Time
	}
	sorted := slices.SortedFunc(maps.Values(d.Rows), func(a, b *Row) int { return cmp.Compare(a.What, b.What) })
	for _, k := range []struct{ unknown, known OwnerKind }{{Ran, RanCode}, {WasBlocked, Waited}} {
		var pool *Row
		var rows []*Row
		var seen []Seen
		for _, r := range sorted {
			switch {
			case r.Owner == nil:
			case r.Owner.OwnerKind == k.unknown:
				pool = r
			case r.Owner.OwnerKind == k.known:
				rows, seen = append(rows, r), append(seen, r.Seen)
			}
		}
		var unknown Seen
		if pool != nil && pool.Longest > 0 { // of a part of a gap there may be a row without time
			unknown = pool.Seen
		}
		parts := Divide(unknown, seen)
		low, high := between(unknown, seen, parts, k.known == Waited)
		for i, part := range parts {
			rows[i].Count += part.Count
			rows[i].Time += part.Time
			rows[i].Low, rows[i].High = low[i], high[i]
		}
		if unknown.Longest == 0 {
			continue
		}
		for _, part := range parts {
			pool.Count -= part.Count
			pool.Time -= part.Time
		}
		pool.Low, pool.High = pool.Time, pool.Time
		pool.Count = max(pool.Count, (pool.Time+pool.Longest-1)/pool.Longest)
	}
	for reason, r := range d.Rows {
		if r.Time == 0 && reason.Cause == LaunchedLate {
			delete(d.Rows, reason)
		}
	}
}

// SortRows sorts rows as [SortEstimates] does.
func SortRows(rows []*Row) {
	SortEstimates(rows, (*Row).Estimate, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.What, b.What))
	})
}

// Longest returns what took longest while a GPU was idle, and the times.
func (d *Idle) Longest(most int) (what []string, times []Estimate) {
	d.Pool()
	what, times = []string{}, []Estimate{}
	rows := slices.Collect(maps.Values(d.Rows))
	SortRows(rows)
	for _, r := range rows[:min(len(rows), most)] {
		what, times = append(what, r.What), append(times, r.Estimate())
	}
	return what, times
}

func (d *Idle) kept(r **Row, what string) *Row {
	if *r == nil {
		*r = d.row(LaunchedLate, what)
	}
	return *r
}

// follows looks at two pieces of different streams, of which the next one started when the last
// one had ended.
func (d *Idle) follows(watch Watcher, last, next *behind) {
	l, p := next.lane, &next.Piece
	if last.lane == l || p.Thread == nil || p.Start < last.End {
		return
	}
	if ready := max(p.CallEnd, l.Busy.End, last.Start); ready < last.End {
		watch.Behind(&last.Piece, p, [2]*Lane{last.lane, l}, ready)
	}
}
