package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/critical"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/steps"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// recordingName is the name of the step that a whole recording is.
const recordingName = "(recording)"

// Bounds of the paths that are looked for.
const (
	mostPaths = 1 << 12 // of a kind of step
	mostHops  = 1 << 24 // of all paths, but for the slowest step of each kind and the one of median length
)

var criticalPathReport = Report{
	Name: "critical_path", Title: "what the critical path of a step is made of",
	unasked: func(s *Sink) bool { return len(s.steps.Main()) > 0 },
	needs:   wholeWork, whyEmpty: "no calls and no GPU work",
	table: func(s *Sink, f Facts) *table.Table { return s.pathTable(f) },
	Keys: []Key{
		{"name", "what it is: the kernel or copy, the function, the line of the program, or what a thread waited for"},
		{"kind", "`kernel`, `communication`, `copy`, `set`: work ran. `start of work`: from its launch, or the end of what it waited for, to its start. `call`: a thread was in a call; `return`: from the end of the work that the call waited for to its return. `code`: a thread ran outside of calls. `blocked`: it was blocked. `no processor`: it was ready to run. `unknown`: the log does not tell"},
		{"place", "the line of the program, or the code, that launched the work or made the call; of time outside of calls that of the next call which has a line, or of the next call; `null` if unknown, and where `name` is a line"},
		{"on", "the thread, or the GPU; `null` for time between two things"},
		{"rank", "the rank of the process; `null` for none"},
		{"step", "the kind of step, as `name` of `step_kinds`; `(recording)` where there are no steps: from the first call to the last return"},
		{"count, total_ns", "segments of paths, and the time in them; [estimated](critical-path.md#what-is-seen-by-chance) for what is seen by chance, as are the numbers below"},
		{"share", "part of the paths of the step"},
		{"mean_ns", "the time in it in a step: the mean over `of_steps`, with 0 for steps without it. The means add up to a step of mean length"},
		{"steps, of_steps", "steps whose path has it, and all whose paths were found"},
		{"starting, starting_ns", "steps of the [start-up](findings.md#start-up-and-steady-state), of which no path is counted, and the time in them"},
		{"slowest_ns", "the time in it in the slowest step"},
		{"note", "what else explains when it began, or which thread waits for it"},
	},
}

// A pathKey is what time on paths has in common.
type pathKey struct {
	kind              critical.Kind
	by                timeline.Blocker
	name, place, also uint32
	thread            *timeline.Thread
	gpu               uint32 // and 1; 0 for none
	of                *timeline.Process
}

// A pathRow is time on the paths of a kind of step.
type pathRow struct {
	pathKey
	count, total, slowest, typical uint64
	longest, longestAt             uint64 // a segment
	now                            uint64 // in the step that is being looked at
	steps                          uint64 // that have it
}

// A poolKey is what time of threads outside of calls has in common, of which some is seen by chance and the rest is not.
type poolKey struct {
	kind   critical.Kind
	thread *timeline.Thread
	next   uint32 // place of the next call
}

// A pool is the rows of such time.
type pool struct {
	unseen, rows []*pathRow
	seen         []activity.Seen // of rows
	index        map[*pathRow]int
}

// add adds a segment of a row.
func (p *pool) add(r *pathRow, x *critical.Segment) {
	if x.Unseen {
		if !slices.Contains(p.unseen, r) {
			p.unseen = append(p.unseen, r)
		}
		return
	}
	i, known := p.index[r]
	if !known {
		i = len(p.rows)
		p.rows, p.seen, p.index[r] = append(p.rows, r), append(p.seen, activity.Seen{}), i
	}
	p.seen[i].Add(x.To-x.From, x.Weight)
}

// divide divides the time of which nothing was seen among the rows of what was, as the report of idle time does.
func (p *pool) divide() {
	var all activity.Seen
	for _, u := range p.unseen {
		all.Count += u.count
		all.Time += u.total
	}
	parts := activity.Divide(all, p.seen)
	for _, u := range p.unseen {
		left := float64(all.Time)
		for i, part := range parts {
			if part.Time > 0 {
				p.rows[i].take(u, float64(part.Time)/left)
				left -= float64(part.Time)
			}
		}
	}
}

