package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A Part is a sink that keeps the calls and the GPU work of a short time: that of a typical step.
type Part struct {
	Title    string
	Note     string // why this part
	From, To uint64 // ns from the start of the recording

	start   uint64
	names   timeline.KernelNames
	threads map[*timeline.Thread]*threadLane
	streams map[*timeline.Stream]*streamLane
	blocks  map[*timeline.Thread][]mark // in and outside of calls
	kept    int
	left    int
}

// mostKept bounds the calls, the ranges and the pieces of work of a part.
const mostKept = 40_000

// A mark is something that took a time.
type mark struct {
	start, end  uint64
	class, name string
}

type threadLane struct {
	*timeline.Thread
	calls, lines []mark
	ranges       [mostRangeRows][]mark // by depth
	time         uint64
}

type streamLane struct {
	*timeline.Stream
	work []launched
	time uint64
}

type launched struct {
	mark
	call *timeline.Thread
	from uint64 // the start of its call
}

// Typical chooses the part of a timeline to draw: the step that took as long as most do, else a short time in the
// middle. It returns nil where the timeline has no GPU work.
func (r *Report) Typical() *Part {
	if p := r.typicalStep(); p != nil {
		return p
	}
	lanes, _ := r.Overview.lanes(mostLanes)
	if len(lanes) == 0 {
		return nil
	}
	l := lanes[0]
	from, to := r.Overview.since(l.bins[0].Start), r.Overview.since(l.bins[len(l.bins)-1].End)
	if end := r.startup(); end < to {
		from = max(from, end)
	}
	length := min(max((to-from)/50, 1e6), 50e6)
	if to-from <= 2*length {
		return newPart("The GPU work", "No steps are known: this is all of it.", from, to)
	}
	middle := from + (to-from)/2
	note := "No steps are known: this is a short time in the middle of the run."
	return newPart("A part in the middle", note, middle-length/2, middle+length/2)
}

// alike is the part of the median by which a step's time may differ from the median and count as the median. Of such
// steps the one in the middle of the run is typical.
const alike = 100

func (r *Report) typicalStep() *Part {
	_, kinds := table.Find[stats.StepKindCells](r.Tables)
	_, rows := table.Find[stats.StepCells](r.Tables)
	if len(kinds) == 0 || len(rows) == 0 {
		return nil
	}
	kind := kinds[0]
	fromMiddle := func(i int) int { return max(i, len(rows)/2) - min(i, len(rows)/2) }
	best, least := -1, uint64(0)
	for i, x := range rows {
		starting := len(rows) > int(kind.Starting)+1 && uint64(i) < kind.Starting
		if starting || x.Name != fmt.Sprintf("%s %d", kind.Name, x.Number) {
			continue
		}
		apart := max(max(x.Median, kind.Median)-min(x.Median, kind.Median), kind.Median/alike)
		if best < 0 || apart < least || apart == least && fromMiddle(i) < fromMiddle(best) {
			best, least = i, apart
		}
	}
	if best < 0 {
		return nil
	}
	x := rows[best]
	note := fmt.Sprintf("%s, which took %s; the median is %s.", x.Name, duration(x.Median), duration(kind.Median))
	return newPart("A typical step", note, x.At, x.At+x.Max)
}

func newPart(title, note string, from, to uint64) *Part {
	names := make(timeline.KernelNames)
	return &Part{Title: title, Note: note, From: max(from, 1), To: max(to, from+1, 2), names: names,
		threads: make(map[*timeline.Thread]*threadLane), streams: make(map[*timeline.Stream]*streamLane),
		blocks: make(map[*timeline.Thread][]mark)}
}

// Take takes events.
func (p *Part) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Recording:
			p.start = e.Start
		case *timeline.Slices:
			p.slices(e)
		case *timeline.WorkList:
			p.work(e)
		case *timeline.States:
			p.states(e)
		case *timeline.SpanEnd:
			p.span(e)
		}
	}
	return nil
}

// End ends the timeline.
func (p *Part) End(error) error { return nil }

// has reports whether a time lies in the part, and there is room.
func (p *Part) has(start, end uint64) bool {
	if end <= p.start+p.From || start >= p.start+p.To {
		return false
	}
	if p.kept >= mostKept {
		p.left++
		return false
	}
	p.kept++
	return true
}

func (p *Part) thread(t *timeline.Thread) *threadLane {
	l := p.threads[t]
	if l == nil {
		l = &threadLane{Thread: t}
		p.threads[t] = l
	}
	return l
}

