package stats

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A cover is the time that intervals cover together. They come by start.
type cover struct{ end, total uint64 }

func (c *cover) add(start, end uint64) {
	if start = max(start, c.end); end > start {
		c.total = sketch.Sum(c.total, end-start)
		c.end = end
	}
}

// A sweep measures how long any work, any kernel and any copy was under way. Work may come in
// another order than that of time, up to a number of pieces.
type sweep struct {
	window      int // most pieces that wait for earlier ones
	pending     []piece
	ordered     bool   // pending is in the order of time
	horizon     uint64 // all work that begins earlier has been swept
	late        uint64 // pieces that began before the horizon
	first, last uint64 // start of the first, end of the last piece
	any         cover
	kernels     cover
	copies      cover
	either      cover // kernels and copies
}

// A piece is a piece of work on a GPU.
type piece struct {
	start, end uint64
	kind       timeline.WorkKind
}

// streamWindow and deviceWindow are the windows of a stream, whose work comes nearly in order,
// and of a device, whose streams are interleaved.
const (
	streamWindow = 1 << 10
	deviceWindow = 1 << 17
)

func newSweep(window int) sweep { return sweep{window: window, ordered: true, first: timeline.Never} }

func (s *sweep) add(p piece) {
	s.first, s.last = min(s.first, p.start), max(s.last, p.end)
	if p.start < s.horizon {
		s.late++
		return
	}
	if n := len(s.pending); n > 0 && p.start < s.pending[n-1].start {
		s.ordered = false
	}
	s.pending = append(s.pending, p)
	if len(s.pending) >= s.window {
		s.sweep(s.window - s.window/4)
	}
}

// sweep takes the first n pieces in the order of time.
func (s *sweep) sweep(n int) {
	if !s.ordered {
		slices.SortFunc(s.pending, func(a, b piece) int { return cmp.Compare(a.start, b.start) })
		s.ordered = true
	}
	for i := range s.pending[:n] {
		p := &s.pending[i]
		s.any.add(p.start, p.end)
		if p.kind == timeline.MemcpyWork {
			s.copies.add(p.start, p.end)
		} else if p.kind != timeline.MemsetWork {
			s.kernels.add(p.start, p.end)
		}
		if p.kind != timeline.MemsetWork {
			s.either.add(p.start, p.end)
		}
		s.horizon = p.start
	}
	s.pending = s.pending[:copy(s.pending, s.pending[n:])]
}

// finish takes all pieces that are left.
func (s *sweep) finish() { s.sweep(len(s.pending)) }

// A usage is what a sweep measured, in ns.
type usage struct {
	span, busy, kernels, copies uint64
	overlap                     uint64 // of kernels with copies
	exact                       bool   // no piece came too late
}

func (s *sweep) usage() usage {
	s.finish()
	u := usage{busy: s.any.total, kernels: s.kernels.total, copies: s.copies.total, exact: s.late == 0}
	if both := u.kernels + u.copies; both >= s.either.total {
		u.overlap = both - s.either.total
	}
	if s.last > s.first {
		u.span = s.last - s.first
	}
	return u
}