// take takes a part of another row.
func (r *pathRow) take(from *pathRow, part float64) {
	for _, n := range [][2]*uint64{{&r.count, &from.count}, {&r.total, &from.total}, {&r.slowest, &from.slowest}, {&r.typical, &from.typical}, {&r.steps, &from.steps}} {
		taken := min(uint64(math.Round(part*float64(*n[1]))), *n[1])
		*n[0] += taken
		*n[1] -= taken
	}
}

// A path is a step whose path is wanted.
type path struct {
	kind *steps.Kind
	steps.Step
}

// A pathGroup is the steps of a kind: of a process, or of all ranks.
type pathGroup struct {
	name             string
	list             []path
	unkept           int              // steps of which not everything was kept
	starting         map[int64]uint64 // times of steps of the start-up of any rank, by number: they are left out
	rows             groups[pathKey, pathRow]
	total            uint64
	walked           int // steps whose paths were found
	slowest, typical *path
}

// paths returns the steps whose paths are wanted: of a step of several ranks that of the rank which took longest.
func (s *Sink) paths() (all []*pathGroup) {
	type key struct {
		name, source, run string
		alone             *timeline.Process
	}
	by, numbers := make(map[key]*pathGroup), make(map[key]map[int64]int)
	for _, k := range s.steps.Main() {
		of := key{k.Name, k.Source, s.ranks.Process(k.Process).Run, k.Process}
		if k.Process.Rank.Known {
			of.alone = nil
		}
		g := by[of]
		if g == nil {
			g = &pathGroup{name: k.Name, starting: make(map[int64]uint64)}
			by[of], numbers[of] = g, make(map[int64]int)
			all = append(all, g)
		}
		starting := s.starting(k)
		for _, p := range k.Parts[:starting] {
			if k.Process.Midway > 0 {
				break
			}
			g.starting[p.Number] = max(g.starting[p.Number], p.Length())
		}
		for _, p := range k.Parts[starting:] {
			if p.End > s.path.Until(k.Process) {
				g.unkept++
				continue
			}
			x := path{k, p}
			if i, known := numbers[of][p.Number]; !known {
				numbers[of][p.Number] = len(g.list)
				g.list = append(g.list, x)
			} else if x.Length() > g.list[i].Length() {
				g.list[i] = x
			}
		}
	}
	if len(all) == 0 && !s.steps.Named() {
		all = s.wholePaths()
	}
	for _, g := range all {
		g.list = slices.DeleteFunc(g.list, func(p path) bool { return g.starts(p.Step) })
	}
	return slices.DeleteFunc(all, func(g *pathGroup) bool { return len(g.list) == 0 })
}

// starts reports whether a rank starts up in a step: the others wait for it.
func (g *pathGroup) starts(p steps.Step) bool {
	_, known := g.starting[p.Number]
	return known
}

// wholePaths are the paths of processes without steps: from the first call to the last return.
func (s *Sink) wholePaths() (all []*pathGroup) {
	for _, p := range s.threads.processes {
		first, last, end := s.path.Last(p.Process)
		if first >= last {
			continue
		}
		g := &pathGroup{name: recordingName}
		g.list = []path{{steps.Whole(p.Process), steps.Step{Start: first, End: last, On: end.Thread}}}
		all = append(all, g)
	}
	return all
}

// choose keeps the slowest step, one of median length, and others at even distances.
func (g *pathGroup) choose() {
	sorted := slices.SortedStableFunc(slices.Values(g.list), func(a, b path) int { return cmp.Compare(a.Length(), b.Length()) })
	slowest, typical := sorted[len(sorted)-1], sorted[(len(sorted)-1)/2]
	each := len(g.list)/mostPaths + 1
	var kept []path
	for i, p := range g.list {
		if i%each == 0 || p == slowest || p == typical {
			kept = append(kept, p)
		}
	}
	slices.SortStableFunc(kept, func(a, b path) int { return cmp.Compare(a.Start, b.Start) })
	g.list = kept
	for i := range kept {
		if kept[i] == slowest && g.slowest == nil {
			g.slowest = &kept[i]
		}
		if kept[i] == typical && g.typical == nil {
			g.typical = &kept[i]
		}
	}
}

