package stats

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/internal/steps"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// mostMeanwhile is the number of things that threads did while GPUs were idle.
const mostMeanwhile = 10

// madeOf returns what the GPUs of a process did from one mark to another: compute, exposed communication, copies and
// sets alone, and nothing.
func (b *busy) madeOf(of *timeline.Process, from, to uint64) (made [4]uint64, known bool) {
	for _, d := range b.sorted() {
		for _, p := range d.Parts {
			if p.Process != of || p.First > p.Last {
				continue
			}
			first, before := p.Until(from)
			last, after := p.Until(to)
			if !before || !after || d.Late > 0 {
				return made, false
			}
			s := last.Less(first)
			idle := to - from - s.Busy
			for i, ns := range [4]uint64{s.Compute, s.Exposed(), s.Busy - s.Compute - s.Exposed(), idle} {
				made[i] += ns
			}
			known = true
		}
	}
	return made, known
}

// idleOf adds the idle time of the GPUs of a process from one mark to another, as far as the process ended it.
func (b *busy) idleOf(of *timeline.Process, from, to uint64, all *activity.Idle) (known bool) {
	known = true
	for _, d := range b.sorted() {
		for _, p := range d.Parts {
			if p.Process == of && p.First <= p.Last {
				known = p.Idle(from, to, all) && known
			}
		}
	}
	return known
}

var stepKindsReport = Report{
	Name: "step_kinds", Title: "what a step takes, and what it is made of",
	whyEmpty: "nothing that repeats is known to be a step",
	table:    func(s *Sink, f Facts) *table.Table { return s.stepKinds(!f.Chosen) },
}

// StepKindCells is a row of step_kinds.
type StepKindCells struct {
	// the [NVTX ranges](#what-is-a-step) and `NVTX`; `profiled` and `cudaProfilerStart`; or `step` and the stream whose
	// launches repeat
	Name       string `key:"name" title:"step"`
	Source     string `key:"source"`     // =
	Confidence string `key:"confidence"` // `certain` for ranges and profiled parts, `likely` for launches
	Processes  uint64 `key:"processes"`  // processes that have it: one, or the ranks
	// steps and their time, without those of the [start-up](findings.md#start-up-and-steady-state) (unless there are no
	// others) and those that began before the time of a filter
	Count     uint64  `key:"count"`
	Starting  uint64  `key:"starting"`                    // steps of the start-up
	Total     uint64  `key:"total_ns"`                    // as `count`
	Min       uint64  `key:"min_ns"`                      // how the times differ
	Median    uint64  `key:"median_ns"`                   // =
	P5        uint64  `key:"p5_ns"`                       // =
	P95       uint64  `key:"p95_ns"`                      // =
	Max       uint64  `key:"max_ns"`                      // =
	Slowest   int64   `key:"slowest" unit:"id"`           // number of the slowest step, its start, process and rank
	SlowestAt uint64  `key:"slowest_at_ns" unit:"moment"` // =
	PID       uint32  `key:"pid" unit:"id"`               // =
	Rank      *uint32 `key:"rank" unit:"id"`              // =
	// time in which the process's GPUs computed, communicated without computing, only copied or set memory, did nothing;
	// `null` with a filter that leaves out GPU work
	madeColumns
	// lists: the ten longest things that launching threads did while the GPUs were idle, as in [`idle`](#idle), and their
	// times; without idle time that ended with work of another process, or with none
	Meanwhile      []string `key:"meanwhile"`
	MeanwhileTimes []uint64 `key:"meanwhile_ns"`      // =
	MeanwhileLow   []uint64 `key:"meanwhile_low_ns"`  // bounds of `meanwhile_ns`, as in `idle`
	MeanwhileHigh  []uint64 `key:"meanwhile_high_ns"` // =
	medianInterval          // [interval](#times) of `median_ns`
}

func (s *Sink) stepKinds(whole bool) *table.Table {
	var rows []StepKindCells
	var notes []string
	for _, r := range s.stepRows() {
		if r.covers < 1 || r.noLines {
			notes = append(notes, r.coverage())
		}
		if r.more > 0 {
			left := figures.Count(r.more, "step", "steps")
			more := figures.Group(steps.Most)
			notes = append(notes, fmt.Sprintf("%s of %s are left out: there are more than %s", left, r.name, more))
		}
		d := &r.times
		x := StepKindCells{
			Name: r.name, Source: r.source, Confidence: Confidence(r.certain), Processes: r.processes,
			Count: d.Count, Starting: r.starting, Total: d.Total, Min: d.Min, Max: d.Max,
			Median: d.Percentile(50), P5: d.Percentile(5), P95: d.Percentile(95), medianInterval: intervalOf(d),
			Slowest: r.slowest.Number, SlowestAt: s.clock.since(r.slowest.Start), PID: r.of.PID, Rank: r.of.Rank.Nullable(),
		}
		if whole && !r.unknown {
			x.madeColumns = madeOf(&r.made)
			if !r.noIdle {
				x.idle(&r.idle)
			}
		}
		rows = append(rows, x)
	}
	t := table.Of(rows)
	t.Notes, t.Prose = notes, func(row table.Row) table.Paragraph { return row.Of.(*StepKindCells).lines() }
	if no := s.steps.Unclaimed(); len(no) > 0 {
		t.Reason = strings.Join(no, "; ")
	}
	return t
}

