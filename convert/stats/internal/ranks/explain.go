package ranks

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// idleOf returns the gaps of a process on a GPU, nil for none.
type idleOf func(*timeline.Process) []findings.Idle

func (f idleOf) on(p *RankProcess, gpu uint32) *findings.Idle {
	list := f(p.Process)
	i := slices.IndexFunc(list, func(g findings.Idle) bool { return g.GPU == gpu })
	if i < 0 {
		return &findings.Idle{}
	}
	return &list[i]
}

// explain notes how much of the lateness of some members their idle GPUs caused. Members leave a collective together,
// so the last to arrive at the next one computed longer, or sat idle longer.
func (m *communicator) explain(f *findings.Finding, who []int, hosts bool, idle idleOf) {
	gaps := make([]*findings.Idle, len(m.members))
	for i, p := range m.members {
		gaps[i] = idle.on(p, m.gpus[i])
	}
	found := make([]uint64, len(m.members))
	x := comparison{distrust: m.distrust}
	m.Each(func(members []*collective.Sequence, parts []collective.Part) {
		index, clocks := m.of(members)
		if !x.compare(clocks, parts) || x.last < 0 || !slices.Contains(who, index[x.last]) {
			return
		}
		late, before := x.sure, x.before(clocks, hosts)
		if hosts {
			late = x.ahead
		}
		if before < 0 || late == timeline.Never {
			return
		}
		within := func(i int) uint64 { return gaps[index[i]].Within(parts[i].Before, parts[i].Start) }
		own := within(x.last)
		found[index[x.last]] += min(own-min(own, within(before)), late)
	})
	m.explained(f, found, gaps)
}

// explained notes the times for which idle GPUs made their ranks late.
func (m *communicator) explained(f *findings.Finding, found []uint64, gaps []*findings.Idle) {
	total, some, most, owners := uint64(0), m.Step() > 1, 0, ""
	for i, ns := range found {
		if ns == 0 {
			continue
		}
		if ns > found[most] {
			most = i
		}
		ns *= m.Step()
		if total, some = total+ns, some || gaps[i].Some; owners == "" {
			owners = m.members[i].name() + "'s GPU was"
		} else {
			owners = "the GPUs of its ranks were"
		}
		f.Explains = append(f.Explains, findings.Explained{
			Process: m.members[i].Process, GPU: m.gpus[i], Time: ns, About: m.Step() > 1 || gaps[i].Some,
		})
	}
	if total == 0 {
		return
	}
	did := ""
	if gaps[most].Mostly != "" {
		did = ": mostly " + gaps[most].Mostly
		if 2*total > f.Cost {
			f.Cause, f.Title = gaps[most].Mostly, f.Title+": "+gaps[most].Mostly
		}
	}
	f.Evidence += fmt.Sprintf(", of which %s%s because %s idle%s", about(some), figures.Duration(total), owners, did)
}

// before is the part that came last but one, with hosts set of those on other hosts; -1 if there is none.
func (c *comparison) before(clocks []*timeline.Clock, hosts bool) int {
	found := -1
	for i := range clocks {
		if i == c.last || hosts && clocks[i] == clocks[c.last] {
			continue
		}
		if found < 0 || c.waits[i] < c.waits[found] {
			found = i
		}
	}
	return found
}

func about(is bool) string {
	if is {
		return "about "
	}
	return ""
}

// Arrange sorts the findings of processes together with those among ranks, as [findings.Sorted] does. But of the
// findings of one kind on several ranks of a run, the one that costs most names the other ranks, and theirs come behind
// all. And a straggling rank comes before the gaps that it explains, which say how much of their time that is.
func (c *Collector) Arrange(own, among []findings.Finding) []findings.Finding {
	own, again := c.repeated(findings.Sorted(own))
	for i := range among {
		tell(&among[i], own)
		tell(&among[i], again)
	}
	all := findings.Sorted(slices.Concat(own, among))
	for i, f := range all {
		first := slices.IndexFunc(all[:i], func(g findings.Finding) bool { return f.Explanation(&g) != nil })
		if first >= 0 {
			all = slices.Insert(slices.Delete(all, i, i+1), first, f)
		}
	}
	return append(all, again...)
}

// tell has the findings that another one explains say so.
func tell(f *findings.Finding, all []findings.Finding) {
	for i := range all {
		if x := f.Explanation(&all[i]); x != nil {
			all[i].Evidence += fmt.Sprintf("; other ranks waited for %s%s of it (%s)", about(x.About), figures.Duration(x.Time),
				f.Kind)
		}
	}
}

// A habit is what several ranks of a run may have in common.
type habit struct{ run, kind string }

// repeated splits sorted findings: those that repeat an earlier one on another rank, and the others.
func (c *Collector) repeated(all []findings.Finding) (list, again []findings.Finding) {
	first, others := make(map[habit]int), make(map[habit][]uint32)
	for _, f := range all {
		key := habit{c.Process(f.Process).Run, f.Kind}
		at, known := first[key]
		switch {
		case !f.Process.Rank.Known || known && list[at].Process == f.Process:
			list = append(list, f)
		case !known:
			first[key] = len(list)
			list = append(list, f)
		default:
			others[key] = append(others[key], f.Process.Rank.Number)
			again = append(again, f)
		}
	}
	for key, numbers := range others {
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		f := &list[first[key]]
		f.Evidence += "; likewise on " + ranks.Named(numbers)
	}
	return list, again
}