func (p *Part) slices(e *timeline.Slices) {
	for i := range e.List {
		sl := &e.List[i]
		if sl.Depth > 0 || !p.has(sl.Start, sl.End) {
			continue
		}
		l := p.thread(e.Thread)
		class := "call"
		if len(sl.Waits()) > 0 || sl.Wait != cudaapi.NoWait {
			class = "wait"
		}
		l.calls = append(l.calls, mark{sl.Start, sl.End, class, sl.Name})
		l.time += sl.End - sl.Start
		if sl.Python == nil {
			continue
		}
		line := sl.Python.Own().Short()
		if n := len(l.lines); n > 0 && l.lines[n-1].name == line {
			l.lines[n-1].end = sl.End
		} else {
			l.lines = append(l.lines, mark{sl.Start, sl.End, "py", line})
		}
	}
}

// leastBlock is the part of the time that is drawn for which a thread is blocked at least where that is drawn.
const leastBlock = 0.02

func (p *Part) states(e *timeline.States) {
	for i := range e.List {
		s := &e.List[i]
		short := float64(s.End-s.Start) < leastBlock*float64(p.To-p.From)
		if s.ThreadState != timeline.Blocked || short || !p.has(s.Start, s.End) {
			continue
		}
		m := mark{s.Start, s.End, "idle", "blocked"}
		if s.Why != nil {
			m.name = s.Why.Text()
			if s.Why.Python != nil {
				m.name = s.Why.Python.Own().Short() + ", " + m.name
			}
		}
		p.blocks[e.Thread] = append(p.blocks[e.Thread], m)
	}
}

// outside returns the times for which a thread of the program was blocked outside of calls; none for threads of
// libraries, which wait for work.
func (p *Part) outside(l *threadLane) []mark {
	if !l.Main && len(l.ranges[0])+len(l.ranges[1]) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.blocks[l.Thread]), func(b mark) bool {
		return slices.ContainsFunc(l.calls, func(c mark) bool { return c.start < b.end && c.end > b.start })
	})
}

// workClasses are the colours of the classes of GPU work.
var workClasses = [...]string{
	activity.Compute: "compute", activity.Communication: "comm", activity.Copy: "copy", activity.Set: "set",
}

func (p *Part) work(e *timeline.WorkList) {
	for i := range e.List {
		w := &e.List[i]
		if end := timeline.End(w.Start, w.Dur); p.has(w.Start, end) {
			l := p.streams[e.Stream]
			if l == nil {
				l = &streamLane{Stream: e.Stream}
				p.streams[e.Stream] = l
			}
			x := launched{mark: mark{w.Start, end, workClasses[activity.ClassOf(w)], p.names.Title(w)}}
			if w.Call.Function != nil {
				x.call, x.from = w.Call.Thread, w.Call.Start
			}
			l.work = append(l.work, x)
			l.time += w.Dur
		}
	}
}

// span takes a range. Those of NCCL are not what the program is about.
func (p *Part) span(e *timeline.SpanEnd) {
	t := e.Track
	if t.Category != timeline.NVTX || t.Thread == nil || t.Domain == timeline.NCCLDomain || e.Depth >= mostRangeRows {
		return
	}
	if p.has(e.Start, e.End) {
		l := p.thread(t.Thread)
		l.ranges[e.Depth] = append(l.ranges[e.Depth], mark{e.Start, e.End, "range", e.Name})
	}
}

// Bounds of what is drawn of a part.
const (
	mostRangeRows = 2
	mostArrows    = 60
	mostBytes     = 400 << 10 // of the drawing
)

// busiest returns the busiest lanes in their order, and how many others there are.
func busiest[L comparable](list []L, time func(L) uint64) (kept []L, left int) {
	if left = max(len(list)-mostLanes, 0); left == 0 {
		return list, 0
	}
	longer := func(a, b L) int { return cmp.Compare(time(b), time(a)) }
	best := slices.SortedStableFunc(slices.Values(list), longer)[:mostLanes]
	return slices.DeleteFunc(list, func(l L) bool { return !slices.Contains(best, l) }), left
}

