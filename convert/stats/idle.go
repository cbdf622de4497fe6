package stats

import (
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// causes are the names of the causes of idle time.
var causes = [activity.Causes]string{"launched late", "dependency", "other work", "other"}

var idleReport = Report{
	Name: "idle", Title: "idle time of GPUs by its cause",
	needs: gpuWork, whyEmpty: "no idle time between GPU work",
	table: func(s *Sink, _ Facts) *table.Table { return s.idleTable() },
	Keys: []Key{
		{"name, what", "the cause"},
		{"gpu", ""},
		{"count, total_ns", "gaps with such time, and the time"},
		{"share", "part of the idle time of the GPU"},
		{"steady_ns", "the time in the [steady state](findings.md#start-up-and-steady-state) of the process whose work ends the gaps"},
		{"max_ns, max_at_ns", "the longest such time in one gap, and when it begins (for \"launched late\": when the gap begins)"},
		{"total_low_ns, total_high_ns", "`total_ns` lies between these in 19 of 20 cases; equal where it is [no estimate](threads.md#owners-of-idle-time)"},
		{"steady_low_ns, steady_high_ns", "likewise of `steady_ns`"},
	},
}

// Columns of idle.
const (
	idleCount = 3 + iota
	idleTotal
	idleShare
	idleSteady
	idleMax
	idleMaxAt
	idleTotalLow
	idleTotalHigh
	idleSteadyLow
	idleSteadyHigh
)

// idleColumns are the columns of idle. People see estimates as intervals.
func idleColumns() []table.Column {
	between := func(ns, low int) func([]any) string {
		return func(row []any) string {
			if row[ns] == nil || row[low] == row[low+1] {
				return table.Words(row[ns], table.Duration)
			}
			return figures.Between(row[low].(uint64), row[low+1].(uint64))
		}
	}
	columns := []table.Column{
		name("cause"), column("what", "meanwhile", table.Text, 0), id("gpu", "GPU", 5), count("count", "gaps", 3),
		duration("total_ns", "total", 1), column("share", "share", table.Share, 4),
		duration("steady_ns", "steady state", 2),
		duration("max_ns", "longest", 6), column("max_at_ns", "at", table.Moment, 7),
		duration("total_low_ns", "", 0), duration("total_high_ns", "", 0),
		duration("steady_low_ns", "", 0), duration("steady_high_ns", "", 0),
	}
	columns[idleTotal].Words = between(idleTotal, idleTotalLow)
	columns[idleSteady].Words = between(idleSteady, idleSteadyLow)
	columns[idleCount].Words = func(row []any) string {
		if row[idleTotalLow] == row[idleTotalHigh] {
			return table.Words(row[idleCount], table.Number)
		}
		return figures.About(row[idleCount].(uint64))
	}
	columns[idleShare].Words = func(row []any) string {
		share, known := row[idleShare].(float64)
		if !known || row[idleTotalLow] == row[idleTotalHigh] {
			return table.Words(row[idleShare], table.Share)
		}
		part := share / float64(row[idleTotal].(uint64)) // of 1 ns
		low, high := row[idleTotalLow].(uint64), row[idleTotalHigh].(uint64)
		return figures.SharesBetween(part*float64(low), min(1, part*float64(high)))
	}
	return columns
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
	t := &table.Table{Columns: idleColumns()}
	late, gpus := uint64(0), s.busy.sorted()
	if len(gpus) > 1 {
		t.Columns[t.Column("gpu")].Rank = 1
	}
	for _, d := range gpus {
		if late += d.Late; d.Late > 0 {
			continue
		}
		rows, stages := s.idleRows(d)
		idle := d.Last - d.First - d.Busy()
		for reason, r := range rows {
			all, steady := d.Idle.Rows[reason], []any{nil, nil, nil}
			if stages {
				steady = []any{r.steady.Time, r.steady.Low, r.steady.High}
			}
			t.Rows = append(t.Rows, []any{causes[reason.Cause], reason.What, uint64(d.index), r.count,
				r.total.Time, table.ShareOf(r.total.Time, idle), steady[0], all.Longest, s.clock.since(all.MaxAt),
				r.total.Low, r.total.High, steady[1], steady[2]})
		}
	}
	activity.SortEstimates(t.Rows, func(row []any) activity.Estimate {
		total, low, high := row[idleTotal].(uint64), row[idleTotalLow].(uint64), row[idleTotalHigh].(uint64)
		return activity.Estimate{Time: total, Low: low, High: high}
	}, t.CompareNames)
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
