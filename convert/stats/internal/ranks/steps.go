package ranks

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// steps are the steps of all ranks.
type steps struct {
	list  map[stepKey]*step
	parts int
	more  uint64 // steps of ranks beyond maxStepParts
}

// maxStepParts bounds the steps of ranks that are kept, of all ranks together.
const maxStepParts = 1 << 19

type stepKey struct {
	run    string
	alone  *RankProcess // of a process without a rank; nil for ranks
	number int64
}

// A step is one step on the ranks.
type step struct {
	stepKey
	name  string
	parts []stepPart
	on    Set
}

type stepPart struct {
	of         *RankProcess
	start, end uint64
}

// AddStep adds a step of a process.
func (c *Collector) AddStep(of *timeline.Process, name string, number int64, start, end uint64) {
	s, p := &c.steps, c.Process(of)
	if s.parts >= maxStepParts {
		s.more++
		return
	}
	key := stepKey{run: p.Run, number: number}
	if !p.Rank.Known {
		key.alone = p
	}
	x := s.list[key]
	if x == nil {
		if s.list == nil {
			s.list = make(map[stepKey]*step)
		}
		x = &step{stepKey: key, name: name}
		s.list[key] = x
	}
	if x.on.Has(p) {
		return // another thread's
	}
	x.on.Add(p)
	s.parts++
	x.parts = append(x.parts, stepPart{p, start, end})
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
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.parts[0].of.aloneIndex(a), b.parts[0].of.aloneIndex(b)),
			cmp.Compare(a.number, b.number))
	})
	return list
}

// aloneIndex puts the steps of processes without a rank behind each other.
func (p *RankProcess) aloneIndex(x *step) int {
	if x.alone == nil {
		return -1
	}
	return p.Index
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
		apart, known := p.of.Clock.Apart(last.of.Clock, last.end)
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
