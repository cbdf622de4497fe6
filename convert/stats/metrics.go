package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/sampled"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/metric"
)

// metrics is the report of sampled metrics, from the first GPU work to the last.
type metrics struct {
	clock *clock
	title func(gpu uint32) string
	sets  map[*timeline.MetricSet]*metricSet
	order []*metricSet
	users []timeline.GPUUser

	ranges sampled.Ranges
}

// A metricSet has the values of a set over the time of GPU work.
type metricSet struct {
	*sampled.Set
	coverage timeline.Coverage
}

func newMetrics(c *clock, title func(uint32) string) metrics {
	return metrics{clock: c, title: title, sets: make(map[*timeline.MetricSet]*metricSet), ranges: sampled.NewRanges()}
}

func (m *metrics) user(u *timeline.GPUUser) { m.users = append(m.users, *u) }

func (m *metrics) countSamples(e *timeline.Samples) {
	if e.Set.Process == nil {
		m.ranges.Take(e, m.clock.start)
	}
	k := m.sets[e.Set]
	if k == nil {
		k = &metricSet{Set: sampled.New(e.Set), coverage: timeline.Coverage{Least: m.clock.start}}
		m.sets[e.Set], m.order = k, append(m.order, k)
	}
	for i := range e.List {
		s := &e.List[i]
		from, _ := k.coverage.Add(e.Set, s)
		if from, to := max(from, e.Work.Start), min(s.End, e.Work.End); from < to {
			k.Add(s.Values, to-from)
		}
	}
}

// cellUnits are the units of values in a table.
var cellUnits = map[metric.Unit]table.Unit{
	metric.Percent: table.OfPeak, metric.Bytes: table.Bytes, metric.BytesPerSec: table.ByteRate, metric.Hertz: table.Hertz,
	metric.Watt: table.Watt, metric.Celsius: table.Celsius, metric.Nanoseconds: table.Duration,
}

var metricsReport = Report{
	Name: "metrics", Title: "sampled metrics, from the first GPU work to the last",
	needs: gpuWork, whyEmpty: "no metrics were sampled while there was GPU work",
	table: func(s *Sink, _ Facts) *table.Table { return s.metrics.table() },
	Keys: []Key{
		{"name", "metric; `clocks lowered: REASON` for the time in which the driver lowered the clocks"},
		{"metric", "the source's name for it"},
		{"source", "`PM sampling`, `GPM`, `NVML` or `host`"},
		{"gpu, pid", "the GPU, or the process"},
		{"unit", "`%`, `B/s`, `Hz`, `W`, `°C`, `B`, `/s`, `ns` or `count`"},
		{"time_ns", "time for which there are values; of `clocks lowered`, the time in which they were lowered"},
		{"mean", "mean over time; of `clocks lowered`, the share of the time, in %"},
		{"median, p95, max", "of the samples; median and p95 within 1 %"},
		{"below_share, above_share", "share of the time with a value below 10 % and above 80 %; `null` for what is no percentage of a GPU"},
	},
}

// table returns the report.
func (m *metrics) table() *table.Table {
	t := new(table.Table)
	t.Columns = metricColumns()
	slices.SortStableFunc(m.order, func(a, b *metricSet) int { return a.Compare(b.Set) })
	for _, k := range m.order {
		t.Rows = append(t.Rows, setRows(k.Set)...)
	}
	t.Notes = m.notes()
	return t
}

// metricColumns are the columns of what setRows makes.
func metricColumns() []table.Column {
	return []table.Column{
		name("metric"), column("metric", "", table.Text, 0), column("source", "source", table.Text, 4), id("gpu", "GPU", 2), id("pid", "process", 2), column("unit", "", table.Text, 0),
		duration("time_ns", "time", 5), column("mean", "mean", table.Number, 1), column("median", "median", table.Number, 2),
		column("p95", "p95", table.Number, 3), column("max", "max", table.Number, 6),
		column("below_share", fmt.Sprintf("below %d %%", sampled.LowPercent), table.Share, 4), column("above_share", fmt.Sprintf("above %d %%", sampled.HighPercent), table.Share, 4),
	}
}

