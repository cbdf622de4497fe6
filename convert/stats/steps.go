package stats

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/steps"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// mostMeanwhile is the number of things that threads did while GPUs were idle.
const mostMeanwhile = 10

// madeOf returns what the GPUs of a process did from one mark to another: compute, exposed communication, copies and sets alone, and nothing.
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
	Keys: []Key{
		{"name, source", "the [NVTX ranges](#what-is-a-step) and `NVTX`; `profiled` and `cudaProfilerStart`; or `step` and the stream whose launches repeat"},
		{"confidence", "`certain` for ranges and profiled parts, `likely` for launches"},
		{"processes", "processes that have it: one, or the ranks"},
		{"count, total_ns", "steps and their time, without those of the [start-up](findings.md#start-up-and-steady-state) (unless there are no others) and those that began before the time of a filter"},
		{"starting", "steps of the start-up"},
		{"min_ns, median_ns, p5_ns, p95_ns, max_ns", "how the times differ"},
		{"slowest, slowest_at_ns, pid, rank", "number of the slowest step, its start, process and rank"},
		{"compute_ns, exposed_ns, copy_ns, idle_ns", "time in which the process's GPUs computed, communicated without computing, only copied or set memory, did nothing; `null` with a filter that leaves out GPU work"},
		{"meanwhile, meanwhile_ns", "lists: the ten longest things that launching threads did while the GPUs were idle, as in [`idle`](#idle), and their times; without idle time that ended with work of another process, or with none"},
		{"meanwhile_low_ns, meanwhile_high_ns", "bounds of `meanwhile_ns`, as in `idle`"},
		{"median_low_ns, median_high_ns", "[interval](#times) of `median_ns`"},
	},
}

func (s *Sink) stepKinds(whole bool) *table.Table {
	t := &table.Table{Prose: stepLines, Columns: []table.Column{
		name("step"), column("source", "", table.Text, 0), column("confidence", "", table.Text, 0), count("processes", "", 0), count("count", "", 0), count("starting", "", 0),
		duration("total_ns", "", 0), duration("min_ns", "", 0), duration("median_ns", "", 0), duration("p5_ns", "", 0), duration("p95_ns", "", 0), duration("max_ns", "", 0),
		id("slowest", "", 0), column("slowest_at_ns", "", table.Moment, 0), id("pid", "", 0), id("rank", "", 0),
		duration("compute_ns", "", 0), duration("exposed_ns", "", 0), duration("copy_ns", "", 0), duration("idle_ns", "", 0),
		column("meanwhile", "", table.Text, 0), duration("meanwhile_ns", "", 0),
		duration("meanwhile_low_ns", "", 0), duration("meanwhile_high_ns", "", 0),
	}}
	t.Columns = append(t.Columns, medianInterval()...)
	if no := s.steps.Unclaimed(); len(no) > 0 {
		t.Reason = strings.Join(no, "; ")
	}
	for _, r := range s.stepRows() {
		if r.covers < 1 || r.noLines {
			outside := ""
			if r.covers < 0.995 {
				outside = "; what lies outside is not in these figures"
			}
			if r.noLines {
				outside += "; that they are no parts of one call, such as layers of a forward pass, is not known"
			}
			t.Notes = append(t.Notes, fmt.Sprintf("steps: %s, %s of the GPU work%s", figures.Group(r.times.Count+r.starting), table.Words(r.covers, table.Share), outside))
		}
		made := make([]any, 8)
		if whole && !r.unknown {
			for i, ns := range r.made {
				made[i] = ns
			}
			if !r.noIdle {
				what, times := r.idle.Longest(mostMeanwhile)
				var list [3][]uint64
				for _, e := range times {
					list[0], list[1], list[2] = append(list[0], e.Time), append(list[1], e.Low), append(list[2], e.High)
				}
				made[4], made[5], made[6], made[7] = what, list[0], list[1], list[2]
			}
		}
		var rank any
		if r.of.Rank.Known {
			rank = uint64(r.of.Rank.Number)
		}
		d := &r.times
		t.Rows = append(t.Rows, slices.Concat([]any{r.name, r.source, Confidence(r.certain), r.processes, d.Count, r.starting, d.Total, d.Min, d.Percentile(50), d.Percentile(5), d.Percentile(95), d.Max,
			uint64(r.slowest.Number), s.clock.since(r.slowest.Start), uint64(r.of.PID), rank}, made, intervalOf(d)))
		if r.more > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s of %s are left out: there are more than %s", figures.Count(r.more, "step", "steps"), r.name, figures.Group(steps.Most)))
		}
	}
	return t
}

