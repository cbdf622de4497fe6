package findings

import (
	"cmp"
	"slices"
)

// An evidence has the times of one habit.
type evidence struct {
	count       uint64
	cost        uint64 // ns
	first, last uint64 // moments of the first and of the last time
	longest     []moment
	bytes       uint64 // copied
	async       uint64 // of count, by functions with Async in their name
	runs        uint64 // of small copies
}

// A moment is a time to jump to.
type moment struct{ at, cost uint64 }

// maxMoments is the number of moments that a finding names.
const maxMoments = 3

func (e *evidence) add(at, cost uint64) {
	if e.count == 0 || at < e.first {
		e.first = at
	}
	e.last = max(e.last, at)
	e.count++
	e.cost = sum(e.cost, cost)
	m := moment{at, cost}
	if len(e.longest) == maxMoments && m.compare(e.longest[maxMoments-1]) >= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(e.longest, m, moment.compare)
	e.longest = slices.Insert(e.longest, i, m)
	e.longest = e.longest[:min(len(e.longest), maxMoments)]
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
	e.cost, e.count = sum(cost, o.cost), count+o.count
	e.bytes, e.async, e.runs = sum(e.bytes, o.bytes), e.async+o.async, e.runs+o.runs
}

// sum adds two numbers of ns. It stops at the largest number.
func sum(a, b uint64) uint64 {
	if s := a + b; s >= a {
		return s
	}
	return ^uint64(0)
}

// moments are the times to jump to, the longest first.
func (e *evidence) moments() (at []uint64) {
	for _, m := range e.longest {
		at = append(at, m.at)
	}
	return at
}

// A tally has evidence by key.
type tally[K comparable] map[K]*evidence

// largest returns the keys, the one that costs most first.
func largest[K comparable](t tally[K], name func(K) string) (keys []K) {
	for k := range t {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b K) int {
		return cmp.Or(cmp.Compare(t[b].cost, t[a].cost), cmp.Compare(t[b].count, t[a].count), cmp.Compare(t[a].first, t[b].first), cmp.Compare(name(a), name(b)))
	})
	return keys
}

// pool divides what was done unseen among what was seen, in proportion to its time, up to twice that time.
func pool(of tally[doing], unseen deed, seen ...deed) {
	pooled, known := new(evidence), uint64(0)
	for d, x := range of {
		switch {
		case d.kind == unseen:
			pooled = x
		case slices.Contains(seen, d.kind):
			known = sum(known, x.cost)
		}
	}
	divided, left := min(pooled.cost, sum(known, known)), pooled.cost
	for d, x := range of {
		if known > 0 && slices.Contains(seen, d.kind) {
			part := min(uint64(float64(divided)*float64(x.cost)/float64(known)), left)
			x.cost += part
			left -= part
		}
	}
	pooled.cost = left
}
