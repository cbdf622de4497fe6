package diff

import (
	"cmp"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// An overall figure is one of a whole run. A NaN is not known.
type overall struct {
	name    string
	unit    table.Unit
	up      string // verdict about a larger figure
	down    string
	reports []string // that it is made of
	of      func(*Run) float64
	sum     bool // over the rows of a report
	ofStep  bool // a part of a whole run's figure, for each of its steps
}

// overalls are the overall figures. A test holds docs/diff.md against them.
var overalls = withSteps([]overall{
	{name: "cuda_time", unit: table.Duration, up: "slower", down: "faster", of: func(r *Run) float64 {
		return r.largest(func(l *stats.Log) uint64 { return l.CUDANS })
	}},
	sumOf("kernel_time", table.Duration, "kernels", "total_ns"),
	sumOf("kernel_count", table.Number, "kernels", "count"),
	sumOf("copy_time", table.Duration, "copies", "total_ns"),
	sumOf("copy_count", table.Number, "copies", "count"),
	sumOf("copy_bytes", table.Bytes, "copies", "bytes"),
	sumOf("set_time", table.Duration, "sets", "total_ns"),
	sumOf("set_count", table.Number, "sets", "count"),
	sumOf("busy_time", table.Duration, "devices", "busy_ns"),
	sumOf("idle_time", table.Duration, "devices", "idle_ns"),
	{name: "gpu_busy", unit: table.Share, up: "higher", down: "lower", reports: []string{"profile"},
		of: func(r *Run) float64 {
			return r.total("profile", "busy_ns") / r.total("profile", "span_ns")
		}},
	sumOf("call_time", table.Duration, "processes", "in_calls_ns"),
	sumOf("call_count", table.Number, "processes", "calls"),
	sumOf("failed_calls", table.Number, "processes", "failed"),
	sumOf("wait_time", table.Duration, "threads", "waiting_ns"),
	{name: "peak_memory", unit: table.Bytes, up: "more", down: "less", reports: []string{"memory"},
		of: func(r *Run) float64 {
			if r.withoutMemory() {
				return math.NaN()
			}
			return r.largest(func(l *stats.Log) uint64 { return l.PeakDevice })
		}},
	{name: stepTime, unit: table.Duration, up: "slower", down: "faster", reports: []string{stepKinds},
		of: func(r *Run) float64 {
			return r.ofSteps(median.column)
		}},
})

// stepTime is the figure of the time of a step.
const stepTime = "step_time"

// stepKinds is the report of the kinds of step.
const stepKinds = "step_kinds"

// ownTimes are the figures a step that the steps have themselves: their columns of step_kinds, of the steady state.
var ownTimes = map[string][]string{
	"step_busy_time": {"compute_ns", "exposed_ns", "copy_ns"},
	"step_idle_time": {"idle_ns"},
}

// withSteps adds each sum over a run as a figure a step.
func withSteps(all []overall) []overall {
	for _, o := range all {
		if !o.sum {
			continue
		}
		of := o.of
		o.name, o.reports, o.ofStep = "step_"+o.name, append([]string{stepKinds}, o.reports...), true
		o.of = func(r *Run) float64 { return of(r) / r.stepCount() }
		if own := ownTimes[o.name]; own != nil {
			o.reports = []string{stepKinds}
			o.of = func(r *Run) (mean float64) {
				for _, column := range own {
					mean += r.ofSteps(column) / r.ofSteps("count")
				}
				return mean
			}
		}
		all = append(all, o)
	}
	return all
}

// stepCount returns the number of steps of a run, without those of its start-up, which its figures leave out, too: of
// each rank, if it has ranks. It is NaN if no steps are known.
func (r *Run) stepCount() float64 { return r.ofSteps("count") / r.ofSteps("processes") }

// ofSteps returns the value of a column of the steps with most time, NaN if no steps are known.
func (r *Run) ofSteps(column string) float64 {
	all := r.reports[stepKinds]
	if all == nil || all.rows[r.steps] == nil {
		return math.NaN()
	}
	return all.value(r.steps, column)
}

// mainSteps returns the key of the kind of step with most time, "" if no steps are known.
func (r *Run) mainSteps() (main string) {
	all := r.reports[stepKinds]
	if all == nil {
		return ""
	}
	for _, key := range sortedKeys(all.rows) {
		if main == "" || all.value(key, total.column) > all.value(main, total.column) {
			main = key
		}
	}
	return main
}

// sameSteps reports whether all runs have one number of steps: figures a step then tell nothing that those of the run
// do not.
func (d *Diff) sameSteps() bool {
	counts := known(each(d.runs(), (*Run).stepCount))
	return len(counts) == 0 || constant(counts)
}

// sumOf is the sum of a column over all rows of a report.
func sumOf(name string, unit table.Unit, report, column string) overall {
	up, down := "more", "less"
	switch {
	case column == "total_ns":
		up, down = "slower", "faster"
	case unit == table.Number:
		down = "fewer"
	}
	return overall{name: name, unit: unit, sum: true, up: up, down: down, reports: []string{report},
		of: func(r *Run) float64 {
			return r.total(report, column)
		}}
}

func (o *overall) isTime() bool { return o.unit == table.Duration }

// isExact reports whether the figure is a count or bytes, where any difference is one.
func (o *overall) isExact() bool {
	return !o.ofStep && (o.unit == table.Number || o.unit == table.Bytes)
}

// exact reports whether any difference of a figure is one. The peak of memory that several threads allocate depends on
// their order, and is judged like a time.
func (d *Diff) exact(figure string, exact bool) bool {
	peak := figure == "peak_memory" || figure == "peak_bytes"
	return exact && !(peak && slices.ContainsFunc(d.runs(), func(r *Run) bool { return r.threads }))
}

// largest is the largest value of all logs of a run.
func (r *Run) largest(of func(*stats.Log) uint64) float64 {
	value := math.NaN()
	for i := range r.Logs {
		value = most(value, float64(of(&r.Logs[i])))
	}
	return value
}

// withoutGPU reports whether no log has GPU work because none was recorded.
func (r *Run) withoutGPU() bool {
	for i := range r.Logs {
		if r.Logs[i].GPU != "none" {
			return false
		}
	}
	return true
}

// withoutMemory reports whether nothing is known of allocated memory in any log.
func (r *Run) withoutMemory() bool {
	for i := range r.Logs {
		if l := &r.Logs[i]; l.Memory != "none" && (l.Memory != "" || l.GPU != "none") {
			return false
		}
	}
	return true
}

// ofCalls are the reports that need no GPU work.
var ofCalls = map[string]bool{"calls": true, "callers": true, "errors": true, "threads": true, "processes": true}

// lacks says why a run has no figures of a report, "" if it has.
func (r *Run) lacks(report string) string {
	switch {
	case r.reports[report] == nil:
		return "the report " + report + " is not in " + r.Name
	case report == stepKinds && len(r.reports[report].rows) == 0 && !r.withoutGPU():
		return r.Name + ": " + cmp.Or(r.reasons[report], "no steps are known")
	case len(r.reports[report].rows) > 0 || ofCalls[report]:
		return ""
	case report == "memory" && r.withoutMemory(), report != "memory" && r.withoutGPU():
		return r.Name + ": " + cmp.Or(r.reasons[report], "GPU work was not recorded")
	}
	return ""
}

// total sums a column over all rows of a report.
func (r *Run) total(report, column string) float64 {
	if r.lacks(report) != "" {
		return math.NaN()
	}
	all := r.reports[report]
	total := 0.0
	for key := range all.rows {
		total += all.value(key, column) // NaN if one is not known
	}
	return total
}