var nvtxMetricsReport = Report{
	Name: "nvtx_metrics", Title: "sampled metrics of GPUs while work of NVTX ranges ran", Detail: true,
	needs: gpuWork, whyEmpty: "no metrics were sampled while work of NVTX ranges ran",
	table: func(s *Sink, _ Facts) *table.Table { return s.metrics.rangeTable() },
	Keys: []Key{
		{"name, domain", "as in `nvtx`"},
		{"span_ns", "time of these ranges on the GPU"},
		{"label", "metric, as `name` in `metrics`"},
		{"time_ns, metric, source, gpu, unit, mean, median, p95, max, below_share, above_share", "as in `metrics`"},
	},
}

// rangeTable returns the report of the metrics of GPUs while work of NVTX ranges ran.
func (m *metrics) rangeTable() *table.Table {
	t := new(table.Table)
	columns := metricColumns()
	columns[0].Key = "label"
	t.Columns = slices.Concat([]table.Column{name("range"), column("domain", "domain", table.Text, 6), duration("span_ns", "", 0)}, columns)
	pid := t.Column("pid")
	t.Columns = slices.Delete(t.Columns, pid, pid+1)
	for _, p := range m.ranges.All() {
		for _, k := range p.Sets {
			for _, row := range setRows(k) {
				t.Rows = append(t.Rows, slices.Delete(slices.Concat([]any{p.Name.Name, text(p.Domain), p.Time}, row), pid, pid+1))
			}
		}
	}
	if t.Notes = m.notes(); m.ranges.Late > 0 {
		t.Notes = append(t.Notes, figures.Count(m.ranges.Late, "sample or piece of work", "samples and pieces of work")+" came too late in the log to be counted")
	}
	return t
}

// setRows are the rows of a set.
func setRows(k *sampled.Set) (rows [][]any) {
	for i := range k.Rows {
		if k.Rows[i].Time > 0 {
			rows = append(rows, metricRow(k, i))
		}
	}
	for _, r := range k.Lowered() {
		mean := table.Cell{Value: 100 * float64(k.Reasons[r]) / float64(k.Known), Unit: table.OfPeak}
		rows = append(rows, slices.Concat([]any{"clocks lowered: " + r.String(), metric.NameReasons}, place(k), []any{metric.Percent.String(), k.Reasons[r], mean, nil, nil, nil, nil, nil}))
	}
	return rows
}

// place are the cells that say where a set was measured.
func place(k *sampled.Set) []any {
	if k.Process != nil {
		return []any{k.Title(), nil, uint64(k.Process.PID)}
	}
	return []any{k.Title(), uint64(k.GPU), nil}
}

// metricRow is the row of a metric.
func metricRow(k *sampled.Set, i int) []any {
	r, m := &k.Rows[i], &k.Metrics[i]
	cell := func(v float64) any { return MetricCell(v, m.Unit) }
	var low, high any
	if m.Unit == metric.Percent && k.Process == nil {
		low, high = table.ShareOf(r.Low, r.Time), table.ShareOf(r.High, r.Time)
	}
	return slices.Concat([]any{cmp.Or(m.Label, m.Name), m.Name}, place(k), []any{text(m.Unit.String()), r.Time,
		cell(r.Mean()), cell(r.Percentile(50)), cell(r.Percentile(95)), cell(r.Max), low, high})
}

// MetricCell is a value of a metric in a table.
func MetricCell(v float64, u metric.Unit) table.Cell { return table.Cell{Value: v, Unit: cellUnits[u]} }

// notes say which other processes used the GPUs.
func (m *metrics) notes() (notes []string) {
	for _, u := range m.users {
		notes = append(notes, fmt.Sprintf("%s was used by %s, too: the values are those of the whole GPU", m.title(u.GPU), OtherProcess(u.PID, u.Name)))
	}
	return notes
}

// OtherProcess describes a process outside the recording. What is not known is 0 and "".
func OtherProcess(pid uint32, name string) string {
	who := "a process outside the recording"
	if pid != 0 {
		who = fmt.Sprintf("process %d", pid)
	}
	if name != "" {
		who += " (" + name + ")"
	}
	return who
}
