package report

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// The timeline of the page is JSON, which timeline.js reads. Times are ns from the start of the recording.
//
// A list of slices is base64 of unsigned LEB128 numbers, five for each slice, in the order of their starts:
//
//	start   less the start of the slice before, of the first one less 0
//	length
//	name    an index of names
//	detail  an index of details; 0 is none
//	link    0 for none, else 1 + the zigzag form of the link less that of the slice before that has one (at first 0):
//	        a call and its GPU work have the same link
//
// Bins are base64 of four bytes for each: the parts of its time, in 255ths, in which the GPU computed alone, computed
// and communicated, communicated alone, only copied.
type pageData struct {
	To        uint64        `json:"to"`        // the end of the run
	Processes []string      `json:"processes"` // names
	PIDs      []uint32      `json:"pids"`      // of the processes
	Rows      []pageRow     `json:"rows"`
	Names     [][3]string   `json:"names"`   // for people, in full ("" for the same), class
	Details   []string      `json:"details"` // lines
	Windows   []*pageWindow `json:"windows"`
	Bins      []pageBins    `json:"bins"`
	Steps     string        `json:"steps"` // a list of slices: name is an index of step_names, detail is 1 + its number
	StepNames []string      `json:"step_names"`
	Moments   []pageMoment  `json:"moments"`
	Map       *pageMap      `json:"map"`     // of steps and ranks; null without
	Base      []*pageWindow `json:"base"`    // of the typical step of an earlier run, moved to that of this one
	BaseTo    uint64        `json:"base_to"` // the end of that step
	Left      []string      `json:"left"`    // what is not there
}

type pageRow struct {
	Process int    `json:"process"`
	Kind    string `json:"kind"`
	Title   string `json:"title"`
	Of      string `json:"of"` // the thread or the stream
	ID      uint32 `json:"id"` // its number
	GPU     int    `json:"gpu"`
	Base    bool   `json:"base"` // of an earlier run
}

// A pageWindow has a list of slices for some rows.
type pageWindow struct {
	From uint64         `json:"from"`
	To   uint64         `json:"to"`
	Rows map[int]string `json:"rows"`
}

// pageBins are what a process did on a GPU over the whole run. Bins are of one width, but for the last.
type pageBins struct {
	Process int    `json:"process"`
	Title   string `json:"title"`
	GPU     int    `json:"gpu"`
	From    uint64 `json:"from"`
	Width   uint64 `json:"width"`
	To      uint64 `json:"to"`
	Bins    string `json:"bins"`
}

type pageMoment struct {
	Title   string `json:"title"`
	From    uint64 `json:"from"`
	To      uint64 `json:"to"`
	Process int    `json:"process"` // -1 for all
	Kept    bool   `json:"kept"`    // its beginning is in a window
}

// A pageMap is where the cells of the map of steps and ranks are in its drawing, and what they lead to.
type pageMap struct {
	Left   float64     `json:"left"`
	Top    float64     `json:"top"`
	Width  float64     `json:"width"`  // of a cell
	Height float64     `json:"height"` // =
	Steps  [][2]uint64 `json:"steps"`  // from when to when, by column
	PIDs   []uint32    `json:"pids"`   // by row, 0 where not known
}

// Bounds of what the page has of the whole run.
const (
	mostPageSteps = 10_000
	mostPageLanes = 64
	mostLeft      = 16  // things that are named
	mostDetail    = 400 // characters
)

// A pageWriter makes the data of the page.
type pageWriter struct {
	*Timeline
	data      *pageData
	base      bool  // the timeline is of an earlier run,
	shift     int64 // and its times are moved by this
	short     *kernelnames.Names
	processes []*timeline.Process
	rows      map[int]int       // of the page, by row of the timeline
	names     map[uint32]uint64 // of the page
	details   map[uint32]uint64
	calls     interned[callKey]
	room      int
}