// coverage says which part of the GPU work the steps have.
func (r *stepsRow) coverage() string {
	outside := ""
	if r.covers < 0.995 {
		outside = "; what lies outside is not in these figures"
	}
	if r.noLines {
		outside += "; that they are no parts of one call, such as layers of a forward pass, is not known"
	}
	count, covers := figures.Group(r.times.Count+r.starting), table.Words(r.covers, table.Share)
	return fmt.Sprintf("steps: %s, %s of the GPU work%s", count, covers, outside)
}

// idle sets what threads did meanwhile.
func (x *StepKindCells) idle(idle *activity.Idle) {
	var times []activity.Estimate
	x.Meanwhile, times = idle.Longest(mostMeanwhile)
	for _, e := range times {
		x.MeanwhileTimes = append(x.MeanwhileTimes, e.Time)
		x.MeanwhileLow, x.MeanwhileHigh = append(x.MeanwhileLow, e.Low), append(x.MeanwhileHigh, e.High)
	}
}

// A stepsRow is steps of one name: of a process, or of all ranks.
type stepsRow struct {
	name, source   string
	certain        bool
	covers         float64 // least part of the GPU work of a process that the steps have; 1 for ranges
	noLines        bool    // see steps.Kind
	processes      uint64
	times          sketch.Ordered
	starting, more uint64
	slowest        steps.Step
	of             *timeline.Process // of the slowest step
	made           [4]uint64
	unknown        bool
	idle           activity.Idle
	noIdle         bool // idle is not known
}

// A stepsKey is what steps have in common that are told together: those of all ranks of a run, or of one process.
type stepsKey struct {
	name, source, run string
	alone             *timeline.Process // nil for ranks
}

func (s *Sink) stepsKey(k *steps.Kind) stepsKey {
	of := stepsKey{k.Name, k.Source, s.ranks.Process(k.Process).Run, k.Process}
	if k.Process.Rank.Known {
		of.alone = nil
	}
	return of
}

func (s *Sink) stepRows() (rows []*stepsRow) {
	by := make(map[stepsKey]*stepsRow)
	for _, k := range s.steps.Found() {
		of := s.stepsKey(k)
		r := by[of]
		if r == nil {
			r = &stepsRow{name: k.Name, source: k.Source, certain: k.Certain(), covers: 1}
			by[of] = r
			rows = append(rows, r)
		}
		s.addSteps(r, k)
	}
	slices.SortStableFunc(rows, func(a, b *stepsRow) int { return cmp.Compare(b.times.Total, a.times.Total) })
	return rows
}

// addSteps adds the steps of a process. Those that begin in its start-up are counted alone, unless there are no others.
func (s *Sink) addSteps(r *stepsRow, k *steps.Kind) {
	starting := s.starting(k)
	r.processes++
	if k.Process.Midway == 0 {
		r.starting += uint64(starting)
	}
	r.more += k.More
	if !k.Certain() {
		r.covers, r.noLines = min(r.covers, k.Covers), r.noLines || k.NoLines
	}
	for _, p := range k.Parts[starting:] {
		r.times.Add(p.End - p.Start)
		if r.of == nil || p.End-p.Start > r.slowest.End-r.slowest.Start {
			r.slowest, r.of = p, k.Process
		}
		made, known := s.busy.madeOf(k.Process, p.Start, p.End)
		r.unknown = r.unknown || !known
		for i := range made {
			r.made[i] += made[i]
		}
		r.noIdle = !s.busy.idleOf(k.Process, p.Start, p.End, &r.idle) || r.noIdle
	}
}

// A Step is a step of a process.
type Step struct {
	Process      *timeline.Process
	Name, Source string // as in step_kinds
	Certain      bool
	Number       int64
	Start, End   uint64
	Starting     bool // it began in the start-up of the process, and later ones did not
	// what the GPUs of the process did in it: compute, exposed communication, copies and sets alone, nothing
	Made  [4]uint64
	Known bool // Made is known
}

