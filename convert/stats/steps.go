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
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Limits of the steps.
const (
	leastSteps    = 3       // ranges of a kind that are steps
	mostSteps     = 1 << 16 // of a kind
	mostKinds     = 1 << 8
	stepDepth     = 3   // ranges within more others are no steps
	mostMeanwhile = 10  // things that threads did while GPUs were idle
	covering      = 0.5 // part of the time that ranges without a number cover, if they are steps
)

// steps are what programs repeat: NVTX ranges that bear a number or come again and again; where there are none, what lies between cudaProfilerStart and
// cudaProfilerStop, or the period of the launches.
type steps struct {
	named  bool // a person has said which ranges are steps
	mark   func(*timeline.Process, uint64)
	kinds  map[stepsKey]*stepKind
	list   []*stepKind
	open   map[*timeline.Track][]openStep
	on     map[*timeline.Process]*profiled
	room   int // pieces of work that may still be searched for periods
	worked []*streamRow
}

type stepsKey struct {
	process      *timeline.Process
	name, domain string
}

// A stepKind is steps of one kind.
type stepKind struct {
	stepsKey
	source   string
	sure     float64 // part of the steps that are as long as most, in launches; 1 for ranges
	numbered bool
	within   *stepKind        // the kind of the range around the first one
	stream   *timeline.Stream // of launches that repeat; nil for others
	parts    []aStep
	more     uint64 // steps that are not kept
}

type aStep struct {
	number     int64
	start, end uint64
	on         *timeline.Thread // nil for launches
}

// A profiled is what lies between the calls that start and stop profilers.
type profiled struct {
	stepKind
	since uint64 // the return of the call that started them; 0 while they are off
}

type openStep struct {
	kind   *stepKind // nil for what cannot be a step
	number int64
	start  uint64
	on     *timeline.Thread
}

func newSteps(mark func(*timeline.Process, uint64)) steps {
	return steps{mark: mark, kinds: make(map[stepsKey]*stepKind), open: make(map[*timeline.Track][]openStep), on: make(map[*timeline.Process]*profiled), room: allSearched}
}

func (s *steps) begin(e *timeline.SpanBegin) {
	if e.Track.Category != timeline.NVTX || e.Ranges == nil || e.Track.Process == nil {
		return
	}
	open := s.open[e.Track]
	s.open[e.Track] = append(open, openStep{start: e.Start, on: e.Ranges.Thread})
	o := &s.open[e.Track][len(open)]
	name, number := pattern.Stem(e.Name)
	numbered := number != pattern.Counted
	switch {
	case s.named:
		if e.Ranges.Step == nil {
			return
		}
		number, numbered = e.Ranges.Step.Number, true
	case len(open) >= stepDepth || e.Ranges.NCCL != nil || e.Ranges.Domain == "NCCL" || !numbered && e.Ranges.Domain != "":
		return
	}
	if slices.ContainsFunc(e.Args, func(d timeline.Detail) bool { return d.Name == "unfinished" }) {
		return
	}
	key := stepsKey{e.Track.Process, name, e.Ranges.Domain}
	k := s.kinds[key]
	if k == nil {
		if len(s.list) >= mostKinds {
			return
		}
		k = &stepKind{stepsKey: key, source: "NVTX", sure: 1, numbered: numbered}
		if len(open) > 0 {
			k.within = open[len(open)-1].kind
		}
		s.kinds[key] = k
		s.list = append(s.list, k)
	}
	if len(k.parts) >= mostSteps {
		k.more++
		return
	}
	o.kind, o.number = k, number
	s.mark(key.process, e.Start)
}

func (s *steps) end(e *timeline.SpanEnd) {
	open := s.open[e.Track]
	if len(open) == 0 {
		return
	}
	o := open[len(open)-1]
	s.open[e.Track] = open[:len(open)-1]
	if o.kind != nil && e.Time > o.start && len(o.kind.parts) < mostSteps {
		o.kind.parts = append(o.kind.parts, aStep{o.number, o.start, e.Time, o.on})
		s.mark(o.kind.process, e.Time)
	}
}