// timelineData is the timeline of the page, in at most so many bytes; nil where that is too little for anything.
func (r *Report) timelineData(room int) ([]byte, error) {
	t := r.Timeline
	w := &pageWriter{Timeline: t, short: r.shortNames(), rows: make(map[int]int), names: make(map[uint32]uint64),
		details: map[uint32]uint64{0: 0}}
	w.data = &pageData{Processes: []string{}, PIDs: []uint32{}, Rows: []pageRow{}, Names: [][3]string{},
		Details: []string{""}, Windows: []*pageWindow{}, Bins: []pageBins{}, StepNames: []string{}, Moments: []pageMoment{},
		Left: []string{}}
	w.describe(r)
	base := w.baseOf(r)
	empty, err := json.Marshal(w.data)
	if err == nil && w.data.Steps != "" && len(empty) > room/2 {
		w.data.Steps, w.data.StepNames, w.data.Left = "", []string{}, append(w.data.Left, "the row of steps")
		empty, err = json.Marshal(w.data)
	}
	if err != nil {
		return nil, err
	}
	if w.room = room - len(empty) - 4<<10; w.room < 0 {
		return nil, nil
	}
	if base != nil {
		base.room = w.room / 2
		for _, of := range base.windows {
			base.addWindow(of)
		}
		w.room -= w.room/2 - base.room
	}
	byRank := slices.Clone(t.windows)
	slices.SortStableFunc(byRank, func(a, b *window) int { return cmp.Compare(a.rank, b.rank) })
	for _, of := range byRank {
		w.addWindow(of)
	}
	for i, m := range t.moments {
		if m.rest {
			break
		}
		kept := slices.ContainsFunc(w.data.Windows, func(o *pageWindow) bool {
			return o.From <= m.from && m.from < o.To
		})
		if w.data.Moments[i].Kept = kept; !kept && m.from < w.data.To {
			w.data.Left = append(w.data.Left, figures.Cut(figures.Clean(m.title), maxHover))
		}
	}
	for _, of := range t.windows {
		if of.full {
			title := figures.Cut(figures.Clean(t.moments[of.rank].title), maxHover)
			w.data.Left = append(w.data.Left, "a part of "+title)
		}
	}
	if more := len(w.data.Left) - mostLeft; more > 0 {
		w.data.Left = append(w.data.Left[:mostLeft], figures.Count(more, "other", "others"))
	}
	slices.SortFunc(w.data.Windows, func(a, b *pageWindow) int { return cmp.Compare(a.From, b.From) })
	return json.Marshal(w.data)
}

// baseOf is the writer of the typical step of an earlier run, whose rows it adds; nil without one.
func (w *pageWriter) baseOf(r *Report) *pageWriter {
	if r.Base == nil || r.Base.Timeline == nil || r.Part == nil {
		return nil
	}
	b := &pageWriter{Timeline: r.Base.Timeline, data: w.data, short: r.Base.shortNames(), rows: make(map[int]int),
		names: make(map[uint32]uint64), details: map[uint32]uint64{0: 0}, processes: slices.Clone(w.processes),
		base: true, shift: int64(r.Part.From) - int64(r.Base.Part.From)}
	for _, key := range b.list {
		b.process(key.process())
	}
	for _, p := range b.processes[len(w.processes):] {
		w.data.Processes = append(w.data.Processes, "base: "+figures.Clean(p.Name))
		w.data.PIDs = append(w.data.PIDs, 0)
	}
	b.describeRows()
	w.data.BaseTo = b.moved(r.Base.Part.To)
	return b
}

// describe makes what does not depend on the room: processes, rows, bins, steps, moments.
func (w *pageWriter) describe(r *Report) {
	lanes, _ := r.Overview.lanes(mostPageLanes)
	for _, l := range lanes {
		w.process(l.of)
	}
	for _, key := range w.list {
		w.process(key.process())
	}
	slices.SortStableFunc(w.processes, func(a, b *timeline.Process) int {
		return cmp.Or(a.Rank.Compare(b.Rank), cmp.Compare(a.PID, b.PID))
	})
	several := len(w.processes) > 1
	for _, p := range w.processes {
		title := p.Name
		if !p.Rank.Known {
			title = processTitle(p, p.Name, several)
		}
		w.data.Processes, w.data.PIDs = append(w.data.Processes, figures.Clean(title)), append(w.data.PIDs, p.PID)
	}
	for i := range lanes {
		b := w.binsOf(r, &lanes[i])
		w.data.Bins, w.data.To = append(w.data.Bins, b), max(w.data.To, b.To)
	}
	w.describeRows()
	w.describeSteps(r)
	w.describeMap(r)
	for _, m := range w.moments {
		if m.rest {
			break
		}
		process := slices.IndexFunc(w.processes, func(p *timeline.Process) bool { return p.PID == m.pid })
		title := figures.Cut(figures.Clean(m.title), maxHover)
		w.data.Moments = append(w.data.Moments, pageMoment{Title: title, From: m.from, To: m.to, Process: process})
		w.data.To = max(w.data.To, m.to)
	}
}

