package diff

import (
	"cmp"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/diff/condition"
	"github.com/cudatrace/cudatrace/convert/stats"
)

// An overall figure is one of a whole run. A NaN is not known.
type overall struct {
	name    string
	unit    condition.Unit
	up      string // verdict about a larger figure
	down    string
	reports []string // that it is made of
	of      func(*Run) float64
}

// overalls are the overall figures. A test holds docs/diff.md against them.
var overalls = []overall{
	{"cuda_time", condition.Time, "slower", "faster", nil, func(r *Run) float64 { return r.largest(func(l *stats.Log) uint64 { return l.CUDANS }) }},
	sumOf("kernel_time", condition.Time, "kernels", "total_ns"),
	sumOf("kernel_count", condition.Number, "kernels", "count"),
	sumOf("copy_time", condition.Time, "copies", "total_ns"),
	sumOf("copy_count", condition.Number, "copies", "count"),
	sumOf("copy_bytes", condition.Bytes, "copies", "bytes"),
	sumOf("set_time", condition.Time, "sets", "total_ns"),
	sumOf("set_count", condition.Number, "sets", "count"),
	sumOf("busy_time", condition.Time, "devices", "busy_ns"),
	sumOf("idle_time", condition.Time, "devices", "idle_ns"),
	{"gpu_busy", condition.Share, "higher", "lower", []string{"devices"}, func(r *Run) float64 {
		return r.total("devices", "busy_ns") / r.total("devices", "span_ns")
	}},
	sumOf("call_time", condition.Time, "processes", "in_calls_ns"),
	sumOf("call_count", condition.Number, "processes", "calls"),
	sumOf("failed_calls", condition.Number, "processes", "failed"),
	sumOf("wait_time", condition.Time, "threads", "waiting_ns"),
	{"peak_memory", condition.Bytes, "more", "less", []string{"memory"}, func(r *Run) float64 {
		if r.withoutMemory() {
			return math.NaN()
		}
		return r.largest(func(l *stats.Log) uint64 { return l.PeakDevice })
	}},
}

// sumOf is the sum of a column over all rows of a report.
func sumOf(name string, unit condition.Unit, report, column string) overall {
	up, down := "more", "less"
	switch {
	case column == "total_ns":
		up, down = "slower", "faster"
	case unit == condition.Number:
		down = "fewer"
	}
	return overall{name, unit, up, down, []string{report}, func(r *Run) float64 { return r.total(report, column) }}
}

func (o *overall) isTime() bool { return o.unit == condition.Time }

// isExact says whether the figure is a count or bytes, where any difference is one.
func (o *overall) isExact() bool { return o.unit == condition.Number || o.unit == condition.Bytes }

// exact says whether any difference of a figure is one. The peak of memory that several threads allocate depends on their
// order, and is judged like a time.
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

// withoutGPU says whether no log has GPU work because none was recorded.
func (r *Run) withoutGPU() bool {
	for i := range r.Logs {
		if r.Logs[i].GPU != "none" {
			return false
		}
	}
	return true
}

// withoutMemory says whether nothing is known of allocated memory in any log.
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
