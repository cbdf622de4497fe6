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
}

// overalls are the overall figures. A test holds docs/diff.md against them.
var overalls = []overall{
	{"cuda_time", table.Duration, "slower", "faster", nil, func(r *Run) float64 { return r.largest(func(l *stats.Log) uint64 { return l.CUDANS }) }},
	sumOf("kernel_time", table.Duration, "kernels", "total_ns"),
	sumOf("kernel_count", table.Number, "kernels", "count"),
	sumOf("copy_time", table.Duration, "copies", "total_ns"),
	sumOf("copy_count", table.Number, "copies", "count"),
	sumOf("copy_bytes", table.Bytes, "copies", "bytes"),
	sumOf("set_time", table.Duration, "sets", "total_ns"),
	sumOf("set_count", table.Number, "sets", "count"),
	sumOf("busy_time", table.Duration, "devices", "busy_ns"),
	sumOf("idle_time", table.Duration, "devices", "idle_ns"),
	{"gpu_busy", table.Share, "higher", "lower", []string{"devices"}, func(r *Run) float64 {
		return r.total("devices", "busy_ns") / r.total("devices", "span_ns")
	}},
	sumOf("call_time", table.Duration, "processes", "in_calls_ns"),
	sumOf("call_count", table.Number, "processes", "calls"),
	sumOf("failed_calls", table.Number, "processes", "failed"),
	sumOf("wait_time", table.Duration, "threads", "waiting_ns"),
	{"peak_memory", table.Bytes, "more", "less", []string{"memory"}, func(r *Run) float64 {
		if r.withoutMemory() {
			return math.NaN()
		}
		return r.largest(func(l *stats.Log) uint64 { return l.PeakDevice })
	}},
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
	return overall{name, unit, up, down, []string{report}, func(r *Run) float64 { return r.total(report, column) }}
}

func (o *overall) isTime() bool { return o.unit == table.Duration }

// isExact reports whether the figure is a count or bytes, where any difference is one.
func (o *overall) isExact() bool { return o.unit == table.Number || o.unit == table.Bytes }

// exact reports whether any difference of a figure is one. The peak of memory that several threads allocate depends on their
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
