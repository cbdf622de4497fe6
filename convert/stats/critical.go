package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/steps"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// recordingName is the name of the step that a whole recording is.
const recordingName = "(recording)"

var criticalPathReport = Report{
	Name: "critical_path", kernels: true, Title: "what the critical path of a step is made of",
	unasked: func(s *Sink) bool { return len(s.steps.Main()) > 0 },
	needs:   wholeWork, whyEmpty: "no calls and no GPU work",
	table: func(s *Sink, f Facts) *table.Table { return s.pathTable(f) },
}

// PathCells is a row of critical_path.
type PathCells struct {
	// the kernel or copy, the function, the line, or what a thread waited for
	Name string `key:"name" title:"on the path"`
	// `kernel`, `communication`, `copy`, `set`: work ran. `start of work`: from its launch, or the end of what it waited
	// for, to its start. `call`: in a call. `return`: from the end of the work that a call waited for to its return.
	// `code`: outside of calls. `blocked`. `no processor`: ready to run. `unknown`
	Kind string `key:"kind" title:"kind" rank:"4"`
	// line or code that launched the work or made the call; outside of calls that of the next call; `null` if unknown, and
	// where `name` is a line
	Place string  `key:"place" title:"place" rank:"6"`
	On    string  `key:"on" title:"on" rank:"1"` // the thread or the GPU
	Rank  *uint32 `key:"rank" title:"rank" rank:"5" unit:"id"`
	// kind of step, as `name` of `step_kinds`; `(recording)` where there are none: from the first call to the last return
	Step string `key:"step"`
	// segments of paths and their time; these and the numbers below are
	// [estimates](critical-path.md#what-is-seen-by-chance) for what is seen by chance
	Count   uint64   `key:"count"`
	Total   uint64   `key:"total_ns" title:"total" rank:"4"`     // =
	Share   *float64 `key:"share" title:"share" rank:"2"`        // part of the paths of the step
	Mean    float64  `key:"mean_ns" title:"per step"`            // mean time a step, over `of_steps`
	Steps   uint64   `key:"steps" title:"# steps" rank:"3"`      // steps whose path has it, and all whose paths were found
	OfSteps int      `key:"of_steps"`                            // =
	Slowest uint64   `key:"slowest_ns" title:"slowest" rank:"3"` // time in the slowest step
	// what else explains when it began, or which thread waits for it
	Note string `key:"note" title:"note" rank:"6"`
	// steps of the [start-up](findings.md#start-up-and-steady-state), whose paths do not count, and their time
	Starting     int    `key:"starting"`
	StartingTime uint64 `key:"starting_ns"` // =
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
	steps                          uint64 // that have it
	in                             *path  // the latest one of these that was looked at
}

// A poolKey is what time of threads outside of calls has in common. Some of it is seen by chance, the rest is not.
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
	given        map[uint32]float64 // part of the time of which nothing was seen that names have
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
	p.given = make(map[uint32]float64)
	for i, part := range parts {
		if all.Time > 0 {
			p.given[p.rows[i].name] += float64(part.Time) / float64(all.Time)
		}
	}
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
	for _, n := range [][2]*uint64{
		{&r.count, &from.count}, {&r.total, &from.total}, {&r.slowest, &from.slowest}, {&r.typical, &from.typical},
		{&r.steps, &from.steps},
	} {
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
	rows             *query.Rows[pathKey, pathRow]
	pools            *query.Rows[poolKey, pool]
	total            uint64
	slowest, typical *path
}

