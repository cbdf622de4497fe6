package live

import (
	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A gpu has the busy time of a device.
type gpu struct {
	index  uint32
	name   string
	device *activity.Device
	work   *activity.Lane // of all streams: there is no end of streams
	busy   series
	queue  series // launches times ns
	all    uint64 // ns with work in closed intervals
	memory Memory
	busyAt [instants]uint64 // numbers of the latest instants with work
	thread *timeline.Thread // that launches the work, nil if unknown
}

// window is the number of pieces of work of a GPU that wait for earlier ones of other streams.
const window = 1 << 15

func (s *Sink) newGPU(index uint32) *gpu {
	g := &gpu{index: index}
	g.device = s.devices.NewDevice(func(from, to uint64) {
		s.intervals.spread(from, to, func(number, ns uint64) { g.countBusy(&s.intervals, number, ns) })
		g.busyFrom(from, to)
	})
	g.work = g.device.Lane(nil)
	return g
}

// countWork counts a piece of work in the intervals that it spans.
func (g *gpu) countWork(l *intervals, w *timeline.Work) {
	end := timeline.End(w.Start, w.Dur)
	if settled := g.device.Settled(); w.Start < settled {
		g.late(l, w.Start, min(end, settled))
		g.busyFrom(w.Start, min(end, settled))
	}
	g.work.Add(&activity.Piece{Start: w.Start, End: end})
	if w.Call.Function != nil && w.Call.End < w.Start {
		l.spread(w.Call.End, w.Start, func(number, ns uint64) {
			if v := g.queue.value(number); v != nil {
				*v = sketch.Sum(*v, ns)
			}
		})
	}
}

// late counts a time that was taken to be idle, as far as it was: work is recorded when it ends, so
// that long work comes late.
func (g *gpu) late(l *intervals, from, to uint64) {
	l.spread(from, to, func(number, ns uint64) {
		if v := g.busy.value(number); v != nil {
			g.countBusy(l, number, min(ns, l.length-min(*v, l.length)))
		}
	})
}

func (g *gpu) countBusy(l *intervals, number, ns uint64) {
	v := g.busy.value(number)
	if v == nil {
		return
	}
	*v += ns
	if number < l.closed {
		g.all += ns
	}
}

// busyFrom notes the instants of a time with work.
func (g *gpu) busyFrom(from, to uint64) {
	if !noInstant(from, to) {
		eachInstant(from, to, func(number uint64) { g.busyAt[number%instants] = number })
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