func (w *pageWriter) describeSteps(r *Report) {
	_, steps := table.Find[stats.StepCells](r.Tables)
	if more := len(steps) - mostPageSteps; more > 0 {
		w.data.Left = append(w.data.Left, figures.Count(more, "step", "steps")+" of the row of steps")
		steps = steps[:mostPageSteps]
	}
	var names interned[string]
	var list []slice
	for _, x := range steps {
		s := slice{start: x.At, end: x.At + x.Max}
		kind, numbered := strings.CutSuffix(x.Name, fmt.Sprintf(" %d", x.Number))
		if numbered && x.Number >= 0 && x.Number < math.MaxUint32 {
			s.detail = uint32(x.Number) + 1
		} else {
			kind = x.Name
		}
		s.name = names.number(figures.Cut(figures.Clean(kind), maxHover))
		list = append(list, s)
	}
	w.data.StepNames = append(w.data.StepNames, names.list...)
	w.data.Steps = encode(list, func(s *slice) (uint64, uint64, uint64) { return uint64(s.name), uint64(s.detail), 0 })
}

func (w *pageWriter) describeMap(r *Report) {
	h := r.heat()
	if h == nil {
		return
	}
	height, width := h.cell()
	m := &pageMap{Left: labelWidth, Top: topHeight, Width: width, Height: height, Steps: h.times}
	for _, rank := range h.ranks {
		pid := uint32(0)
		for _, p := range w.processes {
			if p.Rank.Known && uint64(p.Rank.Number) == rank {
				pid = p.PID
			}
		}
		m.PIDs = append(m.PIDs, pid)
	}
	w.data.Map = m
}

func (k *rowKey) process() *timeline.Process {
	if k.thread != nil {
		return k.thread.Process
	}
	return k.stream.Context.Process
}

func (k *rowKey) id() uint32 {
	if k.thread != nil {
		return k.thread.TID
	}
	return k.stream.ID
}

func (w *pageWriter) process(p *timeline.Process) int {
	i := slices.IndexFunc(w.processes, func(o *timeline.Process) bool { // a second reading has others than the first
		return o == p || !w.base && o.PID == p.PID && o.Name == p.Name
	})
	if i < 0 {
		i = len(w.processes)
		w.processes = append(w.processes, p)
	}
	return i
}

func (w *pageWriter) binsOf(r *Report, l *lane) pageBins {
	first, last := l.bins[0], l.bins[len(l.bins)-1]
	width := last.End - last.Start
	if len(l.bins) > 2 {
		width = l.bins[1].End - l.bins[1].Start
	}
	b := pageBins{Process: w.process(l.of), Title: fmt.Sprintf("GPU %d", l.gpu), GPU: int(l.gpu), Width: max(width, 1),
		From: r.Overview.since(first.End) - min(width, r.Overview.since(first.End)), To: r.Overview.since(last.End)}
	var bytes []byte
	for _, bin := range l.bins {
		for _, k := range kinds {
			bytes = append(bytes, byte(min(255*float64(k.of(&bin))/float64(max(width, 1)), 255)))
		}
	}
	b.Bins = base64.StdEncoding.EncodeToString(bytes)
	return b
}

// launching are the threads that make GPU work, and main threads and those with ranges or Python lines.
func (w *pageWriter) launching() map[*timeline.Thread]bool {
	is := make(map[*timeline.Thread]bool)
	for _, of := range w.windows {
		for row, list := range of.slices {
			if t := w.list[row].thread; t != nil && !is[t] {
				launches := func(s slice) bool { return s.call != callKey{} }
				is[t] = t.Main || w.has(t, rangeRow) || w.has(t, lineRow) || slices.ContainsFunc(list, launches)
			}
		}
	}
	return is
}