// walk finds the paths of the steps: first that of the slowest one and the one of median length, then the others, as far as hops last. Steps whose path
// was not looked for are dropped.
func (g *pathGroup) walk(c *critical.Collector, hops *int) {
	g.rows = newGroups(pathKey{name: c.Other()}, func(k pathKey) *pathRow { return &pathRow{pathKey: k} })
	order := []*path{g.slowest}
	if g.typical != g.slowest {
		order = append(order, g.typical)
	}
	for i := range g.list {
		if p := &g.list[i]; p != g.slowest && p != g.typical {
			order = append(order, p)
		}
	}
	g.walked = 0
	pools := newGroups(poolKey{}, func(poolKey) *pool { return &pool{index: make(map[*pathRow]int)} })
	for _, p := range order {
		if *hops <= 0 && g.walked >= 2 {
			break
		}
		g.walked++
		var seen []*pathRow
		*hops -= c.Path(p.Start, p.End, critical.End{Thread: p.On, Stream: p.kind.Stream}, func(x *critical.Segment) {
			k := pathKey{kind: x.Kind, by: x.By, name: x.Name, place: x.Place, also: x.Also, thread: x.Thread}
			switch {
			case x.Stream != nil:
				k.gpu, k.of = x.Stream.Context.GPU+1, x.Stream.Context.Process
			case x.Thread != nil:
				k.of = x.Thread.Process
			}
			r := g.rows.of(k)
			if r.now == 0 {
				seen = append(seen, r)
			}
			if r.pathKey == k && (x.Unseen || x.Weight > 0) { // what stands in the row of others is of many places
				pools.of(poolKey{x.Kind, x.Thread, x.Next}).add(r, x)
			}
			r.count++
			r.now += x.To - x.From
			if ns := x.To - x.From; ns > r.longest {
				r.longest, r.longestAt = ns, x.From
			}
		})
		for _, r := range seen {
			r.total += r.now
			r.steps++
			if p == g.slowest {
				r.slowest = r.now
			}
			if p == g.typical {
				r.typical = r.now
			}
			r.now = 0
		}
		g.total += p.Length()
	}
	for _, p := range pools.list {
		p.divide()
	}
	g.rows.list = slices.DeleteFunc(g.rows.list, func(r *pathRow) bool { return r.total == 0 })
	for _, r := range g.rows.list {
		r.count, r.steps = max(r.count, 1), min(max(r.steps, 1), uint64(g.walked))
	}
}

// pathTable returns the report of critical paths.
func (s *Sink) pathTable(f Facts) *table.Table {
	t := &table.Table{Columns: []table.Column{
		name("on the path"), column("kind", "kind", table.Text, 4), column("place", "place", table.Text, 6), column("on", "on", table.Text, 1), id("rank", "rank", 5), column("step", "", table.Text, 0),
		count("count", "", 0), duration("total_ns", "total", 4), column("share", "share", table.Share, 2),
		duration("mean_ns", "a step", 0), count("steps", "in steps", 3), count("of_steps", "", 0), duration("slowest_ns", "slowest", 3), column("note", "note", table.Text, 6), count("starting", "", 0), duration("starting_ns", "", 0),
	}}
	if f.Chosen || f.GPU != "" {
		return t
	}
	hops := mostHops
	for _, g := range s.paths() {
		all := len(g.list)
		g.choose()
		g.walk(s.path, &hops)
		for _, r := range g.rows.list {
			t.Rows = append(t.Rows, s.pathCells(g, r))
		}
		t.Notes = append(t.Notes, s.pathNotes(g)...)
		if n := len(g.starting); n > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s of the start-up not counted: %s", figures.Count(n, "step", "steps"), figures.Duration(g.startingTime())))
		}
		if g.walked < all {
			t.Notes = append(t.Notes, fmt.Sprintf("%s of %s were looked at", figures.Group(uint64(g.walked)), figures.Group(uint64(all))+" of "+g.name))
		}
		if g.unkept > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s of %s are left out: there are too many calls and too much work before them", figures.Count(g.unkept, "step", "steps"), g.name))
		}
	}
	for _, key := range []string{"place", "rank"} {
		if i := t.Column(key); slices.ContainsFunc(t.Rows, func(row []any) bool { return row[i] != nil }) {
			t.Columns[i].Rank = 0 // it tells rows apart
		}
	}
	t.Sort("total_ns")
	return t
}

