package findings

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// An Interval is a part of the time.
type Interval struct{ From, To uint64 }

func (i Interval) length() uint64 { return i.To - i.From }

// Bounds of the gaps that are kept: a program of very many processes keeps leastKept for each process on a GPU.
const (
	allKept   = 1 << 18
	mostKept  = 1 << 14
	leastKept = 1 << 6
)

// Recording takes the first event.
func (c *Collector) Recording(e *timeline.Recording) {
	c.kept = min(max(allKept/max(e.Processes, 1), leastKept), mostKept)
}

// An Idle is the long gaps of a process on a GPU.
type Idle struct {
	GPU  uint32
	Gaps []critical.Lost // the earliest one first
	Some bool            // there are too many: these are the longest ones
	// what the launching threads did meanwhile for more than half of their time, "" where nothing is known
	Mostly string
}

// Within is the time of the gaps between two moments.
func (g *Idle) Within(from, to uint64) (ns uint64) {
	i, _ := slices.BinarySearchFunc(g.Gaps, from, func(x critical.Lost, at uint64) int { return cmp.Compare(x.To, at) })
	for ; i < len(g.Gaps) && g.Gaps[i].From < to; i++ {
		ns += min(to, g.Gaps[i].To) - max(from, g.Gaps[i].From)
	}
	return ns
}

// Idle returns the long gaps of a process, by GPU.
func (c *Collector) Idle(of *timeline.Process) (all []Idle) {
	p := c.processes[of]
	if p == nil {
		return nil
	}
	for _, gpu := range sortedKeys(p.gaps) {
		g := p.gaps[gpu]
		slices.SortFunc(g.kept, func(a, b critical.Lost) int { return cmp.Compare(a.From, b.From) })
		all = append(all, Idle{gpu, g.kept, g.some, g.mostly(c.Steady(of).From)})
	}
	return all
}

// keep keeps a gap. Where there are too many, the longer half stays.
func (g *gaps) keep(x critical.Lost) {
	if len(g.kept) == g.most {
		g.some = true
		slices.SortFunc(g.kept, func(a, b critical.Lost) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
		g.kept = g.kept[:g.most/2]
	}
	g.kept = append(g.kept, x)
}

// isKnown reports whether a kind of doing says what a thread did.
func isKnown(kind doingKind) bool {
	return !slices.Contains([]doingKind{nothingKnown, outside, queued, computesUnseen, blockedUnseen}, kind)
}

// mostly names what the launching threads did for more than half of the time of gaps, "" for nothing or something that
// is not known.
func (g *gaps) mostly(since uint64) string {
	t := g.did.since(since)
	if meanwhile(t); len(t) == 0 {
		return ""
	}
	d := largest(t, func(d doing) string { return d.name })[0]
	if !isKnown(d.kind) || t[d].cost <= g.since(since).cost/2 {
		return ""
	}
	return d.name
}
