package stats

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// causes are the names of the causes of idle time.
var causes = [activity.Causes]string{"CPU launched late", "dependency", "other work", "other"}

var idleReport = Report{
	Name: "idle", Title: "idle time of GPUs by its cause",
	needs: gpuWork, whyEmpty: "no idle time between GPU work",
	table: func(s *Sink, _ Facts) *table.Table { return s.idleTable() },
}

// IdleCells is a row of idle.
type IdleCells struct {
	Name  string   `key:"name" title:"cause"`     // the cause
	What  string   `key:"what" title:"meanwhile"` // =
	GPU   uint32   `key:"gpu" title:"GPU" rank:"5" unit:"id"`
	Count uint64   `key:"count" title:"gaps" rank:"3"`     // gaps with such time, and the time
	Total uint64   `key:"total_ns" title:"total" rank:"1"` // =
	Share *float64 `key:"share" title:"share" rank:"4"`    // part of the idle time of the GPU
	// the time in the [steady state](findings.md#start-up-and-steady-state) of the process whose work ends the gaps
	Steady *uint64 `key:"steady_ns" title:"after start-up" rank:"2"`
	// the longest such time in one gap, and when it begins (for "CPU launched late": when the gap begins)
	Max   uint64 `key:"max_ns" title:"longest" rank:"6"`
	MaxAt uint64 `key:"max_at_ns" title:"at" rank:"7" unit:"moment"` // =
	// `total_ns` lies between these in 19 of 20 cases; equal where it is [no estimate](threads.md#owners-of-idle-time)
	TotalLow   uint64  `key:"total_low_ns"`
	TotalHigh  uint64  `key:"total_high_ns"`  // =
	SteadyLow  *uint64 `key:"steady_low_ns"`  // likewise of `steady_ns`
	SteadyHigh *uint64 `key:"steady_high_ns"` // =
}

// exact reports whether the total is no estimate.
func (r *IdleCells) exact() bool { return r.TotalLow == r.TotalHigh }

// idleWords are how people read the columns of which some values are estimates.
var idleWords = map[string]func(r *IdleCells) string{
	"count": (*IdleCells).count, "total_ns": (*IdleCells).TotalWords,
	"share": (*IdleCells).ShareWords, "steady_ns": (*IdleCells).steady,
}

func (r *IdleCells) count() string {
	if r.exact() {
		return table.Words(r.Count, table.Number)
	}
	return figures.About(r.Count)
}

// TotalWords writes the total for people: its bounds where it is an estimate.
func (r *IdleCells) TotalWords() string {
	if r.exact() {
		return table.Words(r.Total, table.Duration)
	}
	return figures.Between(r.TotalLow, r.TotalHigh)
}

// ShareWords writes the share likewise.
func (r *IdleCells) ShareWords() string {
	if r.Share == nil || r.exact() {
		return table.WordsOf(r.Share, table.Share)
	}
	part := *r.Share / float64(r.Total) // of 1 ns
	return figures.SharesBetween(part*float64(r.TotalLow), min(1, part*float64(r.TotalHigh)))
}

func (r *IdleCells) steady() string {
	if r.Steady == nil || *r.SteadyLow == *r.SteadyHigh {
		return table.WordsOf(r.Steady, table.Duration)
	}
	return figures.Between(*r.SteadyLow, *r.SteadyHigh)
}

// An idleRow is the idle time of a reason on a device.
type idleRow struct {
	count         uint64
	total, steady activity.Estimate
}

// idleRows returns the idle time of a device by reason. What is not known is divided before and in the steady state of
// each process by itself, so that the time of a steady state is the same wherever it is shown.
func (s *Sink) idleRows(d *deviceRow) (rows map[activity.Reason]*idleRow, stages bool) {
	rows = make(map[activity.Reason]*idleRow)
	add := func(idle *activity.Idle, steady bool) {
		idle.Pool()
		for reason, r := range idle.Rows {
			row := rows[reason]
			if row == nil {
				row = new(idleRow)
				rows[reason] = row
			}
			row.count += r.Count
			if row.total.Add(r.Estimate()); steady {
				row.steady.Add(r.Estimate())
			}
		}
	}
	for _, p := range d.Parts {
		var before, steady activity.Idle
		if !p.Stages(s.findings.Steady(p.Process).From, &before, &steady) {
			clear(rows)
			add(&d.Idle, false)
			return rows, false
		}
		add(&before, false)
		add(&steady, true)
	}
	return rows, true
}

// idleTable returns the report of idle time by cause.
func (s *Sink) idleTable() *table.Table {
	var list []IdleCells
	late, gpus := uint64(0), s.busy.sorted()
	for _, d := range gpus {
		if late += d.Late; d.Late > 0 {
			continue
		}
		rows, stages := s.idleRows(d)
		idle := d.Last - d.First - d.Busy()
		for reason, r := range rows {
			all := d.Idle.Rows[reason]
			x := IdleCells{
				Name: causes[reason.Cause], What: reason.What, GPU: d.index,
				Count: r.count, Total: r.total.Time, Share: table.ShareOf(r.total.Time, idle),
				Max: all.Longest, MaxAt: s.clock.since(all.MaxAt), TotalLow: r.total.Low, TotalHigh: r.total.High,
			}
			if stages {
				x.Steady, x.SteadyLow, x.SteadyHigh = &r.steady.Time, &r.steady.Low, &r.steady.High
			}
			list = append(list, x)
		}
	}
	activity.SortEstimates(list,
		func(r IdleCells) activity.Estimate {
			return activity.Estimate{Time: r.Total, Low: r.TotalLow, High: r.TotalHigh}
		},
		func(a, b IdleCells) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.What, b.What), cmp.Compare(a.GPU, b.GPU))
		})
	t := table.Of(list)
	for key, words := range idleWords {
		t.Columns[t.Column(key)].Words = func(row table.Row) string { return words(row.Of.(*IdleCells)) }
	}
	if len(gpus) > 1 {
		t.SetRank(1, "gpu")
	}
	t.Notes = note(late, "idle times")
	return t
}

// idleSteady returns the idle time of the GPUs of a process in its steady state, as far as its work ended it.
func (s *Sink) idleSteady(of *timeline.Process) (all []findings.SteadyIdle) {
	for _, d := range s.busy.sorted() {
		for _, p := range d.Parts {
			var before, steady activity.Idle
			if p.Process == of && d.Late == 0 && p.Stages(s.findings.Steady(of).From, &before, &steady) {
				steady.Pool()
				all = append(all, findings.SteadyIdle{GPU: d.index, Rows: slices.Collect(maps.Values(steady.Rows))})
			}
		}
	}
	return all
}