// step draws the part.
func (r *Report) step() *Chart {
	p := r.Part
	if p == nil || len(p.streams) == 0 {
		return nil
	}
	byID := func(a, b *streamLane) int {
		return cmp.Or(cmp.Compare(a.Context.ID, b.Context.ID), cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Context.Process.PID, b.Context.Process.PID))
	}
	streams, moreStreams := busiest(sorted(p.streams, byID), func(l *streamLane) uint64 { return l.time })
	byTID := func(a, b *threadLane) int {
		return cmp.Or(cmp.Compare(btoi(b.Main), btoi(a.Main)), cmp.Compare(a.TID, b.TID))
	}
	threads, moreThreads := busiest(sorted(p.threads, byTID), func(l *threadLane) uint64 { return l.time })
	margin := (p.To - p.From) / 40
	zero, end := p.start+p.From, p.start+p.To
	s := scale{from: zero - min(margin, p.From), to: end + margin, x: labelWidth, width: chartWidth - labelWidth}
	var processes []*timeline.Process
	for _, l := range threads {
		processes = append(processes, l.Process)
	}
	for _, l := range streams {
		processes = append(processes, l.Context.Process)
	}
	slices.SortStableFunc(processes, func(a, b *timeline.Process) int {
		return cmp.Or(a.Rank.Compare(b.Rank), cmp.Compare(a.PID, b.PID))
	})
	processes = slices.Compact(processes)
	names, room := r.shortNames(), mostBytes
	if r.most > 0 {
		room = min(room, max(r.most/stepPart, 20<<10))
	}
	var d *stepDrawing
	for least := 0.8; ; least *= 2 {
		d = &stepDrawing{drawing: new(drawing), part: p, scale: s, y: topHeight, least: least, names: names}
		d.rows = make(map[*timeline.Thread]float64)
		for _, of := range processes {
			d.process(of, threads, streams, len(processes) > 1)
		}
		if d.b.Len() <= room || least > chartWidth {
			break
		}
	}
	for _, at := range []uint64{zero, end} {
		fmt.Fprintf(&d.under, `<line class="bounds" x1="%s" y1="%d" x2="%[1]s" y2="%[3]s"/>`+"\n",
			px(s.at(at)), topHeight-4, px(d.y))
	}
	d.legend(11, d.used())
	d.axis(s, topHeight, d.y, zero)
	d.height = d.y + 22
	c := &Chart{Title: p.Title, drawing: d.drawing, At: showAt(p.From, p.To, 0)}
	c.Note = p.Note + " Calls are on their threads, " +
		"GPU work on its streams; lines lead from a call to the longest work that it launched."
	if n := moreStreams + moreThreads; n > 0 {
		c.Note += " " + figures.Count(n, "thread or stream is", "threads and streams are") + " not drawn."
	}
	if p.left > 0 {
		left := figures.Count(p.left, "call or GPU operation is", "calls and GPU operations are")
		c.Note += " " + left + " not drawn: there are too many."
	}
	c.Tables = []*table.Table{p.table(threads, streams, names)}
	return c
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func sorted[K comparable, L any](all map[K]L, by func(a, b L) int) (list []L) {
	for _, l := range all {
		list = append(list, l)
	}
	slices.SortFunc(list, by)
	return list
}

// A stepDrawing is the drawing of a part, from top to bottom.
type stepDrawing struct {
	*drawing
	part  *Part
	scale scale
	y     float64
	least float64                      // width of a mark that is drawn by itself
	rows  map[*timeline.Thread]float64 // bottoms of the rows of calls
	seen  map[string]bool              // classes
	names *kernelnames.Names
}

// Heights of the rows of a part.
const (
	callHeight = 18
	workHeight = 26
	lineHeight = 15
)

func (d *stepDrawing) process(of *timeline.Process, threads []*threadLane, streams []*streamLane, several bool) {
	if several {
		d.y += 12
		title := of.Name
		if !of.Rank.Known {
			title = processTitle(of, of.Name, true)
		}
		d.label("strong", 0, d.y, chartWidth, title)
		d.y += 8
	}
	for _, l := range threads {
		if l.Process != of {
			continue
		}
		for _, ranges := range l.ranges {
			d.row("", "", ranges, lineHeight)
		}
		d.row("Python", "t2", l.lines, lineHeight)
		title := cmp.Or(l.Title(), fmt.Sprintf("thread %d", l.TID))
		d.row(title, "", append(d.part.outside(l), l.calls...), callHeight)
		d.rows[l.Thread] = d.y - 3
		d.y += 6
	}
	for _, l := range streams {
		if l.Context.Process != of {
			continue
		}
		d.y += 6
		d.arrows(l)
		var list []mark
		for _, w := range l.work {
			list = append(list, w.mark)
		}
		d.row(fmt.Sprintf("stream %d%s", l.ID, l.Qualifier()), "", list, workHeight)
	}
	d.y += rowGap
}

// mostUnmixed is the largest width up to which only marks of one class are drawn together.
const mostUnmixed = 2

