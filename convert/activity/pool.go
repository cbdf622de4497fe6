package activity

import "math"

// A Seen is what a thread did: code that ran, or what blocked it.
type Seen struct {
	Count    uint64 // times that it was seen
	ByChance uint64 // of these, times so short that they could have been missed
	Time     uint64
	Longest  uint64  // of these times
	Weight   float64 // see Spent
}

// add adds a time at which something was seen, or goes on with the latest one, whose length so far is now.
func (s *Seen) add(more bool, now, ns uint64, weight float64) {
	if !more {
		s.Count++
	}
	s.Time += ns
	s.Longest = max(s.Longest, now)
	if s.Weight += weight; weight > 0 {
		s.ByChance++
	}
}

// Add adds a time at which something was seen.
func (s *Seen) Add(ns uint64, weight float64) { s.add(false, ns, ns, weight) }

// join adds other times.
func (s *Seen) join(o *Seen) {
	s.Count += o.Count
	s.ByChance += o.ByChance
	s.Time += o.Time
	s.Longest = max(s.Longest, o.Longest)
	s.Weight += o.Weight
}

// leastSeen is how often something must have been seen by chance to get a part of what was not: how much of it there is is then known to about a half.
const leastSeen = 4

// Divide divides times of which it is not known what a thread did among what was seen: short times are seen by chance, the oftener the longer they are.
// It returns the part of each, Count and Time. What was seen by chance less than four times gets nothing, and what its part would be stays undivided. So does all beyond twice
// the time for which all that was seen stands, and what would make times longer than the longest that was seen.
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