// paths returns the steps whose paths are wanted: of a step of several ranks that of the rank which took longest.
func (s *Sink) paths() (all []*pathGroup) {
	by, numbers := make(map[stepsKey]*pathGroup), make(map[stepsKey]map[int64]int)
	for _, k := range s.steps.Main() {
		of := s.stepsKey(k)
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

// walk finds the path through all steps, and divides it among them. The path is traced back from the end of the last
// step.
func (g *pathGroup) walk(c *critical.Collector) {
	slices.SortStableFunc(g.list, func(a, b path) int { return cmp.Compare(a.Start, b.Start) })
	sorted, spans := make([]*path, len(g.list)), make([]critical.Span, len(g.list))
	last := &g.list[0]
	for i := range g.list {
		p := &g.list[i]
		if sorted[i], spans[i] = p, (critical.Span{From: p.Start, To: p.End}); p.End > last.End {
			last = p
		}
		g.total += p.Length()
	}
	slices.SortStableFunc(sorted, func(a, b *path) int { return cmp.Compare(a.Length(), b.Length()) })
	g.slowest, g.typical = sorted[len(sorted)-1], sorted[(len(sorted)-1)/2]
	g.rows = query.NewRows(table.MaxRows, pathKey{name: c.Other()}, func(k pathKey) pathRow { return pathRow{pathKey: k} })
	g.pools = query.NewRows(table.MaxRows, poolKey{}, func(poolKey) pool { return pool{index: make(map[*pathRow]int)} })
	end := critical.End{Thread: last.On, Stream: last.kind.Stream}
	c.Divided(spans, end, func(i int, x *critical.Segment) { g.add(&g.list[i], x) })
	for _, p := range g.pools.List {
		p.divide()
	}
	g.rows.List = slices.DeleteFunc(g.rows.List, func(r *pathRow) bool { return r.total == 0 })
	for _, r := range g.rows.List {
		r.count, r.steps = max(r.count, 1), min(max(r.steps, 1), uint64(len(g.list)))
	}
}

// add adds a part of a segment that lies in a step.
func (g *pathGroup) add(p *path, x *critical.Segment) {
	k := pathKey{kind: x.Kind, by: x.By, name: x.Name, place: x.Place, also: x.Also, thread: x.Thread}
	switch {
	case x.Stream != nil:
		k.gpu, k.of = x.Stream.Context.GPU+1, x.Stream.Context.Process
	case x.Thread != nil:
		k.of = x.Thread.Process
	}
	r, ns := g.rows.Of(k), x.To-x.From
	if r.in != p {
		r.in = p
		r.steps++
	}
	if r.pathKey == k && (x.Unseen || x.Weight > 0) { // what stands in the row of others is of many places
		g.pools.Of(poolKey{x.Kind, x.Thread, x.Next}).add(r, x)
	}
	r.count++
	r.total += ns
	if p == g.slowest {
		r.slowest += ns
	}
	if p == g.typical {
		r.typical += ns
	}
	if ns > r.longest {
		r.longest, r.longestAt = ns, x.From
	}
}

// pathTable returns the report of critical paths.
func (s *Sink) pathTable(f Facts) *table.Table {
	var rows []PathCells
	var notes []string
	if !f.Chosen && f.GPU == "" {
		for _, g := range s.paths() {
			g.walk(s.path)
			for _, r := range g.rows.List {
				rows = append(rows, s.pathCells(g, r))
			}
			notes = append(notes, s.pathNotes(g)...)
			if n := len(g.starting); n > 0 {
				count, time := figures.Count(n, "step", "steps"), figures.Duration(g.startingTime())
				notes = append(notes, fmt.Sprintf("%s of the start-up not counted: %s", count, time))
			}
			if g.unkept > 0 {
				notes = append(notes, figures.Count(g.unkept, "step", "steps")+" of "+g.name+
					" are left out: there are too many calls and too much work before them")
			}
		}
	}
	t := table.Of(rows)
	t.Notes = notes
	if slices.ContainsFunc(rows, func(r PathCells) bool { return r.Place != "" }) {
		t.SetRank(0, "place") // it tells rows apart
	}
	if slices.ContainsFunc(rows, func(r PathCells) bool { return r.Rank != nil }) {
		t.SetRank(0, "rank")
	}
	t.Sort("total_ns")
	return t
}

func (s *Sink) pathCells(g *pathGroup, r *pathRow) PathCells {
	c := s.path
	x := PathCells{
		Name: c.Text(r.name), Kind: r.kind.String(), Place: c.Text(r.place), Note: c.Text(r.also), Step: g.name,
		Count: r.count, Total: r.total, Share: table.ShareOf(r.total, g.total), Mean: float64(r.total) / float64(len(g.list)),
		Steps: r.steps, OfSteps: len(g.list), Slowest: r.slowest, Starting: len(g.starting), StartingTime: g.startingTime(),
	}
	switch {
	case r.gpu > 0:
		x.On = fmt.Sprintf("GPU %d", r.gpu-1)
	case r.thread != nil:
		x.On = threadTitle(r.thread)
	}
	if r.of != nil {
		x.Rank = r.of.Rank.Nullable()
	}
	return x
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
	median := ", the median of " + figures.Group(len(g.list))
	notes = append(notes, s.pathWords(g, median, g.typical, func(r *pathRow) uint64 { return r.typical }),
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
	larger := func(a, b *pathRow) int { return cmp.Compare(of(b), of(a)) }
	return slices.SortedStableFunc(slices.Values(g.rows.List), larger)
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

// pathName names time on the path of a step, with its thread if that is not the step's, and its rank if that is
// another.
func (s *Sink) pathName(p *path, r *pathRow) string {
	name := s.path.Text(r.name)
	name = figures.Cut(cmp.Or(s.shortNames().Known(name), name), longestPathName)
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

// pathFindings finds what has a large part in the paths of steps, and whose removal would save as much: waiting for a
// processor, for what blocks a thread, for copies.
func (s *Sink) pathFindings() (list []findings.Finding) {
	for _, g := range s.paths() {
		if g.name == recordingName || len(g.list) < steps.Least {
			continue
		}
		g.walk(s.path)
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
			if f := s.pathFinding(g, k, by[k]); f != nil {
				list = append(list, *f)
			}
		}
	}
	return list
}

// without takes away a cause of time on the path.
func (g *pathGroup) without(k avoidable) func(*critical.Without) {
	if k.kind == critical.Copy {
		return func(x *critical.Without) { x.Copies(k.name) }
	}
	return func(x *critical.Without) {
		x.Spent(k.kind, k.name, func(t *timeline.Thread, next uint32) float64 {
			if p := g.pools.Find(poolKey{k.kind, t, next}); p != nil {
				return p.given[k.name]
			}
			return 0
		})
	}
}

// remedyOf is what to try about time on a path, "" for what nobody can avoid, or has findings of its own.
func remedyOf(r *pathRow) string {
	switch r.kind {
	case critical.NoCPU:
		return findings.Remedy(activity.WaitedForCPU, 0)
	case critical.Blocked:
		return findings.Remedy(activity.Waited, r.by)
	case critical.Copy:
		return "copy ahead, on a stream of its own and with pinned memory, so that kernels run meanwhile; " +
			"or leave the data on the GPU"
	}
	return ""
}

// pathFinding is the finding about one cause, nil where its removal would save little.
func (s *Sink) pathFinding(g *pathGroup, k avoidable, rows []*pathRow) *findings.Finding {
	f := &findings.Finding{
		Kind: findings.OnPath, Process: cmp.Or(k.of, g.slowest.kind.Process), First: g.list[0].Start, Last: g.list[0].End,
		Try: remedyOf(rows[0]), Without: g.without(k), Copying: k.kind == critical.Copy,
	}
	for _, p := range g.list {
		f.First, f.Last = min(f.First, p.Start), max(f.Last, p.End)
	}
	var places []string
	steps, all := uint64(0), uint64(0)
	longer := func(a, b *pathRow) int { return cmp.Compare(b.longest, a.longest) }
	for _, r := range slices.SortedStableFunc(slices.Values(rows), longer) {
		all += r.total
		f.Count += r.count
		steps = max(steps, r.steps)
		if len(f.At) < findings.MaxMoments {
			f.At = append(f.At, r.longestAt)
		}
		if place := s.path.Text(r.place); place != "" && len(places) < 2 && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	if float64(all) < onPath*float64(g.total) {
		return nil
	}
	steady := s.findings.Steady(f.Process)
	saved, lack := s.path.Replay(f.Process).Saved(f.Process, steady.From, steady.To, f.Without)
	switch lack {
	case "":
	case critical.Waitless:
		return nil // what blocks the thread may be the GPU
	default:
		saved = all
	}
	f.Cost = min(saved, steady.To-steady.From)
	f.Share = float64(f.Cost) / float64(max(steady.To-steady.From, 1))
	if f.Share < onPath {
		return nil
	}
	f.Cause = strings.Trim(s.path.Text(rows[0].name), "()")
	f.Title, f.Effect = f.Cause, "on the critical path of "+g.name
	if of := rows[0].of; of != nil && of.Rank.Known {
		f.Title += ", on " + of.Rank.String()
	}
	f.Title += ": " + f.Effect
	count := figures.Count(len(g.list), "step", "steps")
	f.Evidence = fmt.Sprintf("it has %s of the path of %s, %s", figures.Duration(all), count, figures.Duration(g.total))
	if 2*steps < uint64(len(g.list)) {
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