func (s *Sink) pathCells(g *pathGroup, r *pathRow) []any {
	var on, rank any
	switch {
	case r.gpu > 0:
		on = fmt.Sprintf("GPU %d", r.gpu-1)
	case r.thread != nil:
		on = threadTitle(r.thread)
	}
	if r.of != nil && r.of.Rank.Known {
		rank = uint64(r.of.Rank.Number)
	}
	c := s.path
	return []any{c.Text(r.name), r.kind.String(), text(c.Text(r.place)), on, rank, g.name, r.count, r.total, table.ShareOf(r.total, g.total), float64(r.total) / float64(g.walked),
		r.steps, uint64(g.walked), r.slowest, text(c.Text(r.also)), uint64(len(g.starting)), g.startingTime()}
}

// startingTime is the time in steps of the start-up.
func (g *pathGroup) startingTime() (ns uint64) {
	for _, x := range g.starting {
		ns += x
	}
	return ns
}

func threadTitle(t *timeline.Thread) string {
	return cmp.Or(t.Title(), fmt.Sprintf("thread %d", t.TID))
}

// Limits of what a note names.
const (
	mostParts = 4
	leastPart = 0.05 // of the step
)

// pathNotes says in words what a step of median length and the slowest one are made of.
func (s *Sink) pathNotes(g *pathGroup) (notes []string) {
	if len(g.list) == 1 {
		return []string{s.pathWords(g, "", g.slowest, func(r *pathRow) uint64 { return r.slowest })}
	}
	notes = append(notes, s.pathWords(g, fmt.Sprintf(", the median of %s", figures.Group(uint64(g.walked))), g.typical, func(r *pathRow) uint64 { return r.typical }),
		s.pathWords(g, ", the slowest", g.slowest, func(r *pathRow) uint64 { return r.slowest }))
	var more []string
	least := (g.slowest.Length() - g.typical.Length()) / 10
	for _, r := range g.largest(func(r *pathRow) uint64 { return r.slowest - min(r.slowest, r.typical) }) {
		if d := r.slowest - min(r.slowest, r.typical); d > least && len(more) < mostParts {
			more = append(more, "+"+figures.Duration(d)+" "+s.pathName(g.slowest, r))
		}
	}
	if least > 0 && len(more) > 0 {
		notes = append(notes, "the slowest against the median: "+strings.Join(more, ", "))
	}
	return notes
}

func (g *pathGroup) largest(of func(*pathRow) uint64) []*pathRow {
	return slices.SortedStableFunc(slices.Values(g.rows.list), func(a, b *pathRow) int { return cmp.Compare(of(b), of(a)) })
}

// pathWords says what a step is made of.
func (s *Sink) pathWords(g *pathGroup, which string, p *path, of func(*pathRow) uint64) string {
	head := g.name
	if g.name != recordingName {
		head = fmt.Sprintf("%s %d", g.name, p.Number)
	}
	if r := p.kind.Process.Rank; r.Known {
		head += " on " + r.String()
	}
	var parts []string
	left := p.Length()
	for _, r := range g.largest(of) {
		ns := of(r)
		if len(parts) == mostParts || float64(ns) < leastPart*float64(p.Length()) {
			break
		}
		parts = append(parts, figures.Duration(ns)+" "+s.pathName(p, r))
		left -= min(left, ns)
	}
	if left > 0 {
		parts = append(parts, figures.Duration(left)+" other things")
	}
	return fmt.Sprintf("%s%s, %s: %s", head, which, figures.Duration(p.Length()), strings.Join(parts, ", "))
}

// longestPathName is the length of the names in notes.
const longestPathName = 60

// pathName names time on the path of a step, with where it is if that is another thread than the step's, or another rank.
func (s *Sink) pathName(p *path, r *pathRow) string {
	name := figures.Cut(s.path.Text(r.name), longestPathName)
	if place := s.path.Text(r.place); place != "" {
		name += " (" + figures.Cut(place, longestPathName) + ")"
	}
	switch {
	case r.of != nil && r.of != p.kind.Process && r.of.Rank.Known:
		name += " on " + r.of.Rank.String()
	case r.thread != nil && r.thread != p.On && (p.On != nil || !r.thread.Main):
		name += " on " + threadTitle(r.thread)
	}
	return name
}

