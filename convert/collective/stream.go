package collective

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// A Key identifies a stream of a process in a log.
type Key struct{ PID, Context, Stream uint32 }

// A Stream has the collectives of one stream, in the order of time. Of many it keeps a sample, the same numbers on all ranks:
// at each level one part of two that follow each other at the level below, chosen by their numbers alone, so that a
// program whose steps have an even number of collectives does not show the same ones again and again.
type Stream struct {
	Key
	Process any // streams of one process are in different communicators
	Host    int // streams of one host have one clock
	said    said

	count  uint64 // collectives so far
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

// A Part is what one rank ran of a collective.
type Part struct {
	Start, End uint64
	Before     uint64 // end of the part before it on its stream; Start for the first one
	Label      uint32 // the caller's
	Waits      bool   // see [Match]
	name       uint64 // hash of the kernel's name, and in Stream.parts of those of all kernels up to this one
}

func (p Part) length() uint64 { return p.End - p.Start }

// reordered is the number of collectives of a stream that may come out of order: CUPTI's buffers of different threads do.
const reordered = 256

// NewStream returns the stream that keeps a number of parts, an even one.
func NewStream(k Key, process any, host, most int) *Stream {
	return &Stream{Key: k, Process: process, Host: host, most: most}
}

// Counting returns a stream that keeps no parts and gives each to f, with its number.
func Counting(k Key, f func(number uint64, p Part)) *Stream { return &Stream{Key: k, each: f} }

// Add adds a kernel that may lie before those that were added last. The label is the caller's.
func (s *Stream) Add(n Name, start, end uint64, label uint32) {
	s.add(Part{Start: start, End: end, Waits: n.Kind == Waits, Label: label, name: n.hash})
}

func (s *Stream) add(p Part) {
	i, _ := slices.BinarySearchFunc(s.early, p.Start, func(e Part, at uint64) int { return cmp.Compare(e.Start, at) })
	s.early = slices.Insert(s.early, i, p)
	if len(s.early) < 2*reordered {
		return
	}
	for _, p := range s.early[:reordered] {
		s.take(p)
	}
	s.early = append(s.early[:0], s.early[reordered:]...)
}

// Finish counts the parts that are left. It says whether all came in order; a stream of others is of no use.
func (s *Stream) Finish() bool {
	for _, p := range s.early {
		s.take(p)
	}
	s.early = nil
	return !s.mixed
}

// Count is the number of collectives, kept or not.
func (s *Stream) Count() uint64 { return s.count }

// take counts the next part.
func (s *Stream) take(p Part) {
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
	s.hash = (s.hash ^ p.name) * 1099511628211
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

// keeps says whether the next collective is part of the sample.
func (s *Stream) keeps() bool { return number(s.count>>s.level, s.level, 0) == s.count }

// thin keeps one part of two.
func (s *Stream) thin() {
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

// part returns part i of a level, which is the stream's or a higher one.
func (s *Stream) part(i uint64, level uint8) (Part, bool) {
	if i = number(i, level, s.level); i < uint64(len(s.parts)) {
		return s.parts[i], true
	}
	return Part{}, false
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
