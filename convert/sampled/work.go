package sampled

import "github.com/cudatrace/cudatrace/convert/timeline"

// projections find the time of NVTX ranges on GPUs: from the start of a range's first work on a GPU to the
// end of its last.
type projections struct {
	ranges map[rangeOnGPU]*projection
	stacks map[stackOnGPU][]*projection
	latest stackOnGPU
	open   []*projection // of latest
}

type rangeOnGPU struct {
	*timeline.Range
	gpu uint32
}

type stackOnGPU struct {
	*timeline.RangeStack
	gpu uint32
}

// A projection is one range on a GPU, with its time so far.
type projection struct {
	part     *Part
	from, to uint64
}

// maxProjections bounds each of the two tables. A full table is emptied: a range that goes on is then two.
const maxProjections = 1 << 16

// Work takes work of a GPU for the ranges that were open when its call began.
func (r *Ranges) Work(gpu uint32, w *timeline.Work) {
	if w.Call.Ranges == nil || w.Untimed {
		return
	}
	if key := (stackOnGPU{w.Call.Ranges, gpu}); r.latest != key {
		r.latest, r.open = key, r.projected(key)
	}
	for _, p := range r.open {
		r.extend(p, w.Start, timeline.End(w.Start, w.Dur))
	}
}

// extend extends a projection to a piece of work.
func (r *Ranges) extend(p *projection, from, to uint64) {
	switch {
	case p.to == 0:
		r.Add(p.part, from, to)
		p.from, p.to = from, to
		return
	case from < p.from:
		r.Add(p.part, from, p.from)
		p.from = from
	}
	if to > p.to {
		r.Add(p.part, p.to, to)
		p.to = to
	}
}

// projected returns the projections of the ranges of a stack.
func (r *Ranges) projected(key stackOnGPU) []*projection {
	list, known := r.stacks[key]
	if known {
		return list
	}
	if len(r.stacks) >= maxProjections {
		clear(r.stacks)
	}
	if len(r.ranges) >= maxProjections {
		clear(r.ranges)
	}
	for s := key.RangeStack; s != nil; s = s.Outer {
		on := rangeOnGPU{s.Range, key.gpu}
		p := r.ranges[on]
		if p == nil {
			p = &projection{part: r.Part(key.gpu, Name{s.Name, s.Domain})}
			r.ranges[on] = p
		}
		list = append(list, p)
	}
	r.stacks[key] = list
	return list
}