// row draws marks. Those that are too narrow to be seen are drawn together.
func (d *stepDrawing) row(title, class string, list []mark, height float64) {
	if len(list) == 0 {
		return
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b mark) int { return cmp.Compare(a.start, b.start) })
	d.label(class, 0, d.y+height/2+4, labelWidth-8, title)
	d.track(d.scale.x, d.y, d.scale.width, height)
	for i := 0; i < len(list); {
		m := list[i]
		x, end, n, total := d.scale.at(m.start), d.scale.at(m.end), 1, m.end-m.start
		if end-x < d.least {
			for i+n < len(list) && d.scale.at(list[i+n].end) < x+2*d.least &&
				(list[i+n].class == m.class || d.least > mostUnmixed) {
				end = max(end, d.scale.at(list[i+n].end))
				total += list[i+n].end - list[i+n].start
				n++
			}
		}
		hover := m.name + ": " + duration(m.end-m.start)
		if n > 1 {
			hover = fmt.Sprintf("%d, the first %s; %s together", n, m.name, duration(total))
		}
		if d.seen == nil {
			d.seen = make(map[string]bool)
		}
		d.seen[m.class] = true
		d.rect(m.class, x, d.y, max(end-x, 0.6), height, hover)
		if room := int((end - x - 6) / charWidth); n == 1 && room >= 4 {
			in := "in"
			switch m.class {
			case "range":
				in = "t2"
			case "idle":
				in = ""
			}
			name := cmp.Or(d.names.Known(m.name), m.name)
			d.text(in, x+3, d.y+height/2+4, figures.Cut(name, room))
		}
		i += n
	}
	d.y += height + 3
}

// arrows draws lines from calls to the longest work of a stream.
func (d *stepDrawing) arrows(l *streamLane) {
	longest := slices.Clone(l.work)
	slices.SortStableFunc(longest, func(a, b launched) int { return cmp.Compare(b.end-b.start, a.end-a.start) })
	for _, w := range longest[:min(len(longest), mostArrows)] {
		from, known := d.rows[w.call]
		if !known || w.from < d.scale.from || w.start < d.scale.from {
			continue
		}
		x1, x2 := d.scale.at(w.from), d.scale.at(w.start)
		middle := (from + d.y) / 2
		d.path("arrow", fmt.Sprintf("M%[1]s %[2]sC%[1]s %[3]s %[4]s %[3]s %[4]s %[5]s",
			px(x1), px(from), px(middle), px(x2), px(d.y)))
	}
}

// used are the classes that were drawn.
func (d *stepDrawing) used() (list []legend) {
	for _, l := range []legend{
		{"py", "Python lines"}, {"range", "NVTX ranges"}, {"call", "calls"}, {"wait", "calls that wait for the GPU"},
		{"idle", "blocked"}, {"compute", "kernels"}, {"comm", "communication"}, {"copy", "copies"}, {"set", "memory sets"},
	} {
		if d.seen[l.class] {
			list = append(list, l)
		}
	}
	return list
}

// longCells is a row of the table of a part.
type longCells struct {
	Name  string `key:"name" title:"name"`
	Where string `key:"where" title:"where"`
	At    uint64 `key:"at_ns" title:"at" unit:"moment"`
	Total uint64 `key:"total_ns" title:"time"`
}

// table has the longest calls and pieces of work.
func (p *Part) table(threads []*threadLane, streams []*streamLane, names *kernelnames.Names) *table.Table {
	var rows []longCells
	add := func(m mark, where string) {
		rows = append(rows, longCells{m.name, where, m.start - min(m.start, p.start), m.end - m.start})
	}
	for _, l := range threads {
		where := processTitle(l.Process, cmp.Or(l.Title(), fmt.Sprintf("thread %d", l.TID)), false)
		for _, m := range l.calls {
			add(m, where)
		}
	}
	for _, l := range streams {
		where := processTitle(l.Context.Process, fmt.Sprintf("stream %d", l.ID), false)
		for _, w := range l.work {
			add(w.mark, where)
		}
	}
	slices.SortStableFunc(rows, func(a, b longCells) int { return cmp.Compare(b.Total, a.Total) })
	t := table.Of(rows[:min(len(rows), mostOwnRows)])
	t.Columns[t.Column("name")].Short = func(row table.Row) string { return names.Known(row.Of.(*longCells).Name) }
	t.Name, t.Title, t.LeftOut = "step", "the longest calls and GPU work", max(len(rows)-mostOwnRows, 0)
	return t
}
