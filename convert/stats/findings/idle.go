package findings

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// idleShare is the share of the steady state from which an idle GPU is worth a finding, whatever it waits for.
const idleShare = 0.2

// IdleGPU is the kind of the finding about a GPU that idles for a large part of the steady state.
const IdleGPU = "idle_gpu"

// A SteadyIdle is the idle time of a GPU in the steady state of a process whose work ends it.
type SteadyIdle struct {
	GPU  uint32
	Rows []*activity.Row // divided: see [activity.Idle.Pool]
}

// SteadyIdles returns the idle time of a process by GPU. A GPU is missing where it is not known.
type SteadyIdles func(*timeline.Process) []SteadyIdle

// on returns the idle time on a GPU, nil if it is not known.
func (f SteadyIdles) on(p *processHabits, gpu uint32) *SteadyIdle {
	all := f(p.Process)
	if i := slices.IndexFunc(all, func(g SteadyIdle) bool { return g.GPU == gpu }); i >= 0 {
		return &all[i]
	}
	return nil
}

// time is the time of all rows, in ns.
func (g *SteadyIdle) time() (ns uint64) {
	for _, r := range g.Rows {
		ns = sketch.Sum(ns, r.Time)
	}
	return ns
}

// mostOwners is the number of owners of idle time that evidence names.
const mostOwners = 4

// idles reports whether a GPU is idle for so long that it is worth a finding.
func (r *report) idles(g *SteadyIdle) bool {
	ns := g.time()
	return float64(ns) > idleShare*float64(r.steady.length()) && r.collector.Worth(ns, r.steady.length())
}

// inAll says how long the GPU is idle, and what the launching threads did meanwhile.
func (g *SteadyIdle) inAll(steady Interval) string {
	if g == nil {
		return "how long the GPU is idle in all, and for what, is not known: there is no room for so many idle times"
	}
	share := 100 * float64(g.time()) / float64(max(steady.length(), 1))
	return fmt.Sprintf("the GPU is idle for %s, %.1f %% of the time after start-up; %s", figures.Duration(g.time()), share,
		g.meanwhile())
}

// meanwhile says what the launching threads did while the GPU was idle.
func (g *SteadyIdle) meanwhile() string {
	text := "what the launching threads did meanwhile: "
	activity.SortRows(g.Rows)
	for i, r := range g.Rows {
		if i == mostOwners {
			return text + ", others"
		}
		if i > 0 {
			text += ", "
		}
		text += r.What + " " + figures.Between(r.Low, r.High)
	}
	return text
}

// doingOf returns what a thread did in the time of a row.
func doingOf(r *activity.Row) doing {
	switch {
	case r.Owner != nil:
		return doing{kindOutside(r.Owner.OwnerKind, r.Owner.By), r.What}
	case r.Function != nil:
		return doing{kindOf(r.Function), r.What}
	case r.Cause == activity.Dependency || r.Cause == activity.OtherWork:
		return doing{queued, r.What}
	case r.What == activity.OutsideCalls:
		return doing{outside, r.What}
	}
	return doing{nothingKnown, r.What}
}

// idle finds GPUs that are idle for more than a fifth of the steady state.
func (r *report) idle() {
	for _, g := range r.idleTime(r.process.Process) {
		ns, p := g.time(), r.process.idle[g.GPU]
		if p == nil || !r.idles(&g) {
			continue
		}
		e := p.since(r.steady.From)
		e.cost = ns
		did := make(tally[doing])
		for _, row := range g.Rows {
			did.of(doingOf(row)).join(&evidence{count: max(row.Count, 1), cost: row.Time})
		}
		try := "make what takes most of that time faster, or move it to another thread or out of the loop"
		for kind, of := range meanwhile(did) {
			if remedies[kind] != "" && of > ns/2 {
				try = tryFor(g.mostly(), kind, did, nil)
			}
		}
		gpu := g.GPU
		share := 100 * float64(ns) / float64(r.steady.length())
		title := fmt.Sprintf("%s is idle for %.1f %% of the time after start-up", r.collector.gpuName(gpu), share)
		r.add(IdleGPU, e, Finding{
			Title: causedBy(titleOf(g.mostly(), did), title), Cause: g.mostly(), Effect: title, GPU: &gpu,
			Evidence: g.meanwhile(), Try: try, most: mostOf(did),
		})
	}
	r.explain()
}

// explain notes of which idle time another finding of the process is the cause. That has all of it in its evidence, and
// [WithoutTwice] leaves out [IdleGPU]; gaps are folded into it, see [Folded].
func (r *report) explain() {
	for i := range r.list {
		idle := &r.list[i]
		for j := range r.list {
			f := &r.list[j]
			switch {
			case !f.causes(idle):
			case idle.Kind == "gaps":
				f.Explains = append(f.Explains, Explained{Process: f.Process, GPU: *idle.GPU, Time: f.Cost})
			case f.Kind == "device_waits" || !idle.elsewhere && f.Kind != "gaps": // gaps have it already
				f.Evidence += "; " + r.idleTime.on(r.process, *idle.GPU).inAll(r.steady)
				fallthrough
			default:
				idle.elsewhere = true
			}
		}
	}
}

