package collective

import (
	"cmp"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A HostPart is when a host entered and left a collective: the latest start and the earliest end on its ranks.
type HostPart struct {
	Host          int
	Entered, Left uint64
}

// HostParts are the parts of the hosts that took part in a collective.
type HostParts []HostPart

// A ClockFit is how the clock of a host leads to that of the reference.
type ClockFit struct {
	Clock       *timeline.Clock
	Error       uint64  // ns by which it is wrong at most during the host's time
	Among       uint64  // likewise, from the first collective to the last
	Shift       int64   // ns that are added at the beginning
	Drift       float64 // mean of the lines, millionths by which the reference is faster
	Collectives int     // that say so
	Lines       int
}

// leastForClock is the least number of collectives from which a clock is fitted.
const leastForClock = 16

// mostPieces bounds the lines of a clock.
const mostPieces = 64

// gpuTime is how far the times that CUPTI gives to GPU work are wrong, in ns, beyond what a log says of it.
const gpuTime = 1000

// AlignClocks fits the clocks of hosts to that of one of them, by collectives: these end on no host before the last
// host has entered them. spans are the times of the hosts' logs. The result has nil for a host whose clock the
// collectives do not tell.
//
// Let C be the conversion of a host's times to those of the reference, a line: offset and drift. Each collective of the
// two says
//
//	C(left) >= entered by the reference    C(entered) <= left by the reference
//
// All of them together leave a convex set of lines (clockline.go). Where each host is now and then the last one, the
// set is as narrow as the shortest collective. The estimate is the line along which the ends agree, if that line is in
// the set, or the set's middle. Its error is the distance to the farthest line of the set. A clock that no line fits,
// because its drift changes, gets several lines, each for a part of the time. At last the lines are moved until no
// collective of any two hosts contradicts them (clocksettle.go).
func AlignClocks(spans []timeline.Extent, reference int, collectives []HostParts) []*ClockFit {
	s := &solver{spans: spans, reference: reference, hosts: make([]*host, len(spans)), collectives: collectives}
	s.hosts[reference] = &host{}
	for s.fitNext() {
	}
	s.settle()
	fits := make([]*ClockFit, len(spans))
	for i, h := range s.hosts {
		if h != nil && i != reference {
			fits[i] = h.result(spans[i])
		}
	}
	return fits
}

// A solver has the hosts that are fitted so far.
type solver struct {
	spans       []timeline.Extent
	reference   int
	origin      uint64 // of the reference's time
	hosts       []*host
	collectives []HostParts
}

// A host is the clock of a host: its pieces are sorted by time. The reference has none.
type host struct {
	origin, base uint64 // a time t of the host is t+base of the reference, but for the pieces
	pieces       []fit
	more         float64 // error of the hosts through which it is fitted
	n            int
}

// seconds is a time of the host on the x axis of its pieces.
func (h *host) seconds(t uint64) float64 { return float64(int64(t-h.origin)) / 1e9 }

// piece is the piece for a time.
func (h *host) piece(x float64) *fit {
	i := len(h.pieces) - 1
	for i > 0 && x < h.pieces[i].from {
		i--
	}
	return &h.pieces[i]
}

// time is a host's time on the reference's clock, in ns since the origin.
func (s *solver) time(h *host, t uint64) float64 {
	if h.pieces == nil {
		return float64(int64(t - s.origin))
	}
	x := h.seconds(t)
	return float64(int64(t+h.base-s.origin)) + h.piece(x).at(x)
}

// fitNext fits the host with the most collectives with hosts that are fitted.
func (s *solver) fitNext() bool {
	counts := make([]int, len(s.hosts))
	for _, c := range s.collectives {
		if s.known(c) < 0 {
			continue
		}
		for _, p := range c {
			if s.hosts[p.Host] == nil {
				counts[p.Host]++
			}
		}
	}
	for {
		i := slices.Index(counts, slices.Max(counts))
		if counts[i] < leastForClock {
			return false
		}
		if s.hosts[i] = s.fit(i); s.hosts[i] != nil {
			return true
		}
		counts[i] = 0
	}
}

// known is the first part of a collective on a fitted host, the reference's if it has one; -1 without one.
func (s *solver) known(c HostParts) int {
	found := -1
	for i, p := range c {
		if p.Host == s.reference {
			return i
		}
		if found < 0 && s.hosts[p.Host] != nil {
			found = i
		}
	}
	return found
}

// fit fits the clock of a host; nil where no line fits.
func (s *solver) fit(number int) *host {
	var h *host
	p := new(pass)
	for _, c := range s.collectives {
		k, i := s.known(c), slices.IndexFunc(c, func(p HostPart) bool { return p.Host == number })
		if k < 0 || i < 0 {
			continue
		}
		other, own := s.hosts[c[k].Host], &c[i]
		if h == nil {
			if s.origin == 0 {
				s.origin = c[k].Left
			}
			h = &host{origin: own.Left, base: s.origin + uint64(int64(s.time(other, c[k].Left))) - own.Left}
		}
		entered, left, off := s.time(other, c[k].Entered), s.time(other, c[k].Left), other.error()
		h.more = max(h.more, off)
		p.demand(s, h, own, entered-off, left+off, left)
	}
	h.n = len(p.ends)
	span := s.spans[number]
	h.pieces = p.pieces(h.seconds(span.Start), h.seconds(span.End))
	if h.pieces == nil {
		return nil
	}
	return h
}

// demand adds what a collective demands of a host, whose counterpart entered and left at times of the reference.
func (p *pass) demand(s *solver, h *host, own *HostPart, entered, left, end float64) {
	at := func(t uint64) (x, zero float64) { return h.seconds(t), float64(int64(t + h.base - s.origin)) }
	x, zero := at(own.Left)
	p.above = append(p.above, point{x, entered - zero})
	p.ends = append(p.ends, point{x, end - zero})
	x, zero = at(own.Entered)
	p.below = append(p.below, point{x, left - zero})
}

// error is how far a fitted clock is wrong at most.
func (h *host) error() float64 {
	off := 0.0
	for i := range h.pieces {
		off = max(off, h.pieces[i].error())
	}
	return off
}

// pieces fits as few pieces as do for a time: each with enough collectives.
func (p *pass) pieces(from, to float64) []fit {
	first, last := math.Inf(1), math.Inf(-1)
	for _, e := range p.ends {
		first, last = min(first, e.x), max(last, e.x)
	}
	for n := 1; n <= mostPieces && len(p.ends) >= n*leastForClock; n *= 2 {
		var list []fit
		width := (last - first) / float64(n)
		for i := range n {
			low, high := first+float64(i)*width, first+float64(i+1)*width
			part := p.within(low, high, i == n-1)
			r, ok := part.region()
			if len(part.ends) < leastForClock || !ok {
				break
			}
			if i == 0 {
				low = min(low, from)
			}
			if i == n-1 {
				high = max(high, to)
			}
			list = append(list, r.fit(low, high))
		}
		if len(list) == n {
			return list
		}
	}
	return nil
}

// within is what the collectives that end in a part of the time demand.
func (p *pass) within(from, to float64, last bool) *pass {
	part := new(pass)
	for i, e := range p.ends {
		if e.x >= from && (e.x < to || last) {
			part.above, part.below, part.ends = append(part.above, p.above[i]), append(part.below, p.below[i]),
				append(part.ends, e)
		}
	}
	slices.SortFunc(part.ends, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	return part
}

// result is what is said of a fitted host.
func (h *host) result(span timeline.Extent) *ClockFit {
	f := &ClockFit{Collectives: h.n, Lines: len(h.pieces)}
	var lines []timeline.ClockLine
	var bounds []timeline.ClockBound
	for i := range h.pieces {
		p := &h.pieces[i]
		from := h.origin + uint64(int64(p.from*1e9))
		lines = append(lines, timeline.ClockLine{
			From: from, To: from + h.base + uint64(int64(math.Round(p.at(h.seconds(from))))), Rate: p.b / 1e9,
		})
		f.Drift += p.b / 1e3 / float64(len(h.pieces))
	}
	f.Clock = timeline.Lines(lines...)
	for i := range h.pieces {
		p := &h.pieces[i]
		for k := range p.between {
			b := timeline.ClockBound{
				At: f.Clock.At(h.origin + uint64(int64(p.between[k].x*1e9))), Error: uint64(math.Ceil(p.off(&p.between[k]))) +
					gpuTime,
			}
			if k == 0 && i > 0 { // where the line before ends
				before := &bounds[len(bounds)-1]
				before.Error = max(before.Error, b.Error)
				b.Error = before.Error
			}
			bounds = append(bounds, b)
		}
	}
	for i, b := range bounds {
		if f.Error = max(f.Error, b.Error); i > 0 && i < len(bounds)-1 {
			f.Among = max(f.Among, b.Error)
		}
	}
	f.Clock.Bound(bounds...)
	f.Shift = int64(f.Clock.At(span.Start) - span.Start)
	return f
}
