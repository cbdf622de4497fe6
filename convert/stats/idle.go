package stats

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
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
	table: func(s *Sink, f Facts) *table.Table { return s.idleTable(f.Startup) },
}

// IdleCells is a row of idle.
type IdleCells struct {
	Name string `key:"name" title:"cause"`     // the cause
	What string `key:"what" title:"meanwhile"` // =
	GPU  uint32 `key:"gpu" title:"GPU" rank:"5" unit:"id"`
	// gaps with such time, and the time, in the [steady state](findings.md#start-up-and-steady-state) of the process whose
	// work ends the gaps; of the whole run with `--with-startup`, and where the steady state is not known
	Count uint64   `key:"count" title:"gaps" rank:"3"`
	Total uint64   `key:"total_ns" title:"total" rank:"1"` // =
	Share *float64 `key:"share" title:"share" rank:"2"`    // part of the idle time of the GPU
	// the longest such time in one gap, and when it begins (for "CPU launched late": when the gap begins); `null` where it
	// was in the start-up
	Max   *uint64 `key:"max_ns" title:"longest" rank:"6"`
	MaxAt *uint64 `key:"max_at_ns" title:"at" rank:"7" unit:"moment"` // =
	// `total_ns` lies between these in 19 of 20 cases; equal where it is [no estimate](threads.md#owners-of-idle-time)
	TotalLow  uint64 `key:"total_low_ns"`
	TotalHigh uint64 `key:"total_high_ns"` // =
}

// exact reports whether the total is no estimate.
func (r *IdleCells) exact() bool { return r.TotalLow == r.TotalHigh }

// idleWords are how people read the columns of which some values are estimates.
var idleWords = map[string]func(r *IdleCells) string{
	"count": (*IdleCells).count, "total_ns": (*IdleCells).TotalWords, "share": (*IdleCells).ShareWords,
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

// An idleRow is the idle time of a reason on a device.
type idleRow struct {
	count uint64
	total activity.Estimate
}

// idleTimes are the idle time of a device by reason.
type idleTimes map[activity.Reason]*idleRow

func (t idleTimes) add(idle *activity.Idle) {
	idle.Pool()
	for reason, r := range idle.Rows {
		t.count(reason, r.Count, r.Estimate())
	}
}

func (t idleTimes) join(more idleTimes) {
	for reason, r := range more {
		t.count(reason, r.count, r.total)
	}
}

func (t idleTimes) count(reason activity.Reason, gaps uint64, ns activity.Estimate) {
	row := t[reason]
	if row == nil {
		row = new(idleRow)
		t[reason] = row
	}
	row.count += gaps
	row.total.Add(ns)
}

// time is the time of all reasons, in ns.
func (t idleTimes) time() (ns uint64) {
	for _, r := range t {
		ns = sketch.Sum(ns, r.total.Time)
	}
	return ns
}

// byCause is the time by cause.
func (t idleTimes) byCause() (ns [activity.Causes]uint64) {
	for reason, r := range t {
		ns[reason.Cause] = sketch.Sum(ns[reason.Cause], r.total.Time)
	}
	return ns
}

// idleTimes returns the idle time of a device, of the start-up and of the steady state: what is not known is divided in
// each of them by itself, so that the time of a steady state is the same wherever it is shown. Where the two can't be
// told apart all is steady.
func (s *Sink) idleTimes(d *deviceRow) (starting, steady idleTimes) {
	starting, steady = make(idleTimes), make(idleTimes)
	for _, p := range d.Parts {
		var before, after activity.Idle
		if !p.Stages(s.beginning(p.Process), &before, &after) {
			clear(starting)
			clear(steady)
			steady.add(&d.Idle)
			return starting, steady
		}
		starting.add(&before)
		steady.add(&after)
	}
	return starting, steady
}

// steadyFrom is when the first steady state of the processes of a device begins.
func (s *Sink) steadyFrom(d *deviceRow) (at uint64) {
	at = timeline.Never
	for _, p := range d.Parts {
		at = min(at, s.beginning(p.Process))
	}
	return at
}

// idleTable returns the report of idle time by cause.
func (s *Sink) idleTable(startup bool) *table.Table {
	var list []IdleCells
	late, left := uint64(0), uint64(0)
	for _, d := range s.busy.sorted() {
		if late += d.Late; d.Late > 0 {
			continue
		}
		starting, times := s.idleTimes(d)
		if startup || len(times) == 0 { // a program that has but started up
			times.join(starting)
		} else {
			left = sketch.Sum(left, starting.time())
		}
		idle, from := times.time(), s.steadyFrom(d)
		for reason, r := range times {
			x := IdleCells{
				Name: causes[reason.Cause], What: reason.What, GPU: d.index, Count: r.count, Total: r.total.Time,
				Share: table.ShareOf(r.total.Time, idle), TotalLow: r.total.Low, TotalHigh: r.total.High,
			}
			if all := d.Idle.Rows[reason]; all.MaxAt >= from || startup || from >= d.Last {
				x.Max, x.MaxAt = &all.Longest, new(s.clock.since(all.MaxAt))
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
	t.Notes = note(late, "idle times")
	if left > 0 {
		t.Notes = append(t.Notes, "idle for "+figures.Duration(left)+" more in the start-up (--with-startup counts it)")
	}
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
