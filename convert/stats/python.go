package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// mostStacks bounds the stacks whose use the rows do not have yet, so that the cache forgets none.
const mostStacks = 1 << 15

// enoughFrames is the least share of launches with a frame of which a verdict is given.
const enoughFrames = 0.9

// python is the report of GPU work and waits by Python line.
type python struct {
	stacks  query.Cache[*timeline.Python, *pythonUse] // what the rows do not have yet
	without query.Cache[string, *pythonUse]           // the same without a frame, by what stands for it
	rows    *query.Rows[pythonLine, pythonRow]
	byFrame query.Cache[*timeline.PythonFrame, *pythonRow]
	folded  *table.Folded // nil unless it is wanted
	of      pythonUse     // all
	framed  pythonUse     // with a frame

	operated  uint64 // pieces of work whose call was made in an operator of PyTorch
	forwarded uint64 // of these, on autograd's threads: their frame is that of the forward operator
}

// A pythonLine is a line of a Python function; one without a file stands for a frame that is not there.
type pythonLine struct {
	file, function string
	line           uint32
}

// A pythonUse has GPU work that was launched from somewhere, calls that waited there, and the idle time of GPUs that
// waited for these launches.
type pythonUse struct {
	work, gpu      uint64 // pieces, and ns on the GPU
	waits, waiting uint64 // calls that waited, and ns in them
	idle           uint64 // ns
}

func newUse() *pythonUse { return new(pythonUse) }

// A pythonRow is a line, with what it does itself and what is done below it.
type pythonRow struct {
	pythonLine
	own, inclusive pythonUse
}

func newPython(folds bool) *python {
	s := &python{
		stacks: make(query.Cache[*timeline.Python, *pythonUse]), without: make(query.Cache[string, *pythonUse]),
		byFrame: make(query.Cache[*timeline.PythonFrame, *pythonRow]),
		rows: query.NewRows(table.MaxRows, pythonLine{function: other}, func(k pythonLine) pythonRow {
			return pythonRow{pythonLine: k}
		}),
	}
	if folds {
		s.folded = new(table.Folded)
	}
	return s
}

// join adds what another one has.
func (s *python) join(o *python) {
	o.settle()
	for line, r := range o.rows.All() {
		x := s.rows.Of(line)
		x.own.addUse(&r.own)
		x.inclusive.addUse(&r.inclusive)
	}
	s.of.addUse(&o.of)
	s.framed.addUse(&o.framed)
	s.operated, s.forwarded = s.operated+o.operated, s.forwarded+o.forwarded
	if s.folded != nil {
		s.folded.Join(o.folded)
	}
}

// pythonOf returns the Python lines of a view.
func (v *view) pythonOf() *python {
	if v.python == nil {
		v.python = newPython(v.folds)
		for _, s := range v.of {
			v.python.join(s.python)
		}
	}
	return v.python
}

// Fold has the sink keep the Python stacks for the folded form of the report.
func (s *Sink) Fold() {
	s.folds = true
	for sec := range s.sections() {
		sec.python.folded = new(table.Folded)
	}
}

func (u *pythonUse) addUse(o *pythonUse) {
	u.work, u.gpu = sketch.Sum(u.work, o.work), sketch.Sum(u.gpu, o.gpu)
	u.waits, u.waiting = sketch.Sum(u.waits, o.waits), sketch.Sum(u.waiting, o.waiting)
	u.idle = sketch.Sum(u.idle, o.idle)
}

// launched counts a piece of GPU work.
func (s *python) launched(w *timeline.Work) {
	s.countUse(w.Call.Python, w.Call.Thread, &pythonUse{work: 1, gpu: w.Dur})
	if c := &w.Call; c.Operator != nil {
		s.operated++
		if c.Python != nil && c.Operator.Made() != nil && c.Thread != nil && c.Thread.Autograd() {
			s.forwarded++
		}
	}
}

// waited counts a call that waited for GPU work.
func (s *python) waited(t *timeline.Thread, sl *timeline.Slice) {
	u := pythonUse{waits: 1}
	if sl.Flags&timeline.Unfinished == 0 {
		u.waiting = length(sl)
	}
	s.countUse(sl.Python, t, &u)
}

// An idleWatcher counts the idle time of devices for the findings, by Python line, and gap by gap.
type idleWatcher struct {
	*findings.Collector
	sink *Sink
}

// Gap takes a gap of a device.
func (w idleWatcher) Gap(g *activity.Gap) {
	w.Collector.Gap(g)
	w.sink.gaps.add(g)
	w.sink.views = nil
	if g.Next.Thread != nil && g.Ready > g.From { // the call that launches Next returned when Ready is
		p := w.sink.threads.process(g.Lane.Stream.Context.Process)
		sec := w.sink.section(&p.staged, g.Ready-1)
		sec.python.countUse(g.Next.Python, g.Next.Thread.Thread, &pythonUse{idle: g.Ready - g.From})
	}
}

