package collective

import (
	"cmp"
	"math"
	"slices"
)

// A Communicator is the sequences that the ranks of a communicator ran.
type Communicator struct{ Members []*Sequence }

// Match finds the communicators of sequences. Each has at least two members, in the order of the sequences.
func Match(sequences []*Sequence) (found []*Communicator) {
	place := make(map[*Sequence]int)
	for i, s := range sequences {
		place[s] = i
	}
	// The members on one host tell how long a collective takes before another host's are looked at.
	for _, s := range slices.SortedStableFunc(slices.Values(sequences), func(a, b *Sequence) int {
		return cmp.Compare(a.Host, b.Host)
	}) {
		i := slices.IndexFunc(found, func(c *Communicator) bool { return c.takes(s) })
		if i < 0 {
			found = append(found, &Communicator{})
			i = len(found) - 1
		}
		found[i].Members = append(found[i].Members, s)
	}
	for _, c := range found {
		slices.SortFunc(c.Members, func(a, b *Sequence) int { return cmp.Compare(place[a], place[b]) })
	}
	return slices.DeleteFunc(found, func(c *Communicator) bool { return len(c.Members) < 2 })
}

// takes reports whether a sequence belongs to the communicator, perhaps without its first collectives, or without those
// of all others.
func (c *Communicator) takes(s *Sequence) bool {
	for _, m := range c.Members {
		if m.Process == s.Process || m.Communicator != 0 && s.Communicator != 0 && m.Communicator != s.Communicator {
			return false
		}
	}
	later := int64(0)
	if on := c.on(s.Host); len(on) > 0 {
		later = lead(on[0], s)
	}
	if later > 0 && slices.ContainsFunc(c.Members, func(m *Sequence) bool {
		return m.level != 0 || uint64(later) >= m.shared()
	}) {
		return false // it has nothing in common with a member, or nothing that is known
	}
	c.move(s, later)
	if c.fits(s) {
		return true
	}
	c.move(s, -later)
	return false
}

// move has a sequence begin some collectives later than before against the members; of those that begin later nothing
// is skipped.
func (c *Communicator) move(s *Sequence, later int64) {
	least := int64(s.skip) - later
	for _, m := range c.Members {
		least = min(least, int64(m.skip))
	}
	s.skip = uint64(int64(s.skip) - later - least)
	for _, m := range c.Members {
		m.skip = uint64(int64(m.skip) - least)
	}
}

// lead is the number of collectives by which a sequence begins later than another one on one host: the recording of one
// of them began in the middle of the program. 0 where that is not known, or fits.
func lead(a, b *Sequence) int64 {
	x, ok := a.part(0, a.level)
	y, also := b.part(0, b.level)
	if !ok || !also || a.level|b.level != 0 || !a.Midway && !b.Midway || coincide(a, b, 0) {
		return 0
	}
	// All ranks leave a collective at one time. So the first one of the sequence that begins later ends in the others
	// after its own middle, and those before it do not.
	sign, early, first := int64(1), a, y
	if x.End > y.End {
		sign, early, first = -1, b, x
	}
	n, _ := slices.BinarySearchFunc(early.parts[early.skip:], first.Start+first.length()/2, func(p Part, t uint64) int {
		return cmp.Compare(p.End, t)
	})
	for _, by := range []int64{int64(n), int64(n) - 1, int64(n) + 1} {
		if by > 0 && coincide(a, b, sign*by) {
			return sign * by
		}
	}
	return 0
}

// coincide reports whether all parts of two sequences on one host, no samples, may be of one collective each, if the
// second one begins some collectives later.
func coincide(a, b *Sequence, later int64) bool {
	x, y := *a, *b
	x.skip, y.skip = a.skip+uint64(max(later, 0)), b.skip+uint64(max(-later, 0))
	if x.skip >= x.count || y.skip >= y.count || !aligned(&x, &y) {
		return false
	}
	p, q := a.parts[x.skip:], b.parts[y.skip:]
	for i := range min(len(p), len(q)) {
		if p[i].Waits && q[i].Waits && isApart(p[i], q[i]) {
			return false
		}
	}
	return true
}

// isApart reports whether one part ends before the other one has started, on one clock.
func isApart(a, b Part) bool { return int64(a.End-b.Start) < -unsure || int64(b.End-a.Start) < -unsure }

// fits reports whether a sequence, as far as it is not skipped, matches the first member on each host; one whose
// recording began in the middle all that are compared.
func (c *Communicator) fits(s *Sequence) bool {
	seen := make(map[int]int)
	for _, m := range c.Members {
		if same, known := agree(m, s); known {
			if !same {
				return false
			}
			continue
		}
		if n := seen[m.Host]; n > 0 && !m.Midway && !s.Midway || n == mostShortest {
			continue
		}
		seen[m.Host]++
		if !together(m, s, c.on(m.Host)) {
			return false
		}
	}
	return true
}