// profiler takes a call that may start or stop profilers.
func (s *steps) profiler(on *timeline.Thread, sl *timeline.Slice, what cudaapi.Range) {
	if what != cudaapi.RangeStart && what != cudaapi.RangeStop {
		return
	}
	of := on.Process
	p := s.on[of]
	if p == nil {
		p = &profiled{stepKind: stepKind{stepsKey: stepsKey{process: of, name: "profiled"}, source: "cudaProfilerStart", sure: 1, numbered: true}}
		s.on[of] = p
	}
	switch {
	case what == cudaapi.RangeStart && p.since == 0:
		p.since = sl.End
		s.mark(of, p.since)
	case what == cudaapi.RangeStop && p.since > 0 && sl.Start > p.since && len(p.parts) >= mostSteps:
		p.since = 0
		p.more++
	case what == cudaapi.RangeStop && p.since > 0 && sl.Start > p.since:
		p.parts = append(p.parts, aStep{int64(len(p.parts)), p.since, sl.Start, on})
		p.since = 0
		s.mark(of, sl.Start)
	}
}

// work takes a piece of work of a stream.
func (s *steps) work(r *streamRow, w *timeline.Work) {
	if r.period == nil {
		r.period = new(period)
		s.worked = append(s.worked, r)
	}
	r.period.advance(w, &s.room, func(at uint64) { s.mark(r.Context.Process, at) })
}

// finish ends the search for periods. The times at the marks are not read yet.
func (s *steps) finish() {
	for _, r := range s.worked {
		if p := r.period; p.anchor == nil && !p.over {
			p.find(func(at uint64) { s.mark(r.Context.Process, at) })
		}
	}
}

// found returns the kinds of step, those of a process by their time.
func (s *steps) found() (all []*stepKind) {
	ranged := make(map[*timeline.Process]bool)
	for _, k := range s.list {
		if k.steps(s.named) {
			k.count()
			all, ranged[k.process] = append(all, k), true
		}
	}
	if s.named {
		return all
	}
	for _, r := range s.worked {
		if p := s.on[r.Context.Process]; p != nil && !ranged[p.process] && p.steps(false) {
			all, ranged[p.process] = append(all, &p.stepKind), true
		}
	}
	busiest := make(map[*timeline.Process]*streamRow)
	for _, r := range s.worked {
		if o := busiest[r.Context.Process]; !ranged[r.Context.Process] && (o == nil || r.workCount.time > o.workCount.time) {
			busiest[r.Context.Process] = r
		}
	}
	for _, r := range s.worked {
		if r != busiest[r.Context.Process] || len(r.period.bounds) <= leastPeriods || r.period.sure() < regular {
			continue
		}
		k := &stepKind{stepsKey: stepsKey{process: r.Context.Process, name: "step"}, source: fromLaunches + r.title(), sure: r.period.sure(), stream: r.Stream}
		for i, at := range r.period.bounds[1:] {
			k.parts = append(k.parts, aStep{int64(i), r.period.bounds[i], at, nil})
		}
		all = append(all, k)
	}
	return all
}

// steps reports whether ranges are steps: there are some, they do not lie within others that are, and they bear numbers or come one after the other.
func (k *stepKind) steps(named bool) bool {
	if named {
		return len(k.parts) > 0
	}
	for o := k.within; o != nil; o = o.within {
		if o != k && o.steps(false) {
			return false
		}
	}
	if len(k.parts) < leastSteps {
		return false
	}
	first, last, in := timeline.Never, uint64(0), activity.Cover{}
	slices.SortFunc(k.parts, func(a, b aStep) int { return cmp.Compare(a.start, b.start) })
	for _, p := range k.parts {
		first, last = min(first, p.start), max(last, p.end)
		in.Add(p.start, p.end)
	}
	return k.numbered || float64(in.Total) >= covering*float64(last-first)
}

// count numbers the steps from 0 where their names do not.
func (k *stepKind) count() {
	slices.SortFunc(k.parts, func(a, b aStep) int { return cmp.Compare(a.start, b.start) })
	seen := make(map[int64]bool)
	for _, p := range k.parts {
		seen[p.number] = true
	}
	if k.numbered && len(seen) == len(k.parts) {
		return
	}
	for i := range k.parts {
		k.parts[i].number = int64(i)
	}
}

