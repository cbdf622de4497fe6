package activity

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Run is when a piece of work was launched, and when it ran.
type Run struct {
	Launched   uint64 // the return of its call; 0 where that is not known
	Start, End uint64
	Kind       timeline.WorkKind
	CopyKind   uint32 // of a copy
	Bytes      uint64 // likewise
}

// A zoom is a time in which a counter changes with each piece of work.
type zoom struct {
	from, to uint64
	edges    []Sample // by how much it changes
}

// Zoom has the counters of kernels in flight, copies and launch queues change with each piece of work from a time to
// another one: elsewhere they have means. A GPU keeps its means if whole says of a process on it that not all of its
// work is known. runs gives the work of a stream that reaches into the time. If counters would change more often than
// most, all keep their means, and Zoom returns false.
func (c *Counters) Zoom(from, to uint64, most int, whole func(*timeline.Process) bool,
	runs func(*timeline.Stream, func(*Run))) bool {
	partial, zooms := make(map[*gpu]bool), make(map[*series]*zoom)
	for _, s := range c.streams {
		partial[s.gpu] = partial[s.gpu] || !whole(s.Context.Process)
	}
	for _, g := range c.gpus {
		if !partial[g] {
			zooms[&g.inFlight] = &zoom{from: from, to: to}
			for _, copies := range g.copies {
				zooms[copies] = &zoom{from: from, to: to}
			}
		}
	}
	n := 0
	add := func(s *series, from, to uint64, rate float64) {
		if z := zooms[s]; z != nil && n <= most {
			if from, to = max(from, z.from), min(to, z.to); from < to {
				z.edges, n = append(z.edges, Sample{from, rate}, Sample{to, -rate}), n+2
			}
		}
	}
	for _, s := range c.streams {
		if partial[s.gpu] {
			continue
		}
		if s.queued != nil {
			zooms[s.queued] = &zoom{from: from, to: to}
		}
		runs(s.Stream, func(r *Run) {
			switch {
			case r.Kind == timeline.KernelWork:
				add(&s.gpu.inFlight, r.Start, r.End, 1)
			case r.Kind == timeline.MemcpyWork:
				add(s.gpu.copies[r.CopyKind], r.Start, r.End, float64(r.Bytes)/float64(max(r.End-r.Start, 1)))
			}
			if r.Launched != 0 {
				add(s.queued, r.Launched, r.Start, 1)
			}
		})
	}
	if n > most {
		return false
	}
	for s, z := range zooms {
		s.zoom = z
	}
	return true
}

// into puts the values within the zoom into the samples of a counter.
func (z *zoom) into(list []Sample, factor float64) (all []Sample) {
	set := func(at uint64, v float64) {
		if n := len(all); n > 0 && all[n-1].Time == at {
			all = all[:n-1]
		}
		if n := len(all); n == 0 || all[n-1].Value != v {
			all = append(all, Sample{at, v})
		}
	}
	slices.SortFunc(z.edges, func(a, b Sample) int { return cmp.Compare(a.Time, b.Time) })
	mean, value, i := 0.0, 0.0, 0
	for ; i < len(list) && list[i].Time < z.from; i++ {
		mean = list[i].Value
		set(list[i].Time, mean)
	}
	set(z.from, 0)
	for k := range z.edges {
		value += z.edges[k].Value
		set(z.edges[k].Time, rounded(value*factor))
	}
	for ; i < len(list) && list[i].Time <= z.to; i++ {
		mean = list[i].Value
	}
	set(z.to, mean)
	return append(all, list[i:]...)
}