// countUse counts what a thread did at a frame, nil for none.
func (s *python) countUse(at *timeline.Python, t *timeline.Thread, u *pythonUse) {
	if at == nil {
		s.without.Of(t.NoPython(), newUse).addUse(u)
		return
	}
	if len(s.stacks) >= mostStacks {
		s.settle()
	}
	s.stacks.Of(at, newUse).addUse(u)
}

// settle moves what was counted to the rows.
func (s *python) settle() {
	for at, u := range s.stacks {
		s.of.addUse(u)
		s.framed.addUse(u)
		s.lines(at, u)
		if s.folded != nil && u.gpu > 0 {
			s.folded.Add(pythonStack(at), u.gpu)
		}
	}
	clear(s.stacks)
	for name, u := range s.without {
		s.of.addUse(u)
		r := s.rows.Of(pythonLine{function: name})
		r.own.addUse(u)
		r.inclusive.addUse(u)
		if s.folded != nil && u.gpu > 0 {
			s.folded.Add([]string{name}, u.gpu)
		}
	}
	clear(s.without)
}

// lines adds what was done at a stack to the program's own lines in it, to each once: a line may call itself.
func (s *python) lines(at *timeline.Python, u *pythonUse) {
	own := s.row(at.Own().PythonFrame)
	own.own.addUse(u)
	seen := []*pythonRow{own}
	for f := range at.Frames() {
		if !f.IsOwn() {
			continue
		}
		if r := s.row(f.PythonFrame); !slices.Contains(seen, r) {
			seen = append(seen, r)
		}
	}
	for _, r := range seen {
		r.inclusive.addUse(u)
	}
}

func (s *python) row(f *timeline.PythonFrame) *pythonRow {
	return s.byFrame.Of(f, func() *pythonRow { return s.rows.Of(pythonLine{f.File, f.Function, f.Line}) })
}

// pythonStack is the texts of the frames of a stack, the outermost one first.
func pythonStack(at *timeline.Python) (frames []string) {
	for f := range at.Frames() {
		frames = append(frames, f.Text())
	}
	slices.Reverse(frames)
	return frames
}

// any reports whether a call has frames.
func (s *python) any() bool { return len(s.stacks) > 0 || s.framed != (pythonUse{}) }

// anyPython reports whether a call of any section has frames.
func (s *Sink) anyPython() bool {
	for sec := range s.sections() {
		if sec.python.any() {
			return true
		}
	}
	return false
}

var pythonReport = Report{
	Name: "python", Title: "GPU work and waits by Python line", unasked: (*Sink).anyPython,
	needs: framesRecorded, whyEmpty: "no GPU work and no waits of calls with a Python frame",
	open: func(s *section) {
		for kind := range s.work {
			s.work[kind].Each(func(w *piece) { s.python.launched(w.Work) })
		}
		s.waits.Each(func(c *call) { s.python.waited(c.thread, c.Slice) })
	},
	join:  func(into, later *section) { into.python.join(later.python) },
	table: func(s *Sink, f Facts) *table.Table { return s.pythonTable(f.Startup) },
	fold:  func(s *Sink, f Facts) *table.Folded { return s.counts(f.Startup).pythonOf().folded },
}

// PythonCells is a row of python.
type PythonCells struct {
	// line: `/home/ann/train.py:40 main`. `(no Python frame)` is for threads without frames, `(no Python frame: autograd)`
	// for PyTorch's backward passes
	Name  string   `key:"name" title:"line"`
	Count uint64   `key:"count" title:"launches" rank:"2"`    // GPU work whose call was made from the line
	Total uint64   `key:"total_ns" title:"GPU time" rank:"1"` // =
	Share *float64 `key:"share" title:"share" rank:"2"`       // part of the time of all GPU work
	// the same, with the functions that the line calls; these overlap
	InclusiveCount uint64   `key:"inclusive_count"`
	Inclusive      uint64   `key:"inclusive_ns" title:"inclusive" rank:"1"` // =
	InclusiveShare *float64 `key:"inclusive_share" title:"share" rank:"3"`  // =
	// `CPU launched late` time (in `idle`) that ended with a launch from the line; `null` where busy times are
	Idle *uint64 `key:"idle_ns" title:"GPU idle" rank:"3"`
	// calls made from the line that waited for GPU work, and their time
	Waits   uint64 `key:"waits" title:"waits" rank:"4"`
	Waiting uint64 `key:"wait_ns" title:"waiting" rank:"3"` // =
	// the same, with the functions that the line calls
	InclusiveIdle    *uint64 `key:"inclusive_idle_ns"`
	InclusiveWaits   uint64  `key:"inclusive_waits"`   // =
	InclusiveWaiting uint64  `key:"inclusive_wait_ns"` // =
	File             string  `key:"file"`              // parts of `name`
	Function         string  `key:"function"`          // =
	Line             *uint32 `key:"line" unit:"id"`    // =
}

