package stats

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/cudatrace/cudatrace/convert/sampled"
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
	used  map[uint32][]usedMemory // by GPU, in the order of time
}

// A usedMemory is how much memory of a GPU was in use from a sample on.
type usedMemory struct {
	at    uint64
	bytes float64
}

// mostUsed bounds the changes that are kept of a GPU.
const mostUsed = 1 << 16

// takeUsed keeps NVML's samples of the memory in use where it changes.
func (m *metrics) takeUsed(e *timeline.Samples) {
	i := slices.IndexFunc(e.Set.Metrics, func(x metric.Metric) bool { return x.Name == metric.NameMemoryUsed })
	if e.Set.Process != nil || e.Set.Source != metric.NVML || i < 0 {
		return
	}
	for k := range e.List {
		list, bytes := m.used[e.Set.GPU], e.List[k].Values[i]
		if n := len(list); bytes >= 0 && n < mostUsed && (n == 0 || list[n-1].bytes != bytes) {
			m.used[e.Set.GPU] = append(list, usedMemory{e.List[k].End, bytes})
		}
	}
}

// usedAt is how much memory of a GPU was in use at a time, by the latest sample before; ok is false if there is none.
func (m *metrics) usedAt(gpu uint32, at uint64) (bytes uint64, ok bool) {
	list := m.used[gpu]
	i := sort.Search(len(list), func(i int) bool { return list[i].at > at })
	if i == 0 || len(list) == mostUsed {
		return 0, false
	}
	return uint64(list[i-1].bytes), true
}

// A metricSet has the values of a set over the time of GPU work.
type metricSet struct {
	*sampled.Set
	coverage timeline.Coverage
}

func newMetrics(c *clock, title func(uint32) string) metrics {
	return metrics{clock: c, title: title, sets: make(map[*timeline.MetricSet]*metricSet),
		used: make(map[uint32][]usedMemory)}
}

func (m *metrics) user(u *timeline.GPUUser) { m.users = append(m.users, *u) }

func (m *metrics) countSamples(e *timeline.Samples) {
	m.takeUsed(e)
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
}

// metricCells is a row of metrics.
type metricCells struct {
	// metric; `clocks lowered: REASON` for the time in which the driver lowered the clocks
	Name   string  `key:"name" title:"metric"`
	Metric string  `key:"metric"`                                 // the source's name for it
	Source string  `key:"source" title:"source" rank:"4"`         // `PM sampling`, `GPM`, `NVML` or `host`
	GPU    *uint32 `key:"gpu" title:"GPU" rank:"2" unit:"id"`     // the GPU, or the process
	PID    *uint32 `key:"pid" title:"process" rank:"2" unit:"id"` // as `gpu`
	Unit   string  `key:"unit"`                                   // `%`, `B/s`, `Hz`, `W`, `°C`, `B`, `/s`, `ns` or `count`
	// time for which there are values; of `clocks lowered`, the time in which they were lowered
	Time uint64 `key:"time_ns" title:"time" rank:"5"`
	// mean over time; of `clocks lowered`, the share of the time, in %
	Mean   *table.Cell `key:"mean" title:"mean" rank:"1" unit:"number"`
	Median *table.Cell `key:"median" title:"median" rank:"2" unit:"number"` // of the samples; median and p95 within 1 %
	P95    *table.Cell `key:"p95" title:"p95" rank:"3" unit:"number"`       // =
	Max    *table.Cell `key:"max" title:"max" rank:"6" unit:"number"`       // =
	// share of the time with a value below 10 % and above 80 %; `null` for what is no percentage of a GPU
	Below *float64 `key:"below_share" rank:"4"`
	Above *float64 `key:"above_share" rank:"4"` // =
}

// table returns the report.
func (m *metrics) table() *table.Table {
	slices.SortStableFunc(m.order, func(a, b *metricSet) int { return a.Compare(b.Set) })
	var rows []metricCells
	for _, k := range m.order {
		rows = append(rows, setRows(k.Set)...)
	}
	t := table.Of(rows)
	t.Notes = m.notes()
	t.Columns[t.Column("below_share")].Title = fmt.Sprintf("below %d %%", sampled.LowPercent)
	t.Columns[t.Column("above_share")].Title = fmt.Sprintf("above %d %%", sampled.HighPercent)
	return t
}

// setRows are the rows of a set.
func setRows(k *sampled.Set) (rows []metricCells) {
	for i := range k.Rows {
		if k.Rows[i].Time > 0 {
			rows = append(rows, metricRow(k, i))
		}
	}
	for _, r := range k.Lowered() {
		x := rowAt(k, "clocks lowered: "+r.String(), metric.NameReasons)
		x.Unit, x.Time = metric.Percent.String(), k.Reasons[r]
		x.Mean = &table.Cell{Value: 100 * float64(k.Reasons[r]) / float64(k.Known), Unit: table.OfPeak}
		rows = append(rows, x)
	}
	return rows
}

// rowAt is a row of what a set measured, without values.
func rowAt(k *sampled.Set, name, of string) metricCells {
	x := metricCells{Name: name, Metric: of, Source: k.Title(), GPU: &k.GPU}
	if k.Process != nil {
		x.GPU, x.PID = nil, &k.Process.PID
	}
	return x
}

// metricRow is the row of a metric.
func metricRow(k *sampled.Set, i int) metricCells {
	r, m := &k.Rows[i], &k.Metrics[i]
	cell := func(v float64) *table.Cell { return new(MetricCell(v, m.Unit)) }
	x := rowAt(k, cmp.Or(m.Label, m.Name), m.Name)
	x.Unit, x.Time = m.Unit.String(), r.Time
	x.Mean, x.Median, x.P95, x.Max = cell(r.Mean()), cell(r.Percentile(50)), cell(r.Percentile(95)), cell(r.Max)
	if m.Unit == metric.Percent && k.Process == nil {
		x.Below, x.Above = table.ShareOf(r.Low, r.Time), table.ShareOf(r.High, r.Time)
	}
	return x
}

// MetricCell is a value of a metric in a table.
func MetricCell(v float64, u metric.Unit) table.Cell { return table.Cell{Value: v, Unit: cellUnits[u]} }

// notes say which other processes used the GPUs.
func (m *metrics) notes() (notes []string) {
	for _, u := range m.users {
		notes = append(notes, fmt.Sprintf("%s was used by %s, too: the values are those of the whole GPU", m.title(u.GPU),
			OtherProcess(u.PID, u.Name)))
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