// causes reports whether a finding is the cause of another one of its process, about an idle GPU.
func (f *Finding) causes(idle *Finding) bool {
	if idle.GPU == nil || f.GPU != nil && *f.GPU != *idle.GPU || !isCauseOf(f.Cost, idle) && f.Kind != IdleGPU {
		return false
	}
	switch f.Kind {
	case "allocation_in_loop":
		return idle.Kind == "gaps" && idle.allocating
	case "device_waits":
		return idle.Kind == "gaps" || idle.Kind == IdleGPU
	case IdleGPU: // the gaps are a small part of it
		return idle.Kind == "gaps" && !isCauseOf(idle.Cost, f) && (idle.Cause == "" || idle.Cause == f.Cause)
	}
	return idle.Kind == IdleGPU && slices.Contains(explaining, f.Kind)
}

// explaining are the kinds of the findings that say why a GPU is idle.
var explaining = []string{"gaps", "tiny_kernels", "device_waits", "first_use"}

// isCauseOf reports whether a time is enough of that of a finding to be its cause. What an idle GPU waits for is many
// things, if it has no name.
func isCauseOf(ns uint64, of *Finding) bool {
	return ns > of.Cost/2 || of.Kind == IdleGPU && of.Cause == "" && ns > of.Cost/4
}

// mostly names what the launching threads did for more than half of the idle time, "" for something that is not known.
func (g *SteadyIdle) mostly() string {
	for _, r := range g.Rows {
		if d := doingOf(r); r.Time > g.time()/2 && isKnown(d.kind) {
			return d.name
		}
	}
	return ""
}

// Folded folds findings into the first one that has the same cause in the same process, or explains most of their idle
// time. That a rank comes late since it computes longer, or waits, is an effect of that.
func Folded(list []Finding) (causes []Finding) {
	for _, f := range list {
		i := slices.IndexFunc(causes, func(c Finding) bool { return c.includes(&f) || f.includes(&c) })
		switch {
		case i < 0:
			causes = append(causes, f)
		case causes[i].includes(&f):
			causes[i].fold(f)
		default:
			f.fold(causes[i])
			causes[i] = f
		}
	}
	return causes
}

// WithoutTwice leaves out findings about idle GPUs of which another finding of the list has the idle time in its
// evidence.
func WithoutTwice(list []Finding) []Finding {
	return slices.DeleteFunc(list, func(f Finding) bool {
		return f.elsewhere && slices.ContainsFunc(list, func(o Finding) bool {
			return o.Process == f.Process && slices.Contains(explaining, o.Kind) && (o.GPU == nil || *o.GPU == *f.GPU)
		})
	})
}

// fold takes an effect. A finding among ranks has the remedy of the cause, which it is named for.
func (f *Finding) fold(effect Finding) {
	if KindOf(f.Kind).Ranks && f.Cause == "" && effect.Kind == OnPath {
		f.Cause, f.Title = effect.Cause, f.Title+": "+effect.Cause
	}
	another := func(e Finding) bool { return e.Cause == f.Cause }
	if KindOf(f.Kind).Ranks && f.Cause != "" && f.Cause == effect.Cause && !slices.ContainsFunc(f.Effects, another) {
		f.Try = effect.Try
	}
	nested := effect.Effects
	effect.Effects = nil
	f.Effects = slices.Concat(f.Effects, []Finding{effect}, nested)
}

// includes reports whether a finding has the cause of another one, or is it.
func (f *Finding) includes(of *Finding) bool {
	switch x := f.Explanation(of); {
	case f.Process != of.Process && x == nil:
		return false
	case f.Cause != "" && f.Cause == of.Cause:
		return true
	case x != nil:
		return isCauseOf(x.Time, of)
	case f.Kind == OnPath && (of.Kind == "gaps" || of.Kind == IdleGPU):
		return of.Cause == "" && of.most == f.Cause && f.Cost > of.Cost/2
	case f.Kind == "pageable_copies" || f.Kind == "small_copies":
		return of.Copying && f.Cost > of.Cost/2
	case f.Kind == "gaps" && f.allocating:
		return of.Kind == "allocation_in_loop" && of.Cost <= f.Cost
	case f.Kind == imbalance || f.Kind == oddKernel:
		return (of.Kind == lateRank || of.Kind == imbalance) && of.Cause == "" && f.Cost > of.Cost/2
	case f.Kind == lateRank:
		return of.Kind == OnPath && f.Cause == "" && of.Cost > f.Cost/2
	}
	return false
}

// Kinds of ranks that compute longer than the others, that run a kernel alone, and that come late.
const (
	imbalance = "compute_imbalance"
	oddKernel = "odd_kernel"
	lateRank  = "straggling_rank"
)
