package activity

import (
	"cmp"
	"math"
	"slices"
)

// A Seen is what a thread did: code that ran, or what blocked it.
type Seen struct {
	Count    uint64 // times that it was seen
	ByChance uint64 // of these, times so short that they could have been missed
	Time     uint64
	Longest  uint64  // of these times
	Weight   float64 // see Spent
	Looks    uint64  // see Spent
	Chance   uint64  // of Time, what is known by Looks
	Turns    uint64  // times that Looks began to show it after they had shown something else
}

// add adds a time at which something was seen, or goes on with the latest one, whose length so far is now.
func (s *Seen) add(more bool, now uint64, x *Spent) {
	if !more {
		s.Count++
	}
	s.Time += x.Time
	s.Longest = max(s.Longest, now)
	if s.Weight += x.Weight; x.Weight > 0 {
		s.ByChance++
	}
	if s.Looks += x.Looks; x.Looks > 0 {
		s.Chance += x.Time
	}
}

// A lastSeen is the rows of code and of blocks that looks showed last.
type lastSeen struct{ code, block *Row }

// shows notes that looks showed a row. It returns 1 if they had shown another one of its kind before.
func (l *lastSeen) shows(r *Row, s *Spent) uint64 {
	if s.Looks == 0 {
		return 0
	}
	last := &l.code
	if s.Owner.OwnerKind == Waited {
		last = &l.block
	}
	if *last == r {
		return 0
	}
	*last = r
	return 1
}

// Add adds a time at which something was seen.
func (s *Seen) Add(ns uint64, weight float64) { s.add(false, ns, &Spent{Time: ns, Weight: weight}) }

// join adds other times.
func (s *Seen) join(o *Seen) {
	s.Count += o.Count
	s.ByChance += o.ByChance
	s.Time += o.Time
	s.Longest = max(s.Longest, o.Longest)
	s.Weight += o.Weight
	s.Looks += o.Looks
	s.Chance += o.Chance
	s.Turns += o.Turns
}

// leastSeen is how often something must have been seen by chance to get a part of what was not: how much of it there is
// is then known to about a half.
const leastSeen = 4

// Divide divides times of which it is not known what a thread did among what was seen: short times are seen by chance,
// the oftener the longer they are. It returns the part of each, Count and Time. What was seen by chance less than four
// times gets nothing, and what its part would be stays undivided. So does all beyond twice the time for which all that
// was seen stands, and what would make times longer than the longest that was seen.
func Divide(unknown Seen, seen []Seen) []Seen {
	parts, weight, all := make([]Seen, len(seen)), 0.0, 0.0
	for _, s := range seen {
		weight += s.Weight
		all += float64(s.Time) + s.Weight
	}
	if weight <= 0 || unknown.Time == 0 {
		return parts
	}
	divided, before := min(float64(unknown.Time), 2*all), 0.0
	for i, s := range seen {
		share := func(of float64) uint64 {
			return uint64(math.Round(of*(before+s.Weight)/weight)) - uint64(math.Round(of*before/weight))
		}
		count, ns := share(float64(unknown.Count)), share(divided)
		if before += s.Weight; s.ByChance < leastSeen || s.Longest == 0 {
			continue
		}
		ns = min(ns, count*s.Longest)
		likely := uint64(float64(unknown.Count) * (float64(ns) / float64(unknown.Time)))
		parts[i] = Seen{Count: min(max(likely, (ns+s.Longest-1)/s.Longest), count), Time: ns}
	}
	return parts
}

// sure is the number of standard deviations within which a normal value lies in 19 of 20 cases.
const sure = 1.96

// among returns between which shares of all looks those lie, in 19 of 20 cases, that show this (Wilson's interval). In
// a loop that takes about as long as the time between two looks, many in a row show the same: they tell less than as
// many that chance made independent. How much less, the number of turns says, with a margin, since a loop that drifts
// slowly turns to and fro.
func (s *Seen) among(all uint64) (low, high float64) {
	f, of := float64(s.Looks)/float64(all), float64(all)
	if alike := float64(s.Looks) * (1 - f) / float64(max(s.Turns, 1)); alike > 1 {
		of /= (2*alike - 1) * alike
	}
	middle, wide := f+sure*sure/(2*of), sure*math.Sqrt(f*(1-f)/of+sure*sure/(4*of*of))
	return max(0, (middle-wide)/(1+sure*sure/of)), min(1, (middle+wide)/(1+sure*sure/of))
}

// between returns between which times each of the things that were seen lies in 19 of 20 cases, when unknown time was
// divided into these parts: what is known by chance might have been seen oftener or more rarely. A block that was seen
// lasted as long as it did; of what ran, a sample shows a moment.
func between(unknown Seen, seen, parts []Seen, blocks bool) (low, high []uint64) {
	looks, weight, all := uint64(0), 0.0, unknown.Time
	for _, s := range seen {
		looks, weight, all = looks+s.Looks, weight+s.Weight, all+s.Chance
	}
	for i, s := range seen {
		time := s.Time + parts[i].Time
		if s.Looks == 0 {
			low, high = append(low, time), append(high, time)
			continue
		}
		least, most := s.among(looks)
		share := float64(looks) / float64(s.Looks)
		more := float64(parts[i].Time)
		if weight > 0 { // what it might have got, had it been seen oftener
			more = max(more, min(float64(unknown.Time)*s.Weight/weight, 2*s.Weight))
		}
		always, certain, limit := s.Time-s.Chance, s.Time-s.Chance, all
		if blocks {
			certain, limit = s.Time, s.Chance+unknown.Time
		}
		low = append(low, min(max(always+uint64(float64(s.Chance+parts[i].Time)*least*share), certain), time))
		high = append(high, max(always+min(uint64((float64(s.Chance)+more)*most*share), limit), time))
	}
	return low, high
}

// An Estimate is a time, in ns, and those between which it lies in 19 of 20 cases. They are equal where the time is
// known.
type Estimate struct{ Time, Low, High uint64 }

// Add adds another time.
func (e *Estimate) Add(o Estimate) { e.Time, e.Low, e.High = e.Time+o.Time, e.Low+o.Low, e.High+o.High }

// SortEstimates sorts a list: the longest times first, but by name those of which chance may decide whether they are
// longer than the first of them.
func SortEstimates[T any](list []T, of func(T) Estimate, name func(a, b T) int) {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Or(cmp.Compare(of(b).Time, of(a).Time), name(a, b)) })
	for len(list) > 0 {
		first, n := of(list[0]), 0
		for i, x := range list {
			if e := of(x); i == 0 || e.High >= first.Low && (e.Low < e.High || first.Low < first.High) {
				copy(list[n+1:], list[n:i])
				list[n] = x
				n++
			}
		}
		slices.SortStableFunc(list[:n], name)
		list = list[n:]
	}
}
