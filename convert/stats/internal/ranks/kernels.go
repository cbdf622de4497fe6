package ranks

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A Kernel is a kernel with the processes that ran it.
type Kernel struct {
	Title string
	Short string // for people
	On    *Users
	Count uint64
	Time  uint64 // ns
	First uint64
}

// A Set is a set of processes.
type Set struct {
	last *RankProcess // that was added last
	bits []uint64
}

// Add adds a process.
func (s *Set) Add(p *RankProcess) {
	if s.last == p {
		return
	}
	s.last = p
	for len(s.bits) <= p.Index/64 {
		s.bits = append(s.bits, 0)
	}
	s.bits[p.Index/64] |= 1 << (p.Index % 64)
}

// join adds the processes of another set.
func (s *Set) join(o *Set) {
	s.last = nil
	for len(s.bits) < len(o.bits) {
		s.bits = append(s.bits, 0)
	}
	for i, b := range o.bits {
		s.bits[i] |= b
	}
}

// Has reports whether a process is in the set.
func (s *Set) Has(p *RankProcess) bool {
	return p.Index/64 < len(s.bits) && s.bits[p.Index/64]&(1<<(p.Index%64)) != 0
}

// Indices are those of the processes in the set.
func (s *Set) Indices() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range 64 * len(s.bits) {
			if s.bits[i/64]&(1<<(i%64)) != 0 && !yield(i) {
				return
			}
		}
	}
}

// Users are the processes that run a kernel, each with its time.
type Users struct {
	Set
	uses []kernelUse // by the index of the process, of the first mostUses
}

// A kernelUse is what one process does with a kernel.
type kernelUse struct {
	time    uint64 // ns
	longest uint64 // ns, of a launch
	python  *timeline.Python
}

// mostUses bounds the processes whose times are kept.
const mostUses = 256

// AddKernel adds a launch of the kernel.
func (u *Users) AddKernel(p *RankProcess, w *timeline.Work) {
	u.Add(p)
	if w.Untimed || p.Index >= mostUses {
		return
	}
	for len(u.uses) <= p.Index {
		u.uses = append(u.uses, kernelUse{})
	}
	x := &u.uses[p.Index]
	x.time = sketch.Sum(x.time, w.Dur)
	if w.Dur > x.longest {
		x.longest, x.python = w.Dur, w.Call.Python
	}
}

// Join adds the launches of other users, which came later.
func (u *Users) Join(later *Users) {
	u.join(&later.Set)
	for i := range later.uses {
		if i == len(u.uses) {
			u.uses = append(u.uses, kernelUse{})
		}
		x, more := &u.uses[i], &later.uses[i]
		x.time = sketch.Sum(x.time, more.time)
		if more.longest > x.longest {
			x.longest, x.python = more.longest, more.python
		}
	}
}

// by is what a process does with the kernel.
func (u *Users) by(p *RankProcess) kernelUse {
	if p.Index >= len(u.uses) {
		return kernelUse{}
	}
	return u.uses[p.Index]
}

// difference names the kernel that makes a rank compute longer than the others, and says how much; "" if none makes
// half of it.
func difference(most *Load, loads []Load, kernels []Kernel, more uint64) (cause, text string) {
	var kernel *Kernel
	var here kernelUse
	found, there := more/2, uint64(0)
	for i := range kernels {
		var list []uint64
		for j := range loads {
			if p := loads[j].RankProcess; p != most.RankProcess && p.Index < mostUses {
				list = append(list, kernels[i].On.by(p).time)
			}
		}
		if len(list) == 0 {
			return "", ""
		}
		x, usual := kernels[i].On.by(most.RankProcess), middle(list)
		if d := x.time - min(x.time, usual); d > found && d <= 2*more { // more than all: it is of the start-up
			kernel, here, found, there = &kernels[i], x, d, usual
		}
	}
	if kernel == nil {
		return "", ""
	}
	cause = "the kernel " + kernel.Short
	text = "; mostly " + cause + ": " + figures.Duration(here.time)
	switch {
	case kernel.only(most, loads):
		text += ", on this rank alone"
	case len(loads) == 2:
		text += " against " + figures.Duration(there)
	default:
		text += " against " + figures.Duration(there) + " in the median of the others"
	}
	if here.python != nil {
		line := here.python.Own().Short()
		cause, text = cause+" of "+line, text+"; its longest launch is at "+line
	}
	return cause, text
}

// only reports whether one of the ranks alone runs the kernel.
func (k *Kernel) only(on *Load, loads []Load) bool {
	elsewhere := func(l Load) bool { return l.RankProcess != on.RankProcess && k.On.Has(l.RankProcess) }
	return !slices.ContainsFunc(loads, elsewhere)
}

// leastRanks is the least number of ranks of which one can be odd.
const leastRanks = 3

// oddKernels finds kernels that one rank alone runs, where the ranks run the same kernels else.
func oddKernels(worth worthwhile, loads []Load, kernels []Kernel) (all []findings.Finding) {
	if len(loads) < leastRanks {
		return nil
	}
	type odd struct {
		*Kernel
		on *Load
	}
	var odds []odd
	common, some := 0, 0
	for i := range kernels {
		k, n, on := &kernels[i], 0, (*Load)(nil)
		for j := range loads {
			if k.On.Has(loads[j].RankProcess) {
				n, on = n+1, &loads[j]
			}
		}
		switch n {
		case 0:
			continue
		case len(loads):
			common++
		case 1:
			odds = append(odds, odd{k, on})
		}
		some++
	}
	if float64(common) < sameKernels*float64(some-len(odds)) || common < len(odds) {
		return nil
	}
	slices.SortStableFunc(odds, func(a, b odd) int { return cmp.Compare(b.Time, a.Time) })
	for _, o := range odds[:min(len(odds), findings.MaxMoments)] {
		if !worth(o.Time, o.on.Span) {
			continue
		}
		f := ofLoad("odd_kernel", o.on, o.Time)
		title := o.Title
		f.Without = func(x *critical.Without) { x.Kernels(title, 1) }
		f.Count, f.First, f.At = o.Count, o.Kernel.First, []uint64{o.Kernel.First}
		f.Title = fmt.Sprintf("only %s runs the kernel %s", o.on.name(), o.Short)
		f.Evidence = fmt.Sprintf("%s, %s; %d of the kernels of %d ranks run on all of them",
			figures.Count(o.Count, "launch", "launches"), figures.Duration(o.Time), common, len(loads))
		f.Try = "if the rank does something of its own (saving, logging, evaluation), do it beside the step or on all " +
			"ranks; else look for a library that chose another algorithm there"
		all = append(all, *f)
	}
	return all
}
