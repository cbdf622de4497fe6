package collective

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// A Key identifies a stream of a process in a log.
type Key struct{ PID, Context, Stream uint32 }

// A Stream has the collectives of one stream, in the order of time.
type Stream struct {
	Key
	Process any // streams of one process are in different communicators
	Host    int // streams of one host have one clock

	count  uint64 // collectives so far
	hash   uint64 // of their kernels' names
	step   uint64 // part i is that of collective i*step
	parts  []Part
	most   int // parts that are kept
	early  []Part
	latest uint64                      // start of the last one that was counted
	mixed  bool                        // they came in no order
	each   func(number uint64, p Part) // gets the parts, which are then not kept; nil for none
}

// A Part is what one rank ran of a collective.
type Part struct {
	Start, End uint64
	Waits      bool   // see [Match]
	name       uint64 // hash of the kernel's name, and in Stream.parts of those of all kernels up to this one
}

// reordered is the number of collectives of a stream that may come out of order: CUPTI's buffers of different threads do.
const reordered = 256

// newStream returns the stream that keeps a number of parts, an even one.
func newStream(k Key, process any, host, most int) *Stream {
	return &Stream{Key: k, Process: process, Host: host, step: 1, most: most}
}

// add adds a part that may lie before the parts that were added last.
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

// finish counts the parts that are left.
func (s *Stream) finish() {
	for _, p := range s.early {
		s.take(p)
	}
	s.early = nil
}

// take counts the next part.
func (s *Stream) take(p Part) {
	s.mixed = s.mixed || p.Start < s.latest
	s.latest = p.Start
	if s.each != nil {
		s.each(s.count, p)
		s.count++
		return
	}
	s.hash = (s.hash ^ p.name) * 1099511628211
	p.name = s.hash
	if s.count%s.step == 0 {
		if len(s.parts) == s.most {
			s.thin()
		}
		if s.count%s.step == 0 {
			s.parts = append(s.parts, p)
		}
	}
	s.count++
}

// thin keeps every second part.
func (s *Stream) thin() {
	for i := range s.parts[:len(s.parts)/2] {
		s.parts[i] = s.parts[2*i]
	}
	s.parts = s.parts[:len(s.parts)/2]
	s.step *= 2
}

// part returns the part of a collective whose number is a multiple of the step.
func (s *Stream) part(number uint64) (Part, bool) {
	if i := number / s.step; i < uint64(len(s.parts)) {
		return s.parts[i], true
	}
	return Part{}, false
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
