package collective

import (
	"cmp"
	"hash/fnv"
	"maps"
	"math"
	"slices"
)

// A Key identifies a sequence of a process in a log.
type Key struct {
	PID          uint32
	Communicator uint64 // hash of the communicator, 0 where NCCL does not tell it
	Place               // of the stream; zero with a communicator
}

// A Place is a stream of a process.
type Place struct{ Context, Stream uint32 }

// A Sequence has the collectives that a rank runs in one order, by start: those of a communicator, whatever streams
// they are on; where NCCL does not tell the communicator, those of a stream. Of many it keeps a sample, the same
// numbers on all ranks: at each level one part of two that follow each other at the level below, chosen by their
// numbers alone, so that a program whose steps have an even number of collectives does not show the same ones again and
// again.
type Sequence struct {
	Key
	First   Place // a stream that has some of them
	Process any   // sequences of one process are in different communicators
	Host    int   // sequences of one host have one clock
	// it may lack the first collectives of its communicator: its recording began in the middle of the program
	Midway bool
	Sums   map[uint32]Sum // by label

	count  uint64 // collectives so far
	skip   uint64 // of them: the first ones, which other members of the communicator do not have; none of a sample
	hash   uint64 // of their kernels' names
	level  uint8  // part i is one of the 1<<level collectives from i<<level on
	parts  []Part
	most   int // parts that are kept
	early  []Part
	latest uint64                      // start of the last one that was counted
	ended  uint64                      // and its end
	mixed  bool                        // they came in no order
	each   func(number uint64, p Part) // gets the parts, which are then not kept; nil for none
}

// A Sum counts the parts with one label.
type Sum struct{ Count, Time uint64 }

// A Part is what one rank ran of a collective.
type Part struct {
	Start, End uint64
	Before     uint64 // end of the part before it; Start for the first one
	Label      uint32 // the caller's
	Waits      bool   // see [Match]
	// hash of the kernel's name, and in Sequence.parts of those of all kernels up to this one, a polynomial of base
	name uint64
}

func (p Part) length() uint64 { return p.End - p.Start }

// How many collectives of a sequence may come out of order.
const (
	reordered = 256     // of a stream: CUPTI's buffers of different threads do
	alternate = 1 << 12 // of several, at most: they come list by list
)

// newSequence returns the sequence that keeps a number of parts, an even one.
func newSequence(k Key, process any, host, most int) *Sequence {
	return &Sequence{Key: k, Process: process, Host: host, Sums: make(map[uint32]Sum), most: most}
}

// A Counter gives each part of a sequence to a function, with its number.
type Counter struct {
	sequence Sequence
	places   map[Place]bool
}

// NewCounter returns a counter.
func NewCounter(f func(number uint64, p Part)) *Counter {
	return &Counter{Sequence{each: f, most: alternate}, make(map[Place]bool)}
}

// Add adds a kernel, which may lie before those that were added last.
func (c *Counter) Add(n Name, at Place, start, end uint64) {
	c.places[at] = true
	c.sequence.insertPart(Part{Start: start, End: end, Waits: n.Kind == Waits, name: n.hash}, len(c.places) > 1)
}

// Finish gives the parts that are left.
func (c *Counter) Finish() { c.sequence.finish() }

// insertPart adds a part, which may lie before those that were added last; of several streams, long before.
func (s *Sequence) insertPart(p Part, several bool) {
	if s.Sums != nil {
		sum := s.Sums[p.Label]
		s.Sums[p.Label] = Sum{sum.Count + 1, sum.Time + min(p.length(), math.MaxUint64-sum.Time)}
	}
	most := reordered
	if several {
		most = max(reordered, min(s.most, alternate))
	}
	if s.early = append(s.early, p); len(s.early) >= 2*most {
		s.flush(most)
	}
}

// clone returns a copy.
func (s *Sequence) clone() *Sequence {
	c := *s
	c.Sums, c.parts, c.early = maps.Clone(s.Sums), slices.Clone(s.parts), slices.Clone(s.early)
	return &c
}

// flush counts the first parts.
func (s *Sequence) flush(n int) {
	slices.SortStableFunc(s.early, func(a, b Part) int { return cmp.Compare(a.Start, b.Start) })
	for _, p := range s.early[:n] {
		s.countPart(p)
	}
	s.early = append(s.early[:0], s.early[n:]...)
}

// finish counts the parts that are left. It reports whether all came in order; a sequence of others is of no use.
func (s *Sequence) finish() (ordered bool) {
	s.flush(len(s.early))
	s.early = nil
	return s.Ordered()
}

// Ordered reports whether the parts so far came in order.
func (s *Sequence) Ordered() bool { return !s.mixed }

// Count is the number of collectives, kept or not.
func (s *Sequence) Count() uint64 { return s.count }

// countPart counts the next part.
func (s *Sequence) countPart(p Part) {
	s.mixed = s.mixed || p.Start < s.latest
	if p.Before = s.ended; s.count == 0 {
		p.Before = p.Start
	}
	s.latest, s.ended = p.Start, p.End
	if s.each != nil {
		s.each(s.count, p)
		s.count++
		return
	}
	s.hash = s.hash*base + p.name
	p.name = s.hash
	if s.keeps() {
		if len(s.parts) == s.most {
			s.thin()
		}
		if s.keeps() {
			s.parts = append(s.parts, p)
		}
	}
	s.count++
}

// keeps reports whether the next collective is part of the sample.
func (s *Sequence) keeps() bool { return number(s.count>>s.level, s.level, 0) == s.count }

// thin keeps one part of two.
func (s *Sequence) thin() {
	s.level++
	for i := range s.parts[:len(s.parts)/2] {
		s.parts[i] = s.parts[number(uint64(i), s.level, s.level-1)]
	}
	s.parts = s.parts[:len(s.parts)/2]
}

// number is the index at one level of a part at a higher one.
func number(i uint64, level, at uint8) uint64 {
	for ; level > at; level-- {
		i = 2*i + choice(i, level)
	}
	return i
}

// choice is 0 or 1: which of two parts is part i of a level.
func choice(i uint64, level uint8) uint64 {
	x := (i<<8 | uint64(level)) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x >> 63
}

// part returns part i of a level, which is the sequence's or a higher one. Those that are skipped do not count.
func (s *Sequence) part(i uint64, level uint8) (Part, bool) {
	if i = number(i, level, s.level) + s.skip; i < uint64(len(s.parts)) {
		return s.parts[i], true
	}
	return Part{}, false
}

// shared is the number of collectives that are not skipped.
func (s *Sequence) shared() uint64 { return s.count - s.skip }

// Skip is the number of the first collectives that other members of the communicator do not have.
func (s *Sequence) Skip() uint64 { return s.skip }

// base is that of the polynomial whose value stands for the names of kernels.
const base = 1099511628211

// names stands for the names of the kernels up to part i of a level, without those that are skipped.
func (s *Sequence) names(i uint64, level uint8) (hash uint64, ok bool) {
	p, ok := s.part(i, level)
	if !ok || s.skip == 0 {
		return p.name, ok
	}
	before := s.parts[s.skip-1].name
	for x, n := uint64(base), number(i, level, s.level)+1; n > 0; x, n = x*x, n/2 {
		if n%2 == 1 {
			before *= x
		}
	}
	return p.name - before, true
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