// mostShortest bounds the members of a host that are compared, and whose parts are looked at for the shortest one.
const mostShortest = 16

// on are members on a host.
func (c *Communicator) on(host int) (list []*Sequence) {
	for _, m := range c.Members {
		if m.Host == host && len(list) < mostShortest {
			list = append(list, m)
		}
	}
	return list
}

// Least is the least number of collectives that two sequences must have in common.
const Least = 16

const (
	mostCommon  = 512 // that are compared
	clearly     = 3   // ends agree better than starts by this factor
	within      = 3   // and to the shortest part of the collective over this
	leastWithin = 5e3 // or, of short collectives, to this many ns

	// unsure is the error of a GPU's times, in ns: a shorter wait is none.
	unsure = 2000
)

// A pairing is what two sequences have in common: of some collectives, the distances between their parts.
type pairing struct {
	at            []float64 // s since the first
	starts, ends  []float64 // ns by which the second one is later, but for that of the first
	first, second []Part
	shortest      []float64 // ns of the shortest known part of each collective
}

// together reports whether two sequences belong to one communicator. beside are members of a's communicator.
func together(a, b *Sequence, beside []*Sequence) bool {
	p, ok := pair(a, b, beside)
	if !ok {
		return false
	}
	var offset, rate float64
	if a.Host == b.Host {
		if !p.possible() {
			return false
		}
		offset = float64(int64(p.first[0].End - p.second[0].End)) // the clock is known
	} else {
		offset, rate = theilSen(p.at, p.ends)
	}
	starts, ends, least := p.spread(p.starts, offset, rate), p.spread(p.ends, offset, rate),
		max(median(p.shortest)/within, leastWithin)
	at := []int{len(ends) / 2}
	if a.Midway || b.Midway {
		at = append(at, len(ends)*9/10) // of many collectives in a row all ranks enter each but the first at one time
	}
	return slices.ContainsFunc(at, func(i int) bool { return starts[i] > clearly*ends[i] && ends[i] <= least })
}

// pair finds the collectives that two sequences have in common.
func pair(a, b *Sequence, beside []*Sequence) (p pairing, ok bool) {
	level := max(a.level, b.level)
	n := min(a.shared(), b.shared()) >> level
	if n < Least || !aligned(a, b) {
		return p, false
	}
	for i := uint64(0); i < n; i += n/mostCommon + 1 {
		x, _ := a.part(i, level)
		y, _ := b.part(i, level)
		if x.Waits {
			p.first, p.second = append(p.first, x), append(p.second, y)
			p.shortest = append(p.shortest, shortest(i, level, min(x.length(), y.length()), beside))
		}
	}
	if len(p.first) < Least {
		return p, false
	}
	x0, y0 := p.first[0], p.second[0]
	for i, x := range p.first {
		y := p.second[i]
		base := int64(y0.End - x0.End)
		p.at = append(p.at, float64(int64(x.End-x0.End))/1e9)
		p.starts = append(p.starts, float64(int64(y.Start-x.Start)-base))
		p.ends = append(p.ends, float64(int64(y.End-x.End)-base))
	}
	return p, true
}

// shortest is the length of the shortest part of a collective, of one known and those of some sequences.
func shortest(i uint64, level uint8, least uint64, of []*Sequence) float64 {
	for _, s := range of {
		if s.level <= level {
			if p, ok := s.part(i, level); ok {
				least = min(least, p.length())
			}
		}
	}
	return float64(least)
}

// possible reports whether no part of one ends before that of the other has started, on one clock.
func (p *pairing) possible() bool {
	for i, x := range p.first {
		if isApart(x, p.second[i]) {
			return false
		}
	}
	return true
}

// spread returns the distances of values from a line, sorted.
func (p *pairing) spread(values []float64, offset, rate float64) (list []float64) {
	for i, v := range values {
		list = append(list, math.Abs(v-offset-rate*p.at[i]))
	}
	slices.Sort(list)
	return list
}

// Step says of how many collectives that follow each other one is kept by all members.
func (c *Communicator) Step() uint64 { return 1 << c.level() }

func (c *Communicator) level() (level uint8) {
	for _, m := range c.Members {
		level = max(level, m.level)
	}
	return level
}

// Each calls f for each collective of the communicator that is kept and that ends nowhere before all ranks have
// entered it. parts are those of the members that have one, in their order.
func (c *Communicator) Each(f func(members []*Sequence, parts []Part)) {
	level, count := c.level(), uint64(0)
	for _, m := range c.Members {
		count = max(count, m.shared())
	}
	members, parts := make([]*Sequence, 0, len(c.Members)), make([]Part, 0, len(c.Members))
	for i := uint64(0); i<<level < count; i++ {
		members, parts = members[:0], parts[:0]
		for _, m := range c.Members {
			if p, ok := m.part(i, level); ok && p.Waits {
				members, parts = append(members, m), append(parts, p)
			}
		}
		if len(parts) > 1 {
			f(members, parts)
		}
	}
}
