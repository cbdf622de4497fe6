package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// A moment is a time of the run to show call by call. Times are ns from the start of the recording.
type moment struct {
	title    string
	from, to uint64 // what is marked
	pid      uint32 // the timeline's own; 0 for all processes
	least    uint64 // of the time on either side to keep
	cut      bool   // its beginning is enough
	rest     bool   // it is no moment, but what there is room for
}

// Bounds of moments.
const (
	mostIdleRows = 5             // rows of idle that have a moment
	longMoment   = uint64(500e6) // of a gap or of a start-up, what lies behind this is not kept
	shortMoment  = uint64(100e3) // context of a moment, at least
	farMoment    = uint64(50e6)  // context of a moment, at most
	mostOfSteps  = 32            // further steps, for the map of steps and ranks
	mostRest     = 1000          // of a large page

	defaultBytes = 2 << 20 // of a page: a larger one is asked for, and may take longer
)

// moments are the times to keep, the most important one first: the typical and the slowest step, the worst case of
// each finding and of each cause of idle time, and with several ranks further steps, the slowest first; then, as far as
// so many bytes have room, the whole run, or in a large page more steps.
func (r *Report) moments(bytes int) (list []moment) {
	step := uint64(0)
	if r.Part != nil {
		list = append(list, moment{title: r.Part.Title, from: r.Part.From, to: r.Part.To})
		step = r.Part.To - r.Part.From
	}
	context := min(max(step, shortMoment), farMoment)
	_, kinds := table.Find[stats.StepKindCells](r.Tables)
	steps := r.steadySteps()
	if len(kinds) > 0 && len(steps) > 0 {
		x := slices.MaxFunc(steps, func(a, b *stats.StepCells) int { return cmp.Compare(a.Max, b.Max) })
		list = append(list, moment{title: "The slowest step: " + x.Name, from: x.At, to: x.At + x.Max})
	}
	for i := range list {
		list[i].least = (list[i].to - list[i].from) / 8
	}
	_, found := table.Find[stats.FindingCells](r.Tables)
	for i, x := range found {
		if m, ok := findingMoment(x); ok && i < maxFindings+maxMore {
			m.title, m.least = fmt.Sprintf("%d. %s", i+1, x.Title), max(context, (m.to-m.from)/2)
			list = append(list, m)
		}
	}
	_, idle := table.Find[stats.IdleCells](r.Tables)
	for _, x := range idle[:min(len(idle), mostIdleRows)] {
		if x.Max != nil && x.MaxAt != nil {
			list = append(list, moment{title: "Idle: " + x.What, from: *x.MaxAt, to: *x.MaxAt + *x.Max, least: context,
				pid: r.Overview.processOn(x.GPU), cut: true})
		}
	}
	slices.SortStableFunc(steps, func(a, b *stats.StepCells) int { return cmp.Compare(b.Max, a.Max) })
	if r.heat() != nil && len(steps) > 1 {
		fit := bytes / 3 / (r.slices()/len(steps)*sliceBytes + 1)
		for _, x := range steps[1:max(min(len(steps), fit, mostOfSteps), 1)] { // the slowest one is there
			list = append(list, moment{title: x.Name, from: x.At, to: x.At + x.Max, least: x.Max / 8})
		}
	}
	return append(list, r.rest(bytes, steps)...)
}

// slices is about the number of slices of the whole run.
func (r *Report) slices() (n int) {
	_, processes := table.Find[stats.ProcessCells](r.Tables)
	for _, x := range processes {
		n += int(2*x.Calls + x.Kernels) // a call has another one within it, or a line
	}
	return n
}

// rest is what there is room for beside moments.
func (r *Report) rest(bytes int, slowest []*stats.StepCells) (list []moment) {
	if r.slices()*2*sliceBytes < bytes {
		lanes, _ := r.Overview.lanes(mostPageLanes)
		last := uint64(0)
		for _, l := range lanes {
			last = max(last, r.Overview.since(l.bins[len(l.bins)-1].End))
		}
		return []moment{{title: "the rest of the run", to: last, rest: true}}
	}
	if bytes <= defaultBytes || len(slowest) == 0 {
		return nil
	}
	fit := bytes / 2 / (r.slices()/len(slowest)*sliceBytes + 1)
	for _, x := range slowest[:min(len(slowest), fit, mostRest)] {
		list = append(list, moment{title: "further steps", from: x.At, to: x.At + x.Max, least: x.Max / 50, rest: true})
	}
	return list
}

// findingMoment is the worst case of a finding, if it has a moment. A start-up is seen in the whole run.
func findingMoment(x *stats.FindingCells) (m moment, ok bool) {
	if len(x.At) == 0 {
		return m, false
	}
	m = moment{from: x.At[0], to: x.At[0] + x.Longest, pid: x.PID, cut: true}
	if x.Name == findings.Startup {
		m.to = x.Last
	}
	return m, true
}

// steadySteps are the steps of the kind with most time, without those of the start-up.
func (r *Report) steadySteps() []*stats.StepCells {
	_, kinds := table.Find[stats.StepKindCells](r.Tables)
	_, rows := table.Find[stats.StepCells](r.Tables)
	if len(kinds) > 0 && uint64(len(rows)) > kinds[0].Starting+1 {
		rows = rows[kinds[0].Starting:]
	}
	return rows
}

// windows are the times to read once more for moments, in the order of time. They do not overlap: what two moments have
// in common belongs to the more important one.
func windows(list []moment) (all []*window) {
	for i, m := range list {
		to := m.to
		if m.cut {
			to = min(to, m.from+longMoment)
		}
		pieces := []window{{from: m.from - min(m.from, m.least), to: to + m.least + 1}}
		for _, taken := range all {
			var rest []window
			for _, p := range pieces {
				before := window{from: p.from, to: min(p.to, taken.from)}
				after := window{from: max(p.from, taken.to), to: p.to}
				for _, piece := range []window{before, after} {
					if piece.from < piece.to {
						rest = append(rest, piece)
					}
				}
			}
			pieces = rest
		}
		for _, p := range pieces {
			p.focus, p.rank = min(max(m.from, p.from), p.to), i
			all = append(all, &p)
		}
	}
	slices.SortFunc(all, func(a, b *window) int { return cmp.Compare(a.from, b.from) })
	return all
}