// madeOf returns what the GPUs of a process did from one mark to another: compute, exposed communication, copies and sets alone, and nothing.
func (b *busy) madeOf(of *timeline.Process, from, to uint64) (made [4]uint64, known bool) {
	until := func(p *activity.Part, at uint64) (activity.Sum, bool) {
		switch {
		case at <= p.First:
			return activity.Sum{}, true
		case at >= p.Last:
			return p.Times().Until(p.Last), true
		}
		return p.Until(at)
	}
	for _, d := range b.sorted() {
		for _, p := range d.Parts {
			if p.Process != of || p.First > p.Last {
				continue
			}
			first, before := until(p, from)
			last, after := until(p, to)
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
		{"name, source", "the kind of step: the name of the [NVTX ranges](#what-is-a-step), and `NVTX`; or `profiled`, and `cudaProfilerStart`; or `step`, and the stream on which the launches repeat"},
		{"confidence", "`certain` for ranges and profiled parts, `likely` for launches"},
		{"processes", "the processes that have it: one, or the ranks"},
		{"count, total_ns", "steps, and the time in them. Steps of the [start-up](findings.md#start-up-and-steady-state) count in `starting` alone, unless there are no others"},
		{"starting", "steps that began in the start-up"},
		{"min_ns, median_ns, p5_ns, p95_ns, max_ns", "how the times differ"},
		{"slowest, slowest_at_ns, pid, rank", "the number of the step that took longest, when it began, and its process; `rank` is `null` for no rank"},
		{"compute_ns, exposed_ns, copy_ns, idle_ns", "what the GPUs of the process did in the steps: they computed, communicated without computing, copied or set memory and did nothing else, or did nothing; `null` where it is not known, as with a filter that leaves out GPU work"},
		{"meanwhile, meanwhile_ns", "lists: what the launching threads did while the GPUs were idle, as in [`idle`](#idle), the ten that took longest, and the times. The rest of `idle_ns` is shorter ones, and idle time that ended with work of another process, or with none; `null` where it is not known"},
		{"median_low_ns, median_high_ns", "how sure `median_ns` is"},
	},
}

func (s *Sink) stepKinds(whole bool) *table.Table {
	t := &table.Table{Prose: stepLines, Columns: []table.Column{
		name("step"), column("source", "", table.Text, 0), column("confidence", "", table.Text, 0), count("processes", "", 0), count("count", "", 0), count("starting", "", 0),
		duration("total_ns", "", 0), duration("min_ns", "", 0), duration("median_ns", "", 0), duration("p5_ns", "", 0), duration("p95_ns", "", 0), duration("max_ns", "", 0),
		id("slowest", "", 0), column("slowest_at_ns", "", table.Moment, 0), id("pid", "", 0), id("rank", "", 0),
		duration("compute_ns", "", 0), duration("exposed_ns", "", 0), duration("copy_ns", "", 0), duration("idle_ns", "", 0),
		column("meanwhile", "", table.Text, 0), duration("meanwhile_ns", "", 0),
	}}
	t.Columns = append(t.Columns, medianInterval()...)
	for _, r := range s.stepRows() {
		made := make([]any, 6)
		if whole && !r.unknown {
			for i, ns := range r.made {
				made[i] = ns
			}
			if !r.noIdle {
				made[4], made[5] = r.idle.Longest(mostMeanwhile)
			}
		}
		var rank any
		if r.of.Rank.Known {
			rank = uint64(r.of.Rank.Number)
		}
		d := &r.times
		t.Rows = append(t.Rows, slices.Concat([]any{r.name, r.source, Confidence(r.certain), r.processes, d.Count, r.starting, d.Total, d.Min, d.Percentile(50), d.Percentile(5), d.Percentile(95), d.Max,
			uint64(r.slowest.number), s.clock.since(r.slowest.start), uint64(r.of.PID), rank}, made, intervalOf(d)))
		if r.more > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s of %s are left out: there are more than %s", figures.Count(r.more, "step", "steps"), r.name, figures.Group(uint64(mostSteps))))
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
	processes      uint64
	times          sketch.Ordered
	starting, more uint64
	slowest        aStep
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
	for _, k := range s.steps.found() {
		of := key{k.name, k.source, s.ranks.Process(k.process).Run, k.process}
		if k.process.Rank.Known {
			of.alone = nil
		}
		r := by[of]
		if r == nil {
			r = &stepsRow{name: k.name, source: k.source, certain: k.certain()}
			by[of] = r
			rows = append(rows, r)
		}
		s.addSteps(r, k)
	}
	slices.SortStableFunc(rows, func(a, b *stepsRow) int { return cmp.Compare(b.times.Total, a.times.Total) })
	return rows
}

// addSteps adds the steps of a process. Those that begin in its start-up are counted alone, unless there are no others.
func (s *Sink) addSteps(r *stepsRow, k *stepKind) {
	starting := s.starting(k)
	r.processes++
	r.starting += uint64(starting)
	r.more += k.more
	for _, p := range k.parts[starting:] {
		r.times.Add(p.end - p.start)
		if r.of == nil || p.end-p.start > r.slowest.end-r.slowest.start {
			r.slowest, r.of = p, k.process
		}
		made, known := s.busy.madeOf(k.process, p.start, p.end)
		r.unknown = r.unknown || !known
		for i := range made {
			r.made[i] += made[i]
		}
		r.noIdle = !s.busy.idleOf(k.process, p.start, p.end, &r.idle) || r.noIdle
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
		for _, k := range s.steps.found() {
			starting := s.starting(k)
			for i, p := range k.parts {
				x := Step{Process: k.process, Name: k.name, Source: k.source, Certain: k.certain(), Number: p.number, Start: p.start, End: p.end, Starting: i < starting}
				if !gaps {
					x.Made, x.Known = s.busy.madeOf(k.process, p.start, p.end)
				}
				if !yield(x) {
					return
				}
			}
		}
	}
}

// certain reports whether what the steps are is known for certain.
func (k *stepKind) certain() bool { return !strings.HasPrefix(k.source, fromLaunches) }

// fromLaunches begins the source of steps that are periods.
const fromLaunches = "launches on "

// starting returns the number of steps that begin in the start-up of the process, 0 if there are no others.
func (s *Sink) starting(k *stepKind) int {
	steady := s.findings.Steady(k.process).From
	return max(slices.IndexFunc(k.parts, func(p aStep) bool { return p.start >= steady }), 0)
}

// stepTable returns the report of steps: of each process those of the kind with most time.
func (s *Sink) stepTable(whole bool) *table.Table {
	if !s.told {
		s.told = true
		for _, k := range s.steps.main() {
			for _, p := range k.parts {
				s.ranks.AddStep(k.process, k.name, p.number, p.start, p.end)
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

// main returns of each process the kind of step with most time.
func (s *steps) main() (list []*stepKind) {
	main := make(map[*timeline.Process]*stepKind)
	kinds := s.found()
	for _, k := range kinds {
		if o := main[k.process]; o == nil || k.time() > o.time() {
			main[k.process] = k
		}
	}
	return slices.DeleteFunc(kinds, func(k *stepKind) bool { return main[k.process] != k })
}

func (k *stepKind) time() (ns uint64) {
	for _, p := range k.parts {
		ns += p.end - p.start
	}
	return ns
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
			items = append(items, table.Item{Label: "idle", Text: meanwhile(row[stepsMeanwhile].([]string), row[stepsMeanwhileTimes].([]uint64), row[stepsMade+3].(uint64), all)})
		}
	}
	return table.Paragraph{Head: fmt.Sprintf("%s steps%s (%s, %s)", text(stepsCount, table.Number), of, text(stepsSource, table.Text), text(stepsConfidence, table.Text)), Items: items}
}

// meanwhile is what threads did while GPUs were idle for a part of some time.
func meanwhile(what []string, ns []uint64, idle, all uint64) string {
	const most = 4
	words, rest := []string(nil), idle
	for i := range min(len(what), most) {
		if 100*ns[i] < all {
			break
		}
		words, rest = append(words, what[i]+" "+table.Words(table.ShareOf(ns[i], all), table.Share)), rest-min(rest, ns[i])
	}
	if 1000*rest >= all {
		words = append(words, "other "+table.Words(table.ShareOf(rest, all), table.Share))
	}
	return strings.Join(words, ", ")
}
