package findings

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
)

// An evidence has the times of one habit.
type evidence struct {
	count       uint64
	cost        uint64 // ns
	first, last uint64 // moments of the first and of the last time
	longest     Moments
	bytes       uint64  // copied
	async       uint64  // of count, by functions with Async in their name
	runs        uint64  // of small copies
	weight      float64 // of what was seen by chance: see [activity.Spent]
	byChance    uint64  // of count, times with a weight
}

// A moment is a time to jump to.
type moment struct{ at, cost uint64 }

// MaxMoments is the number of moments that a finding names.
const MaxMoments = 3

// Moments are the times to jump to: those that cost most, the longest first, of equal ones the earlier.
type Moments []moment

// Add adds a moment, if it is among those that cost most.
func (l *Moments) Add(at, cost uint64) {
	m := moment{at, cost}
	if len(*l) == MaxMoments && m.compare((*l)[MaxMoments-1]) >= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(*l, m, moment.compare)
	*l = slices.Insert(*l, i, m)
	*l = (*l)[:min(len(*l), MaxMoments)]
}

// At are the times.
func (l Moments) At() (at []uint64) {
	for _, m := range l {
		at = append(at, m.at)
	}
	return at
}

// Longest is what the first of them cost.
func (l Moments) Longest() uint64 {
	if len(l) == 0 {
		return 0
	}
	return l[0].cost
}

func (e *evidence) add(at, cost uint64) {
	if e.count == 0 || at < e.first {
		e.first = at
	}
	e.last = max(e.last, at)
	e.count++
	e.cost = sketch.Sum(e.cost, cost)
	e.longest.Add(at, cost)
}

// compare puts the longer one first, of equal ones the earlier.
func (m moment) compare(o moment) int {
	return cmp.Or(cmp.Compare(o.cost, m.cost), cmp.Compare(m.at, o.at))
}

// join adds other evidence.
func (e *evidence) join(o *evidence) {
	if o.count == 0 {
		return
	}
	cost, count := e.cost, e.count
	for _, m := range o.longest {
		e.add(m.at, m.cost)
	}
	e.first, e.last = min(e.first, o.first), max(e.last, o.last)
	e.cost, e.count = sketch.Sum(cost, o.cost), count+o.count
	e.bytes, e.async, e.runs = sketch.Sum(e.bytes, o.bytes), e.async+o.async, e.runs+o.runs
	e.weight, e.byChance = e.weight+o.weight, e.byChance+o.byChance
}

// weigh notes the weight of the time that was added last.
func (e *evidence) weigh(weight float64) {
	if e.weight += weight; weight > 0 {
		e.byChance++
	}
}

// seen is the evidence as what a thread did.
func (e *evidence) seen() activity.Seen {
	s := activity.Seen{Count: e.count, ByChance: e.byChance, Time: e.cost, Weight: e.weight}
	if len(e.longest) > 0 {
		s.Longest = e.longest[0].cost
	}
	return s
}

// A tally has evidence by key.
type tally[K comparable] map[K]*evidence

// of returns the evidence of a key.
func (t tally[K]) of(key K) *evidence {
	if t[key] == nil {
		t[key] = new(evidence)
	}
	return t[key]
}

// largest returns the keys, the one that costs most first.
func largest[K comparable](t tally[K], name func(K) string) (keys []K) {
	for k := range t {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b K) int {
		return cmp.Or(cmp.Compare(t[b].cost, t[a].cost), cmp.Compare(t[b].count, t[a].count),
			cmp.Compare(t[a].first, t[b].first), cmp.Compare(name(a), name(b)))
	})
	return keys
}

// pool divides what was done unseen among what was seen, as the report of idle time does: see [activity.Divide].
func pool(of tally[doing], unseen doingKind, seen ...doingKind) {
	var rest *evidence
	var keys []doing
	var known []activity.Seen
	for _, d := range largest(of, func(d doing) string { return d.name }) {
		switch {
		case d.kind == unseen:
			rest = of[d]
		case slices.Contains(seen, d.kind):
			keys, known = append(keys, d), append(known, of[d].seen())
		}
	}
	if rest == nil {
		return
	}
	for i, part := range activity.Divide(rest.seen(), known) {
		of[keys[i]].cost += part.Time
		rest.cost -= part.Time
	}
}