// describeRows puts the rows in their order: the main thread, other threads that launch, streams, the rest.
func (w *pageWriter) describeRows() {
	launching := w.launching()
	place := func(k *rowKey) int {
		switch {
		case k.stream != nil:
			return 1
		case launching[k.thread]:
			return 0
		}
		return 2
	}
	order := make([]int, len(w.list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &w.list[i], &w.list[j]
		return cmp.Or(cmp.Compare(w.process(a.process()), w.process(b.process())),
			cmp.Compare(place(a), place(b)),
			-cmp.Compare(btoi(a.thread != nil && a.thread.Main), btoi(b.thread != nil && b.thread.Main)),
			cmp.Compare(a.id(), b.id()), cmp.Compare(a.kind, b.kind), cmp.Compare(a.depth, b.depth))
	})
	order = slices.DeleteFunc(order, func(i int) bool { // a library's thread is blocked until there is work
		k := w.list[i]
		return k.kind == stateRow && !k.thread.Main && !w.has(k.thread, rangeRow) && !w.has(k.thread, lineRow)
	})
	type named struct {
		process *timeline.Process
		name    string
	}
	first, twins := make(map[named]*timeline.Thread), make(map[named]bool)
	for _, k := range w.list {
		if k.thread != nil {
			of := named{k.thread.Process, k.thread.Name}
			twins[of] = twins[of] || cmp.Or(first[of], k.thread) != k.thread
			first[of] = k.thread
		}
	}
	for _, i := range order {
		k := &w.list[i]
		w.rows[i] = len(w.data.Rows)
		row := pageRow{Process: w.process(k.process()), Kind: rowKinds[k.kind], ID: k.id(), Base: w.base}
		if k.thread != nil {
			row.Of = cmp.Or(k.thread.Name, fmt.Sprintf("thread %d", k.thread.TID))
			if k.thread.Main && k.thread.Name == "" {
				row.Of = "main thread"
			}
			if !k.thread.Main && k.thread.Name != "" && twins[named{k.thread.Process, k.thread.Name}] {
				row.Of += fmt.Sprintf(" (%d)", k.thread.TID)
			}
		} else {
			row.Of, row.GPU = fmt.Sprintf("stream %d%s", k.stream.ID, k.stream.Qualifier()), int(k.stream.Context.GPU)
		}
		row.Of = figures.Cut(figures.Clean(row.Of), maxHover)
		switch k.kind {
		case rangeRow:
			row.Title = "NVTX"
		case lineRow:
			row.Title = "Python"
		case stateRow:
			row.Title = "blocked"
		default:
			if k.depth == 0 {
				row.Title = row.Of
			}
		}
		w.data.Rows = append(w.data.Rows, row)
	}
}

// has reports whether a thread has a row of a kind.
func (w *pageWriter) has(thread *timeline.Thread, kind rowKind) bool {
	_, has := w.Timeline.rows[rowKey{thread: thread, kind: kind}]
	return has
}

// addWindow adds a window, if there is room for it.
func (w *pageWriter) addWindow(of *window) {
	names, details := len(w.data.Names), len(w.data.Details)
	x := &pageWindow{From: w.moved(of.from), To: w.moved(of.to), Rows: make(map[int]string)}
	bytes := 60
	for _, row := range slices.Sorted(maps.Keys(of.slices)) { // in one order: the same logs make the same page
		list := of.slices[row]
		for i := range list {
			list[i].start, list[i].end = w.moved(list[i].start), w.moved(list[i].end)
		}
		if n, shown := w.rows[row]; shown && len(list) > 0 {
			x.Rows[n] = encode(list, func(s *slice) (uint64, uint64, uint64) {
				return w.nameOf(s.name), w.detailOf(s.detail), w.linkOf(s.call)
			})
			bytes += len(x.Rows[n]) + 10
		}
	}
	for _, n := range w.data.Names[names:] {
		bytes += quoted(n[0]) + quoted(n[1]) + quoted(n[2]) + 6
	}
	for _, d := range w.data.Details[details:] {
		bytes += quoted(d) + 1
	}
	if bytes > w.room {
		w.data.Names, w.data.Details = w.data.Names[:names], w.data.Details[:details]
		drop := func(of map[uint32]uint64, from int) {
			for k, n := range of {
				if n >= uint64(from) {
					delete(of, k)
				}
			}
		}
		drop(w.names, names)
		drop(w.details, details)
		return
	}
	w.room -= bytes
	if w.base {
		w.data.Base = append(w.data.Base, x)
		return
	}
	w.data.Windows = append(w.data.Windows, x)
}

