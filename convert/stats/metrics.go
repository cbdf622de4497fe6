package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metric"
)

// metrics is the report of sampled metrics, from the first GPU work to the last.
type metrics struct {
	clock *clock
	title func(gpu uint32) string
	sets  map[*timeline.MetricSet]*metricSet
	order []*metricSet
	users []timeline.GPUUser
}

// Thresholds of a percentage: the time below and above is told.
const (
	lowPercent  = 10
	highPercent = 80
)

// A metricSet has the values of a set.
type metricSet struct {
	*timeline.MetricSet
	coverage timeline.Coverage
	rows     []metricRow
	reasons  map[metric.Reason]uint64 // ns for which a reason lowered the clocks
	time     uint64                   // ns for which reasons are known
}

// A metricRow has the values of a metric.
type metricRow struct {
	values    sketch.Distribution // in steps of stepOf
	time      uint64              // ns that the values cover
	sum       float64             // of value times ns
	max       float64
	low, high uint64 // ns below and above the thresholds
}

func newMetrics(c *clock, title func(uint32) string) metrics {
	return metrics{clock: c, title: title, sets: make(map[*timeline.MetricSet]*metricSet)}
}

func (m *metrics) user(u *timeline.GPUUser) { m.users = append(m.users, *u) }

func (m *metrics) take(e *timeline.Samples) {
	k := m.sets[e.Set]
	if k == nil {
		k = &metricSet{MetricSet: e.Set, coverage: timeline.Coverage{Least: m.clock.start}, rows: make([]metricRow, len(e.Set.Metrics)), reasons: make(map[metric.Reason]uint64)}
		m.sets[e.Set], m.order = k, append(m.order, k)
	}
	for i := range e.List {
		s := &e.List[i]
		from, _ := k.coverage.Add(e.Set, s)
		if from, to := max(from, e.Work.Start), min(s.End, e.Work.End); from < to {
			k.add(s, to-from)
		}
	}
}

// add adds a sample that covers a time.
func (k *metricSet) add(s *timeline.Sample, ns uint64) {
	for i, v := range s.Values {
		switch {
		case math.IsNaN(v):
		case k.Metrics[i].Unit == metric.BitsOfReason:
			k.time += ns
			for _, r := range (metric.Reason(v) & metric.Throttling).List() {
				k.reasons[r] += ns
			}
		default:
			k.rows[i].add(&k.Metrics[i], v, ns)
		}
	}
}

func (r *metricRow) add(m *metric.Metric, v float64, ns uint64) {
	r.values.Add(uint64(max(0, math.Round(v*stepOf(m)))))
	if r.time == 0 || v > r.max {
		r.max = v
	}
	r.time += ns
	r.sum += v * float64(ns)
	if v < lowPercent {
		r.low += ns
	}
	if v > highPercent {
		r.high += ns
	}
}

// stepOf is the number of steps of a metric's unit in which its values are sorted.
func stepOf(m *metric.Metric) float64 {
	switch m.Unit {
	case metric.Percent:
		return 100
	case metric.Watt, metric.Celsius:
		return 1000
	}
	return 1
}

// cellUnits are the units of values in a table.
var cellUnits = map[metric.Unit]table.Unit{
	metric.Percent: table.OfPeak, metric.Bytes: table.Bytes, metric.BytesPerSec: table.ByteRate, metric.Hertz: table.Hertz,
	metric.Watt: table.Watt, metric.Celsius: table.Celsius, metric.Nanoseconds: table.Duration,
}

// table returns the report.
func (m *metrics) table() *table.Table {
	t := &table.Table{Name: "metrics", Title: "sampled metrics, from the first GPU work to the last"}
	t.Columns = []table.Column{
		name("metric"), column("metric", "", table.Text, 0), column("source", "source", table.Text, 4), id("gpu", "GPU", 2), id("pid", "process", 2), column("unit", "", table.Text, 0),
		duration("time_ns", "time", 5), column("mean", "mean", table.Number, 1), column("median", "median", table.Number, 2),
		column("p95", "p95", table.Number, 3), column("max", "max", table.Number, 6),
		column("below_share", fmt.Sprintf("below %d %%", lowPercent), table.Share, 4), column("above_share", fmt.Sprintf("above %d %%", highPercent), table.Share, 4),
	}
	slices.SortStableFunc(m.order, func(a, b *metricSet) int {
		return cmp.Or(cmp.Compare(sourcePlace[a.Source], sourcePlace[b.Source]), cmp.Compare(a.GPU, b.GPU))
	})
	for _, k := range m.order {
		for i := range k.rows {
			if k.rows[i].time > 0 {
				t.Rows = append(t.Rows, k.row(i))
			}
		}
		t.Rows = append(t.Rows, k.lowered()...)
	}
	t.Notes = m.notes()
	return t
}

// sourcePlace orders the sources of a GPU, then those of processes.
var sourcePlace = map[metric.Source]int{metric.PM: 1, metric.GPM: 2, metric.NVML: 3, metric.Host: 4}

// place are the cells that say where a set was measured.
func (k *metricSet) place() []any {
	if k.Process != nil {
		return []any{k.Title(), nil, uint64(k.Process.PID)}
	}
	return []any{k.Title(), uint64(k.GPU), nil}
}

// row is the row of a metric.
func (k *metricSet) row(i int) []any {
	r, m := &k.rows[i], &k.Metrics[i]
	unit := cellUnits[m.Unit]
	cell := func(v float64) any { return table.Cell{Value: v, Unit: unit} }
	percentile := func(p uint64) any { return cell(float64(r.values.Percentile(p)) / stepOf(m)) }
	var low, high any
	if m.Unit == metric.Percent && k.Process == nil {
		low, high = share(r.low, r.time), share(r.high, r.time)
	}
	return slices.Concat([]any{cmp.Or(m.Label, m.Name), m.Name}, k.place(), []any{text(m.Unit.String()), r.time,
		cell(r.sum / float64(r.time)), percentile(50), percentile(95), cell(r.max), low, high})
}

// lowered are the rows of what lowered the clocks: the time, and its share.
func (k *metricSet) lowered() (rows [][]any) {
	var reasons []metric.Reason
	for r := range k.reasons {
		reasons = append(reasons, r)
	}
	slices.Sort(reasons)
	for _, r := range reasons {
		mean := table.Cell{Value: 100 * float64(k.reasons[r]) / float64(k.time), Unit: table.OfPeak}
		rows = append(rows, slices.Concat([]any{"clocks lowered: " + r.String(), metric.NameReasons}, k.place(), []any{metric.Percent.String(), k.reasons[r], mean, nil, nil, nil, nil, nil}))
	}
	return rows
}

// notes say which other processes used the GPUs.
func (m *metrics) notes() (notes []string) {
	for _, u := range m.users {
		who := "a process outside the recording"
		if u.PID != 0 {
			who = fmt.Sprintf("process %d", u.PID)
		}
		if u.Name != "" {
			who += " (" + u.Name + ")"
		}
		notes = append(notes, fmt.Sprintf("%s was used by %s, too: the values are those of the whole GPU", m.title(u.GPU), who))
	}
	return notes
}