// onPath is the least part of the paths of a kind of step that one cause has in a finding.
const onPath = 0.1

// An avoidable cause of time on paths, with a remedy of its own.
type avoidable struct {
	kind critical.Kind
	name uint32
	of   *timeline.Process // where it is: a rank at most
}

// pathFindings finds what has a large part in the paths of steps, and could be avoided: waiting for a processor, for what blocks a thread, for
// copies.
func (s *Sink) pathFindings() (list []findings.Finding) {
	hops := mostHops
	for _, g := range s.paths() {
		if g.name == recordingName || len(g.list) < steps.Least {
			continue
		}
		n := len(g.list)
		g.choose()
		g.walk(s.path, &hops)
		by := make(map[avoidable][]*pathRow)
		var order []avoidable
		for _, r := range g.largest(func(r *pathRow) uint64 { return r.total }) {
			if remedyOf(r) == "" || s.path.Text(r.name) == activity.NoReason { // that is many causes, and none of them known
				continue
			}
			k := avoidable{r.kind, r.name, r.of}
			if by[k] == nil {
				order = append(order, k)
			}
			by[k] = append(by[k], r)
		}
		for _, k := range order {
			f := s.pathFinding(g, by[k])
			steady := s.findings.Steady(f.Process)
			if all := steady.To - steady.From; float64(f.Cost) >= onPath*float64(g.total) && s.findings.Limits().Worth(f.Cost, all) {
				f.Cost = min(uint64(float64(f.Cost)*float64(n)/float64(g.walked)), all)
				f.Share = float64(f.Cost) / float64(all)
				list = append(list, f)
			}
		}
	}
	return list
}

// remedyOf is what to try about time on a path, "" for what nobody can avoid, or has findings of its own.
func remedyOf(r *pathRow) string {
	switch r.kind {
	case critical.NoCPU:
		return findings.Remedy(activity.WaitedForCPU, 0)
	case critical.Blocked:
		return findings.Remedy(activity.Waited, r.by)
	case critical.Copy:
		return "copy ahead, on a stream of its own and with pinned memory, so that kernels run meanwhile; or leave the data on the GPU"
	}
	return ""
}

// pathFinding is the finding about one cause.
func (s *Sink) pathFinding(g *pathGroup, rows []*pathRow) findings.Finding {
	f := findings.Finding{Kind: findings.OnPath, Process: g.slowest.kind.Process, First: g.list[0].Start, Last: g.list[0].End, Try: remedyOf(rows[0])}
	if rows[0].of != nil {
		f.Process = rows[0].of
	}
	for _, p := range g.list {
		f.First, f.Last = min(f.First, p.Start), max(f.Last, p.End)
	}
	var places []string
	steps := uint64(0)
	for _, r := range slices.SortedStableFunc(slices.Values(rows), func(a, b *pathRow) int { return cmp.Compare(b.longest, a.longest) }) {
		f.Cost += r.total
		f.Count += r.count
		steps = max(steps, r.steps)
		if len(f.At) < 3 {
			f.At = append(f.At, r.longestAt)
		}
		if place := s.path.Text(r.place); place != "" && len(places) < 2 {
			places = append(places, place)
		}
	}
	name := strings.Trim(s.path.Text(rows[0].name), "()")
	if of := rows[0].of; of != nil && of.Rank.Known {
		if strings.Contains(name, ", ") {
			name += ","
		}
		name += " on " + of.Rank.String()
	}
	f.Title = fmt.Sprintf("%s of the critical path of %s: %s", table.Words(float64(f.Cost)/float64(g.total), table.Share), g.name, name)
	f.Evidence = fmt.Sprintf("the path of %s takes %s", figures.Count(g.walked, "step", "steps"), figures.Duration(g.total))
	if 2*steps < uint64(g.walked) {
		atLeast := ""
		if len(rows) > 1 {
			atLeast = "at least "
		}
		f.Evidence += fmt.Sprintf(", this is in %s%d of them", atLeast, steps)
	}
	f.Evidence += "; " + s.pathWords(g, ", the slowest", g.slowest, func(r *pathRow) uint64 { return r.slowest })
	if len(places) > 0 {
		f.Evidence += "; before " + strings.Join(places, " and ")
	}
	return f
}
