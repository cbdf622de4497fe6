package ranks

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// steps are the steps of all ranks.
type steps struct {
	open  map[*timeline.Track][]openStep // innermost last
	list  map[stepKey]*step
	parts int
	more  uint64 // steps of ranks beyond maxStepParts
}

// maxStepParts bounds the steps of ranks that are kept, of all ranks together.
const maxStepParts = 1 << 19

type stepKey struct {
	run    string
	number int64
}

// An openStep is a span that has not ended; number is -1 for one that is no step.
type openStep struct {
	number int64
	start  uint64
}

// A step is one step on the ranks.
type step struct {
	stepKey
	parts []stepPart
	on    Set
}

type stepPart struct {
	of         *Process
	start, end uint64
}

// Begin takes the beginning of a span.
func (c *Collector) Begin(e *timeline.SpanBegin) {
	if e.Track.Category != timeline.NVTX || c.Steps == "" {
		return
	}
	s := &c.steps
	if s.open == nil {
		s.open, s.list = make(map[*timeline.Track][]openStep), make(map[stepKey]*step)
	}
	n := int64(-1)
	if e.Ranges != nil && e.Ranges.Step != nil {
		n = e.Ranges.Step.Number
	}
	if slices.ContainsFunc(e.Args, func(d timeline.Detail) bool { return d.Name == "unfinished" }) {
		n = -1
	}
	s.open[e.Track] = append(s.open[e.Track], openStep{n, e.Start})
}

// End takes the end of a span.
func (c *Collector) End(e *timeline.SpanEnd) {
	s := &c.steps
	open := s.open[e.Track]
	if len(open) == 0 {
		return
	}
	o := open[len(open)-1]
	s.open[e.Track] = open[:len(open)-1]
	if o.number < 0 {
		return
	}
	p := c.Process(e.Track.Process)
	if s.parts >= maxStepParts {
		s.more++
		return
	}
	key := stepKey{p.Run, o.number}
	x := s.list[key]
	if x == nil {
		x = &step{stepKey: key}
		s.list[key] = x
	}
	if x.on.Has(p) {
		return // another thread's, or a number that comes again
	}
	x.on.Add(p)
	s.parts++
	x.parts = append(x.parts, stepPart{p, o.start, e.Time})
}

// sorted returns the steps by run and number, each with its parts by rank.
func (s *steps) sorted() (list []*step) {
	for _, x := range s.list {
		slices.SortStableFunc(x.parts, func(a, b stepPart) int {
			return cmp.Or(a.of.Rank.Compare(b.of.Rank), cmp.Compare(a.of.PID, b.of.PID))
		})
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.number, b.number))
	})
	return list
}

func (p stepPart) length() uint64 { return p.end - min(p.start, p.end) }

// last is the part that ended last and by how much, nil where the clocks do not tell.
func (x *step) last() (last *stepPart, late uint64) {
	if len(x.parts) < 2 {
		return nil, 0
	}
	for i := range x.parts {
		if p := &x.parts[i]; last == nil || p.end > last.end {
			last = p
		}
	}
	late = timeline.Never
	for i := range x.parts {
		p := &x.parts[i]
		if p == last {
			continue
		}
		apart, known := p.of.Clock.Apart(last.of.Clock)
		if !known || last.end-p.end <= apart {
			return nil, 0
		}
		late = min(late, last.end-p.end)
	}
	return last, late
}

// slowest is the part that took longest.
func (x *step) slowest() stepPart {
	return slices.MaxFunc(x.parts, func(a, b stepPart) int { return cmp.Compare(a.length(), b.length()) })
}

// lengths are the lengths of the parts, in their order and sorted.
func (x *step) lengths() (list, sorted []uint64) {
	for _, p := range x.parts {
		list = append(list, p.length())
	}
	return list, slices.Sorted(slices.Values(list))
}
