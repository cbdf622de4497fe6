package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Kinds of problems. diff --allow-KIND compares runs in spite of those that are no remarks.
const (
	Incomplete  = "incomplete"
	OtherGPU    = "gpu"
	OtherDriver = "driver"
	OtherMode   = "mode"
	OtherClocks = "clocks"    // a remark
	OtherTimes  = "order"     // a remark
	straggling  = "straggler" // a remark
)

// A Problem is a reason not to compare runs.
type Problem struct{ Kind, Text string }

// Refusal is the text of a problem that is no remark, with what to do about it.
func (p Problem) Refusal() string {
	return p.Text + "; --allow-" + p.Kind + " compares them nevertheless"
}

// Remark says that the problem is no reason to refuse a comparison, but maybe the reason for a difference.
func (p Problem) Remark() bool {
	return p.Kind == OtherClocks || p.Kind == OtherTimes || p.Kind == straggling
}

// problems finds what makes the figures of runs differ although the program is the same.
func problems(base, new []*Run) (all []Problem) {
	runs := slices.Concat(base, new)
	for _, r := range runs {
		for i := range r.Logs {
			if l := &r.Logs[i]; !l.Complete {
				why := figures.Shell("cudatrace", "info", l.Name)
				all = append(all, Problem{Incomplete, fmt.Sprintf("%s is not complete ('%s' says why)", l.Name, why)})
			}
		}
	}
	for _, c := range conditionsOfRuns {
		if text := differing(runs, c.what, c.of); text != "" {
			all = append(all, Problem{c.kind, text})
		}
	}
	if text := otherFunctions(runs); text != "" {
		all = append(all, Problem{OtherMode, text})
	}
	return slices.Concat(all, otherTimes(base, new), otherClocks(base, new), otherStragglers(base, new))
}

// conditionsOfRuns are what must be the same in all runs. A "" is not known.
var conditionsOfRuns = []struct {
	kind, what string
	of         func(*Run) string
}{
	{Incomplete, "ends of the program", func(r *Run) string {
		return r.said(func(l *stats.Log) string { return l.Ended })
	}},
	{OtherGPU, "GPUs", func(r *Run) string { return r.listed(func(l *stats.Log) []string { return l.GPUs }) }},
	{OtherDriver, "CUDA versions of the driver", func(r *Run) string {
		return r.said(func(l *stats.Log) string { return l.Driver })
	}},
	{OtherDriver, "releases of the driver", func(r *Run) string {
		return r.said(func(l *stats.Log) string { return l.Release })
	}},
	{OtherMode, "sources of the calls", func(r *Run) string {
		return r.said(func(l *stats.Log) string { return l.Calls })
	}},
	{OtherMode, "sources of the GPU work", func(r *Run) string {
		return r.said(func(l *stats.Log) string { return l.GPU })
	}},
	{OtherMode, "sources of the allocations", func(r *Run) string {
		return r.said(func(l *stats.Log) string { return l.Memory })
	}},
	{OtherMode, "recorded parts", func(r *Run) string {
		return r.said(func(l *stats.Log) string {
			if l.Schedule == "" {
				return "all"
			}
			return l.Schedule
		})
	}},
	{OtherMode, "filters", func(r *Run) string {
		return r.said(func(l *stats.Log) string {
			if l.Filtered {
				return "a part of the log"
			}
			return "all of the log"
		})
	}},
}

// revision is the commit of the program's folder, "" if it is not known or not one.
func (r *Run) revision() string {
	if all := r.words(func(l *stats.Log) []string { return []string{l.Revision} }); len(all) == 1 {
		return all[0]
	}
	return ""
}

// said lists the different words of a run's logs.
func (r *Run) said(of func(*stats.Log) string) string {
	return r.listed(func(l *stats.Log) []string { return []string{of(l)} })
}

func (r *Run) listed(of func(*stats.Log) []string) string { return strings.Join(r.words(of), ", ") }

func (r *Run) words(of func(*stats.Log) []string) (words []string) {
	for i := range r.Logs {
		words = append(words, of(&r.Logs[i])...)
	}
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(w string) bool { return w == "" })
}

// differing names the first two runs that differ, "" if none do.
func differing(runs []*Run, what string, of func(*Run) string) string {
	var first *Run
	for _, r := range runs {
		switch {
		case of(r) == "":
		case first == nil:
			first = r
		case of(r) != of(first):
			return fmt.Sprintf("different %s: %s has %s, %s has %s", what, first.Name, of(first), r.Name, of(r))
		}
	}
	return ""
}

// otherFunctions names functions that were probed in one run and not in another, "" if none were.
func otherFunctions(runs []*Run) string {
	var first *Run
	for _, r := range runs {
		switch {
		case len(r.Functions) == 0:
		case first == nil:
			first = r
		case !slices.Equal(r.Functions, first.Functions):
			missing, of := difference(r.Functions, first.Functions), first
			if missing == "" {
				missing, of = difference(first.Functions, r.Functions), r
			}
			return fmt.Sprintf("different probed functions: %s lacks %s", of.Name, missing)
		}
	}
	return ""
}

// difference lists what is in a and not in b, the first three.
func difference(a, b []string) string {
	const most = 3
	var only []string
	for _, name := range a {
		if _, ok := slices.BinarySearch(b, name); !ok {
			only = append(only, name)
		}
	}
	if len(only) > most {
		only = append(only[:most], fmt.Sprintf("and %d more", len(only)-most))
	}
	return strings.Join(only, ", ")
}