// Steps are the steps of all kinds, as far as they are kept. With gaps the timeline has some streams, threads, callers
// or names alone.
func (s *Sink) Steps(gaps bool) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for _, k := range s.steps.Found() {
			starting := s.starting(k)
			for i, p := range k.Parts {
				x := Step{
					Process: k.Process, Name: k.Name, Source: k.Source, Certain: k.Certain(), Number: p.Number,
					Start: p.Start, End: p.End, Starting: i < starting,
				}
				if !gaps {
					x.Made, x.Known = s.busy.madeOf(k.Process, p.Start, p.End)
				}
				if !yield(x) {
					return
				}
			}
		}
	}
}

// starting returns the number of steps that begin in the start-up of the process, or before it is known; 0 if there are
// no others.
func (s *Sink) starting(k *steps.Kind) int {
	begin := s.findings.Steady(k.Process).From
	if k.Process.Midway > 0 {
		begin = k.Process.Midway
	}
	return max(slices.IndexFunc(k.Parts, func(p steps.Step) bool { return p.Start >= begin }), 0)
}

// stepTable returns the report of steps: of each process those of the kind with most time.
func (s *Sink) stepTable(whole bool) *table.Table {
	if !s.told {
		s.told = true
		for _, k := range s.steps.Main() {
			for _, p := range k.Parts {
				s.ranks.AddStep(k.Process, k.Name, p.Number, p.Start, p.End)
			}
		}
	}
	return s.ranks.StepTable(func(of *timeline.Process, from, to uint64) (made [4]uint64, known bool) {
		if !whole {
			return made, false
		}
		return s.busy.madeOf(of, from, to)
	})
}

// lines are the lines that people read of a kind of step.
func (x *StepKindCells) lines() table.Paragraph {
	duration := func(ns uint64) string { return table.Words(ns, table.Duration) }
	of, slow := fmt.Sprintf(" of process %d", x.PID), ""
	if x.Rank != nil {
		of, slow = " on "+figures.Count(x.Processes, "rank", "ranks"), fmt.Sprintf(" on rank %d", *x.Rank)
	}
	time := fmt.Sprintf("median %s, %s to %s from the 5th to the 95th percentile",
		duration(x.Median), duration(x.P5), duration(x.P95))
	if x.Starting > 0 {
		time += "; " + figures.Count(x.Starting, "step", "steps") + " of the start-up not counted"
	}
	items := []table.Item{{Label: "slowest", Text: fmt.Sprintf("%s %d%s at %s: %s", figures.Clean(x.Name), x.Slowest, slow,
		table.Words(x.SlowestAt, table.Moment), duration(x.Max))}, {Label: "time", Text: time}}
	if x.Compute != nil {
		items = append(items, x.parts()...)
	}
	from := "from "
	if x.Confidence == Confidence(false) {
		from = "guessed from "
	}
	head := fmt.Sprintf("%s steps%s (%s%s)", figures.Group(x.Count), of, from, figures.Clean(x.Source))
	return table.Paragraph{Head: head, Items: items}
}

// parts are the lines that say what the GPUs did.
func (x *StepKindCells) parts() []table.Item {
	all := *x.Compute + *x.Exposed + *x.Copy + *x.Idle
	var words []string
	for _, part := range []struct {
		what string
		ns   *uint64
	}{{"compute", x.Compute}, {"exposed communication", x.Exposed}, {"copies alone", x.Copy}, {"idle", x.Idle}} {
		if *part.ns > 0 {
			words = append(words, part.what+" "+table.WordsOf(table.ShareOf(*part.ns, all), table.Share))
		}
	}
	items := []table.Item{{Label: "made of", Text: strings.Join(words, ", ")}}
	if x.Meanwhile != nil && *x.Idle > 0 {
		items = append(items, table.Item{Label: "idle", Text: x.meanwhile(all)})
	}
	return items
}

// meanwhile is what threads did while GPUs were idle for a part of some time.
func (x *StepKindCells) meanwhile(all uint64) string {
	const most = 4
	words, rest := []string(nil), *x.Idle
	for i, ns := range x.MeanwhileTimes[:min(len(x.Meanwhile), most)] {
		if 100*ns < all {
			continue
		}
		share := table.WordsOf(table.ShareOf(ns, all), table.Share)
		if low, high := x.MeanwhileLow[i], x.MeanwhileHigh[i]; low < high {
			share = figures.SharesBetween(float64(low)/float64(all), min(1, float64(high)/float64(all)))
		}
		words, rest = append(words, x.Meanwhile[i]+" "+share), rest-min(rest, ns)
	}
	if 1000*rest >= all {
		words = append(words, "other "+table.WordsOf(table.ShareOf(rest, all), table.Share))
	}
	return strings.Join(words, ", ")
}
