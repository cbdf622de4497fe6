package live

import (
	"github.com/cudatrace/cudatrace/convert/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A gpu has the busy time of a device.
type gpu struct {
	index   uint32
	name    string
	pending ordered.List[piece]
	swept   uint64 // pieces that begin before were counted, but for late ones
	covered uint64 // end of the time that was counted
	busy    series
	queue   series // launches times ns
	all     uint64 // ns with work in closed intervals
	memory  Memory
}

// A piece is the time of a piece of work.
type piece struct{ start, end uint64 }

// window is the number of pieces of work of a GPU that wait for earlier ones of other streams.
const window = 1 << 15

func newGPU(index uint32) *gpu {
	return &gpu{index: index, pending: ordered.NewList(func(a, b *piece) bool { return a.start < b.start })}
}

// work takes a piece of work.
func (g *gpu) work(l *intervals, w *timeline.Work) {
	end := timeline.End(w.Start, w.Dur)
	g.pending.Add(piece{w.Start, end})
	if g.pending.Len() >= window {
		n := window / 2
		g.sweep(l, func(*piece) bool { n--; return n >= 0 })
	}
	if w.Call.Function != nil && w.Call.End < w.Start {
		l.spread(w.Call.End, w.Start, func(number, ns uint64) {
			if v := g.queue.value(number); v != nil {
				*v = sum(*v, ns)
			}
		})
	}
}

// until counts the pieces that begin before a time. Nearly all of these have come.
func (g *gpu) until(l *intervals, at uint64) {
	g.sweep(l, func(p *piece) bool { return p.start < at })
	g.swept = max(g.swept, at)
}

func (g *gpu) sweep(l *intervals, ready func(*piece) bool) {
	g.pending.Drain(ready, func(p *piece) {
		from := p.start
		if from < g.swept {
			from = g.swept
			g.late(l, p.start, min(p.end, g.swept))
		}
		if from = max(from, g.covered); from < p.end {
			l.spread(from, p.end, func(number, ns uint64) { g.add(l, number, ns) })
			g.covered = p.end
		}
	})
}

// late counts a time that was taken to be idle, as far as it was: work is recorded when it ends, so
// that long work comes late.
func (g *gpu) late(l *intervals, from, to uint64) {
	l.spread(from, to, func(number, ns uint64) {
		if v := g.busy.value(number); v != nil {
			g.add(l, number, min(ns, l.length-min(*v, l.length)))
		}
	})
}

func (g *gpu) add(l *intervals, number, ns uint64) {
	v := g.busy.value(number)
	if v == nil {
		return
	}
	*v += ns
	if number < l.closed {
		g.all += ns
	}
}

// close ends an interval.
func (g *gpu) close(l *intervals, number uint64) GPU {
	r := GPU{Index: g.index, Name: g.name, Memory: g.memory}
	if v := g.busy.value(number); v != nil {
		r.Busy = *v
		g.all += *v
	}
	if v := g.queue.value(number); v != nil {
		r.Queue = float64(*v) / float64(l.length)
	}
	r.All = g.all
	return r
}
