package findings

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
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
		ns = sum(ns, r.Time)
	}
	return ns
}

// mostOwners is the number of owners of idle time that evidence names.
const mostOwners = 4

// idles reports whether a GPU is idle for so long that it is worth a finding.
func (r *report) idles(g *SteadyIdle) bool {
	ns := g.time()
	return float64(ns) > idleShare*float64(r.steady.length()) && r.limits.Worth(ns, r.steady.length())
}

// explains reports whether a cost is most of the idle time of a GPU: its finding then has all of it in its evidence.
func (g *SteadyIdle) explains(cost uint64) bool { return cost >= g.time()/2 }

// words says how long the GPU is idle, and what the launching threads did meanwhile.
func (g *SteadyIdle) words(steady Interval) string {
	if g == nil {
		return "how long the GPU is idle in all, and for what, is not known: there is no room for so many idle times"
	}
	text := fmt.Sprintf("the GPU is idle for %s, %.1f %% of the time after start-up; "+
		"what the launching threads did meanwhile: ", figures.Duration(g.time()),
		100*float64(g.time())/float64(max(steady.length(), 1)))
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

// explaining are the kinds of the findings that say why a GPU is idle.
var explaining = []string{"gaps", "tiny_kernels", "device_waits", "first_use"}

// idle finds GPUs that are idle for more than a fifth of the steady state. Where another finding explains most of that,
// it has it in its evidence, and this one is for the case that the other one is left out: see [WithoutTwice].
func (r *report) idle(all SteadyIdles) {
	for _, g := range all(r.process.Process) {
		ns, p := g.time(), r.process.idle[g.GPU]
		if p == nil || !r.idles(&g) {
			continue
		}
		explained := false
		for i := range r.list {
			f := &r.list[i]
			here := f.GPU == nil || *f.GPU == g.GPU
			if explained || !here || !slices.Contains(explaining, f.Kind) || !g.explains(f.Cost) {
				continue
			}
			if explained = true; f.Kind != "gaps" { // they have it already
				f.Evidence += "; " + g.words(r.steady)
			}
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
				try = remedies[kind]
			}
		}
		gpu := g.GPU
		share := 100 * float64(ns) / float64(r.steady.length())
		title := fmt.Sprintf("%s is idle for %.1f %% of the time after start-up", r.collector.gpuName(gpu), share)
		cause := g.mostly()
		r.add(IdleGPU, e, Finding{
			Title: causedBy(cause, title), Cause: cause, Effect: title, GPU: &gpu, Evidence: g.words(r.steady), Try: try,
			elsewhere: explained,
		})
	}
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
// time. That a rank comes late since it computes longer is an effect of that.
func Folded(list []Finding) (causes []Finding) {
	for _, f := range list {
		i := slices.IndexFunc(causes, func(c Finding) bool { return c.includes(&f) || f.includes(&c) })
		switch {
		case i < 0:
			causes = append(causes, f)
		case causes[i].includes(&f):
			c := &causes[i]
			if c.Effects = append(c.Effects, f); KindOf(c.Kind).Ranks && c.Cause != "" && c.Cause == f.Cause {
				c.Try = f.Try // that of the cause
			}
		default:
			f.Effects = append(f.Effects, causes[i])
			causes[i] = f
		}
	}
	return causes
}

// includes reports whether a finding has the cause of a later one, or is it.
func (f *Finding) includes(of *Finding) bool {
	x := f.Explanation(of)
	switch {
	case f.Cause != "" && f.Cause == of.Cause && f.Process == of.Process:
		return true
	case x != nil:
		return x.Time > of.Cost/2
	}
	return f.Kind == imbalance && of.Kind == "straggling_rank" && of.Cause == "" && f.Process == of.Process &&
		f.Cost > of.Cost/2
}

// imbalance is the kind of a rank that computes longer than the others.
const imbalance = "compute_imbalance"

// WithoutTwice leaves out findings about idle GPUs of which another finding of the list has the idle time in its
// evidence.
func WithoutTwice(list []Finding) []Finding {
	return slices.DeleteFunc(list, func(f Finding) bool {
		return f.elsewhere && slices.ContainsFunc(list, func(o Finding) bool {
			return o.Process == f.Process && slices.Contains(explaining, o.Kind) && (o.GPU == nil || *o.GPU == *f.GPU)
		})
	})
}
