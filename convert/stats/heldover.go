package stats

import (
	"cmp"
	"slices"
)

// Bounds of a HeldOver. One that has too many moments leaves out every other one.
const (
	mostMoments = 192
	mostHeld    = 24
	firstEvery  = 1e6 // ns between moments, at first
)

// A HeldOver is who held memory at moments of a recording: at equal distances, at the end, and at the peak.
type HeldOver struct {
	Title   string // whose memory: "PyTorch's cache of process 7, GPU 0"
	Moments []HeldMoment
}

// A HeldMoment is who held memory from a moment on.
type HeldMoment struct {
	At   uint64
	All  uint64 // bytes
	Peak bool
	Held []HeldLine // the largest first
}

// A HeldLine is what a Python line, or a library, holds.
type HeldLine struct {
	Line  string
	Bytes uint64
}

// UnknownPlace stands in a HeldLine for what no line and no library is known of.
const UnknownPlace = "(unknown)"

// FollowMemory has the sink keep who held memory over time.
func (s *Sink) FollowMemory() { s.memory.follows, s.torch.follows = true, true }

// HeldOver returns who held memory over time: of PyTorch's cache if blocks of it were recorded, else device memory of
// calls, where its peak is the highest; nil if there is none.
func (s *Sink) HeldOver() *HeldOver {
	if h := s.torch.heldOver(); h != nil {
		return h
	}
	return s.memory.heldOver()
}

// An over keeps the moments of a HeldOver.
type over struct {
	every, next uint64
	list        []HeldMoment
}

// until keeps what was held, as held returns it, at the moments before a time.
func (o *over) until(at uint64, held func() []HeldLine) {
	switch {
	case o.every == 0:
		o.every, o.next = firstEvery, at+1
	case at >= o.next:
		o.list = append(o.list, momentOf(o.next-1, held()))
		if len(o.list) == mostMoments {
			for i := range mostMoments / 2 {
				o.list[i] = o.list[2*i+1]
			}
			o.list, o.every = o.list[:mostMoments/2], 2*o.every
		}
		o.next = at + o.every
	}
}

// momentOf is a moment without a line that holds nothing, and with no more lines than are kept.
func momentOf(at uint64, held []HeldLine) HeldMoment {
	m := HeldMoment{At: at}
	held = slices.DeleteFunc(held, func(l HeldLine) bool { return l.Bytes == 0 })
	for _, l := range held {
		m.All += l.Bytes
	}
	slices.SortFunc(held, func(a, b HeldLine) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Line, b.Line))
	})
	m.Held = slices.Clone(held[:min(len(held), mostHeld)])
	return m
}

// whole is the list with the peak and, if it is later than all others, the end.
func (o *over) whole(peak HeldMoment, end uint64, held []HeldLine) []HeldMoment {
	peak.Peak = true
	list := append(slices.Clone(o.list), peak, momentOf(end, held))
	slices.SortStableFunc(list, func(a, b HeldMoment) int { return cmp.Compare(a.At, b.At) })
	return list
}