// Columns of step_kinds.
const (
	stepsSource = 1 + iota
	stepsConfidence
	stepsProcesses
	stepsCount
	stepsStarting
	stepsTotal
	stepsMin
	stepsMedian
	stepsP5
	stepsP95
	stepsMax
	stepsSlowest
	stepsSlowestAt
	stepsPID
	stepsRank
	stepsMade           // the first of four
	stepsMeanwhile      = stepsMade + 4
	stepsMeanwhileTimes = stepsMeanwhile + 1
)

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

func (s *Sink) stepRows() (rows []*stepsRow) {
	type key struct {
		name, source, run string
		alone             *timeline.Process
	}
	by := make(map[key]*stepsRow)
	for _, k := range s.steps.Found() {
		of := key{k.Name, k.Source, s.ranks.Process(k.Process).Run, k.Process}
		if k.Process.Rank.Known {
			of.alone = nil
		}
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
	Starting     bool      // it began in the start-up of the process, and later ones did not
	Made         [4]uint64 // what the GPUs of the process did in it: compute, exposed communication, copies and sets alone, nothing
	Known        bool      // Made is known
}

// Steps are the steps of all kinds, as far as they are kept. With gaps the timeline has some streams, threads, callers or names alone.
func (s *Sink) Steps(gaps bool) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for _, k := range s.steps.Found() {
			starting := s.starting(k)
			for i, p := range k.Parts {
				x := Step{Process: k.Process, Name: k.Name, Source: k.Source, Certain: k.Certain(), Number: p.Number, Start: p.Start, End: p.End, Starting: i < starting}
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

// starting returns the number of steps that begin in the start-up of the process, or before it is known, 0 if there are no others.
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

// stepLines are the lines that people read of a kind of step.
func stepLines(row []any) table.Paragraph {
	text := func(i int, u table.Unit) string { return table.Words(row[i], u) }
	of := " of process " + text(stepsPID, table.ID)
	slow := ""
	if row[stepsRank] != nil {
		of, slow = " on "+figures.Count(row[stepsProcesses].(uint64), "rank", "ranks"), " on rank "+text(stepsRank, table.ID)
	}
	time := fmt.Sprintf("median %s, %s to %s from the 5th to the 95th percentile", text(stepsMedian, table.Duration), text(stepsP5, table.Duration), text(stepsP95, table.Duration))
	if n := row[stepsStarting].(uint64); n > 0 {
		time += "; " + figures.Count(n, "step", "steps") + " of the start-up not counted"
	}
	items := []table.Item{{Label: "time", Text: time},
		{Label: "slowest", Text: fmt.Sprintf("%s %s%s at %s: %s", text(0, table.Text), text(stepsSlowest, table.ID), slow, text(stepsSlowestAt, table.Moment), text(stepsMax, table.Duration))}}
	if row[stepsMade] != nil {
		all := uint64(0)
		for _, v := range row[stepsMade : stepsMade+4] {
			all += v.(uint64)
		}
		var words []string
		for i, what := range []string{"compute", "exposed communication", "copies alone", "idle"} {
			if ns := row[stepsMade+i].(uint64); ns > 0 {
				words = append(words, what+" "+table.Words(table.ShareOf(ns, all), table.Share))
			}
		}
		items = append(items, table.Item{Label: "made of", Text: strings.Join(words, ", ")})
		if row[stepsMeanwhile] != nil && row[stepsMade+3].(uint64) > 0 {
			items = append(items, table.Item{Label: "idle", Text: meanwhile(row, all)})
		}
	}
	return table.Paragraph{Head: fmt.Sprintf("%s steps%s (%s, %s)", text(stepsCount, table.Number), of, text(stepsSource, table.Text), text(stepsConfidence, table.Text)), Items: items}
}

// meanwhile is what threads did while GPUs were idle for a part of some time.
func meanwhile(row []any, all uint64) string {
	const most = 4
	what, words, rest := row[stepsMeanwhile].([]string), []string(nil), row[stepsMade+3].(uint64)
	ns := row[stepsMeanwhileTimes].([]uint64)
	low, high := row[stepsMeanwhileTimes+1].([]uint64), row[stepsMeanwhileTimes+2].([]uint64)
	for i := range min(len(what), most) {
		if 100*ns[i] < all {
			continue
		}
		share := table.Words(table.ShareOf(ns[i], all), table.Share)
		if low[i] < high[i] {
			share = figures.SharesBetween(float64(low[i])/float64(all), min(1, float64(high[i])/float64(all)))
		}
		words, rest = append(words, what[i]+" "+share), rest-min(rest, ns[i])
	}
	if 1000*rest >= all {
		words = append(words, "other "+table.Words(table.ShareOf(rest, all), table.Share))
	}
	return strings.Join(words, ", ")
}