// pythonTable returns the report, of the steady states alone unless the start-up counts.
func (s *Sink) pythonTable(startup bool) *table.Table {
	if !s.anyPython() {
		return table.Of[PythonCells](nil)
	}
	devices, v := s.busy.sorted(), s.counts(startup) // which finds the last gaps
	t := v.pythonOf().table(v.onGPU, devices)
	if left := s.view().starting.pythonOf().of; !startup {
		if left.work > 0 {
			t.Notes = append(t.Notes, startupNote(left.work, [...]string{"launch", "launches"}, left.gpu))
		}
		if left.waits > 0 {
			t.Notes = append(t.Notes, startupNote(left.waits, [...]string{"wait", "waits"}, left.waiting))
		}
	}
	return t
}

// table returns the report. total is the time of all GPU work, which devices did.
func (s *python) table(total uint64, devices []*deviceRow) *table.Table {
	late := uint64(0)
	for _, d := range devices {
		late += d.Late
	}
	idle := func(u *pythonUse) *uint64 {
		if late > 0 {
			return nil
		}
		return &u.idle
	}
	rows := make([]PythonCells, 0, len(s.rows.List))
	for _, r := range slices.SortedFunc(slices.Values(s.rows.List), (*pythonRow).compare) {
		x := PythonCells{
			Name: (&timeline.PythonFrame{File: r.file, Function: r.function, Line: r.line}).Text(),
			File: r.file, Function: r.function,
			Count: r.own.work, Total: r.own.gpu, Share: table.ShareOf(r.own.gpu, total),
			Idle: idle(&r.own), Waits: r.own.waits, Waiting: r.own.waiting,
			InclusiveCount: r.inclusive.work, Inclusive: r.inclusive.gpu, InclusiveShare: table.ShareOf(r.inclusive.gpu, total),
			InclusiveIdle: idle(&r.inclusive), InclusiveWaits: r.inclusive.waits, InclusiveWaiting: r.inclusive.waiting,
		}
		if r.line != 0 {
			x.Line = &r.line
		}
		rows = append(rows, x)
	}
	t := table.Of(rows)
	t.Columns[t.Column("name")].Short = func(row table.Row) string { return shortLine(row.Of.(*PythonCells).Name) }
	t.Notes = append(s.notes(rows), note(late, "idle times")...)
	return t
}

// compare compares two rows: by GPU time, by waiting, by name.
func (r *pythonRow) compare(o *pythonRow) int {
	return cmp.Or(cmp.Compare(o.own.gpu, r.own.gpu), cmp.Compare(o.inclusive.gpu, r.inclusive.gpu),
		cmp.Compare(o.own.waiting, r.own.waiting),
		cmp.Compare(r.file, o.file), cmp.Compare(r.line, o.line), cmp.Compare(r.function, o.function))
}

// shortLine is a line without the folder of its file.
func shortLine(line string) string {
	if strings.HasPrefix(line, "(") {
		return line
	}
	return line[strings.LastIndexByte(line, '/')+1:]
}

// notes says how much of the report is known, and which line has most GPU time if that is enough.
func (s *python) notes(rows []PythonCells) (notes []string) {
	if s.of.waits > 0 {
		notes = append(notes, havingFrames(s.framed.waits, s.of.waits, "wait", "waits"))
	}
	if s.of.work == 0 {
		return notes
	}
	launches := havingFrames(s.framed.work, s.of.work, "launch", "launches")
	if s.operated > 0 {
		share := func(n uint64) string { return table.Words(float64(n)/float64(s.of.work), table.Share) }
		notes = append([]string{fmt.Sprintf("%s of them have an operator of PyTorch, %s the line of their forward operator",
			share(s.operated), share(s.forwarded))}, notes...)
	}
	if float64(s.framed.work) < enoughFrames*float64(s.of.work) {
		return append([]string{launches + ": too few to say which line takes most GPU time"}, notes...)
	}
	notes = append([]string{launches}, notes...)
	for _, r := range rows {
		if r.File != "" && r.Total > 0 {
			return append(notes, fmt.Sprintf("most GPU time, %s, is of %s", table.Words(*r.Share, table.Share), r.Name))
		}
	}
	return notes
}

// havingFrames says how many of some things have a Python frame.
func havingFrames(some, all uint64, one, many string) string {
	have := "have"
	if all == 1 {
		have = "has"
	}
	share := table.Words(float64(some)/float64(max(all, 1)), table.Share)
	return fmt.Sprintf("%s of %s %s a Python frame", share, figures.Count(all, one, many), have)
}