// moved is a time of the timeline as the page has it.
func (w *pageWriter) moved(at uint64) uint64 { return uint64(max(int64(at)+w.shift, 0)) }

// quoted is the length of a text as JSON.
func quoted(s string) int {
	b, err := json.Marshal(s)
	if err != nil {
		return len(s)
	}
	return len(b)
}

// encode makes a list of slices, with their numbers in the page: see pageData.
func encode(list []slice, numbers func(*slice) (name, detail, link uint64)) string {
	slices.SortStableFunc(list, func(a, b slice) int { return cmp.Compare(a.start, b.start) })
	var b []byte
	before, latest := uint64(0), int64(0)
	for _, s := range list {
		b = binary.AppendUvarint(b, s.start-before)
		b = binary.AppendUvarint(b, max(s.end, s.start)-s.start)
		before = s.start
		name, detail, link := numbers(&s)
		b = binary.AppendUvarint(binary.AppendUvarint(b, name), detail)
		if link == 0 {
			b = append(b, 0)
			continue
		}
		apart := int64(link) - latest
		b = binary.AppendUvarint(b, 1+(uint64(apart)<<1^uint64(apart>>63)))
		latest = int64(link)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// linkOf is the number of a call and its GPU work, 0 for none.
func (w *pageWriter) linkOf(call callKey) uint64 {
	if call == (callKey{}) {
		return 0
	}
	return uint64(w.calls.number(call)) + 1
}

func (w *pageWriter) nameOf(of uint32) uint64 {
	n, known := w.names[of]
	if known {
		return n
	}
	k := w.Timeline.names.list[of]
	text := func(s string) string { return figures.Cut(figures.Clean(s), figures.LongText) }
	name := [3]string{text(cmp.Or(k.short, w.short.Known(k.text), k.text)), text(k.text), k.class}
	if name[0] == name[1] {
		name[1] = ""
	}
	n = uint64(len(w.data.Names))
	w.data.Names, w.names[of] = append(w.data.Names, name), n
	return n
}

func (w *pageWriter) detailOf(of uint32) uint64 {
	n, known := w.details[of]
	if known {
		return n
	}
	n = uint64(len(w.data.Details))
	text := w.Timeline.details.list[of].text()
	if text == "" {
		n = 0
	} else {
		w.data.Details = append(w.data.Details, text)
	}
	w.details[of] = n
	return n
}

// text is what a tooltip has below the name and the length, line by line.
func (k *detailKey) text() string {
	var lines []string
	add := func(form string, args ...any) {
		lines = append(lines, figures.Cut(figures.Clean(fmt.Sprintf(form, args...)), mostDetail))
	}
	if s := k.shape; s != nil {
		x := &s.Kernel
		switch {
		case x.Name != "":
			add("grid %d×%d×%d, block %d×%d×%d, %d registers", x.Grid[0], x.Grid[1], x.Grid[2], x.Block[0], x.Block[1],
				x.Block[2], x.Registers)
			if shared := x.StaticShared + x.DynamicShared; shared > 0 {
				add("%s of shared memory", figures.Bytes(shared))
			}
		case s.Memcpy.Bytes > 0:
			add("%s", figures.Bytes(s.Memcpy.Bytes))
		case s.Memset.Bytes > 0:
			add("%s", figures.Bytes(s.Memset.Bytes))
		}
	}
	if k.note != "" {
		add("%s", k.note)
	}
	if p := k.python; p != nil {
		if add("%s", p.Own().Text()); p.Parent != nil {
			add("stack: %s", p.Stack())
		}
	}
	if k.caller != nil {
		add("called from %s", k.caller.Text())
	}
	return strings.Join(lines, "\n")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
