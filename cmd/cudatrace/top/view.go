package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/live"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A view is what a person sees of the latest report, and how they want it.
type view struct {
	name   string       // of the log or the program
	report *live.Report // nil before the first
	latest *live.Report // what report becomes after a pause
	state  string       // what else there is to know
	keys   bool         // keys are read

	order   int    // index of orders
	total   bool   // rows are sorted by all intervals, not by the latest one
	filter  string // rows whose name has this text are shown
	typing  bool   // the filter is being typed
	tables  int    // index of sets
	stopped bool   // the report on the screen stays

	short   *kernelnames.Names // of the kernels
	shortOf int                // how many they are
	help    bool
}

// orders are the orders of rows.
var orders = []struct {
	name    string
	compare func(a, b *live.Count) int
}{
	{"time", func(a, b *live.Count) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.N, a.N)) }},
	{"count", func(a, b *live.Count) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(b.Time, a.Time)) }},
	{"mean", func(a, b *live.Count) int { return cmp.Or(cmp.Compare(b.Mean(), a.Mean()), cmp.Compare(b.N, a.N)) }},
}

// A tableName names a table by what its rows are.
type tableName string

const (
	kernelTable   tableName = "kernel"
	functionTable tableName = "function"
	lineTable     tableName = "line"
)

// sets are the tables that are shown together: with Python lines first, if there are any.
func (v *view) sets() [][]tableName {
	sets := [][]tableName{{kernelTable, functionTable}, {kernelTable}, {functionTable}}
	if v.report != nil && len(v.report.Lines) > 0 {
		return append([][]tableName{{lineTable, kernelTable}, {lineTable}}, sets...)
	}
	return sets
}

const keyEscape, keyEnter, keyBackspace, keyDelete = "\x1b", "\n", "\b", "\x7f"

// key takes a key and reports whether the person wants to end.
func (v *view) key(key string) (quit bool) {
	if v.typing {
		v.typed(key)
		return false
	}
	switch key {
	case "q", "Q":
		return true
	case "s":
		v.order = (v.order + 1) % len(orders)
	case "a":
		v.total = !v.total
	case "t", "\t":
		v.tables = (v.tables + 1) % len(v.sets())
	case "/", "f":
		v.typing = true
	case keyEscape:
		v.filter, v.help = "", false
	case " ", "p":
		v.stopped = !v.stopped
		v.report = v.latest
	case "h", "?":
		v.help = !v.help
	}
	return false
}

// maxFilter bounds the text of a filter.
const maxFilter = 64

// typed takes a key of the filter.
func (v *view) typed(key string) {
	switch key {
	case keyEnter, "\r":
		v.typing = false
	case keyEscape:
		v.typing, v.filter = false, ""
	case keyBackspace, keyDelete:
		_, size := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-size]
	default:
		if !strings.HasPrefix(key, keyEscape) && key >= " " && len(v.filter) < maxFilter {
			v.filter += key
		}
	}
}

// lines are the lines of a screen of a size.
func (v *view) lines(width, height int) []console.Line {
	lines := []console.Line{{Text: spread(width, "cudatrace top: "+v.name, v.when()), Style: console.Reverse}}
	if v.report != nil {
		lines = append(lines, v.head(width)...)
	}
	foot := v.foot(width)
	room := height - len(lines) - len(foot)
	switch {
	case v.help:
		lines = append(lines, helpLines...)
	case v.report != nil:
		lines = append(lines, v.body(width, room)...)
	}
	for len(lines) < height-len(foot) {
		lines = append(lines, console.Line{})
	}
	return append(lines[:max(height-len(foot), 0)], foot...)
}

var helpLines = []console.Line{
	{}, {Text: "  s      sort rows by time, count or mean"}, {Text: "  a      sort by all so far, or by the last second"},
	{Text: "  t      other tables: Python lines if there are any, kernels, functions"},
	{Text: "  f, /   show rows whose name has a text; ESC shows all again"},
	{Text: "  p      pause the screen; what comes meanwhile is counted"}, {Text: "  h, ?   this help, and back"},
	{Text: "  q      quit; a program that is recorded runs on"},
	{Text: "  Ctrl-C quit, and end the program that is recorded"},
}

// when says which interval is shown.
func (v *view) when() string {
	switch {
	case v.report == nil:
		return "waiting for CUDA "
	case v.stopped:
		return "paused at " + seconds(v.report.To) + " "
	}
	return seconds(v.report.To) + " "
}

// head are the figures above the tables.
func (v *view) head(width int) []console.Line {
	r := v.report
	lines := []console.Line{{Text: columns(width/4, rate(r.Now.Launches, r)+" launches", rate(r.Now.Calls, r)+" calls",
		rate(r.Now.Work(), r)+" on GPUs", problems(r))}}
	for _, g := range r.GPUs[:min(len(r.GPUs), maxGPULines)] {
		memory := ""
		if g.Memory.Peak > 0 {
			memory = fmt.Sprintf("memory %s (peak %s)", figures.Bytes(g.Memory.Live), figures.Bytes(g.Memory.Peak))
		}
		busy := percent(g.Busy, r.Length())
		lines = append(lines, console.Line{Text: fmt.Sprintf("GPU %-2d busy %7s %s  queue %-7.1f %s", g.Index, busy,
			bar(g.Busy, r.Length(), max(width/4-10, 10)), g.Queue, memory)})
		if idle := idleLine(&g, r, width-len(underGPU)); idle != "" {
			lines = append(lines, console.Line{Text: underGPU + idle})
		}
		if sensed := sensorTexts(&g); len(sensed) > 0 {
			lines = append(lines, console.Line{Text: underGPU + strings.Join(sensed, "   ")})
		}
	}
	if more := len(r.GPUs) - maxGPULines; more > 0 {
		lines = append(lines, console.Line{Text: figures.Count(more, "more GPU is", "more GPUs are") + " not shown"})
	}
	if copies := copyTexts(r, true); len(copies) > 0 {
		lines = append(lines, console.Line{Text: "copies " + strings.Join(copies, "   ")})
	}
	return append(lines, problemLines(r)...)
}

// underGPU stands before what belongs to the GPU of the line above.
const underGPU = "       "

// idleLine has as many parts of a GPU's idle time as fit, at least one.
func idleLine(g *live.GPU, r *live.Report, width int) string {
	most := len(g.Idle)
	text := idleText(g, r, most)
	for ; most > 1 && utf8.RuneCountInString(console.Escape(text)) > width; most-- {
		text = idleText(g, r, most-1)
	}
	return figures.Cut(console.Escape(text), max(width, 1))
}

// maxGPULines is the most GPUs that have a line of their own.
const maxGPULines = 8

// problems counts errors and losses so far.
func problems(r *live.Report) string {
	return fmt.Sprintf("%s failed, %s lost", figures.Group(r.All.Failed), figures.Group(r.All.Lost))
}

// problemLines name the most frequent error and the losses.
func problemLines(r *live.Report) (lines []console.Line) {
	if len(r.Errors) > 0 {
		e := slices.MaxFunc(r.Errors, func(a, b live.Row) int { return cmp.Compare(a.All.N, b.All.N) })
		text := fmt.Sprintf("failed %s (%s)", e.Name, figures.Count(e.All.N, "call", "calls"))
		if more := len(r.Errors) - 1; more > 0 {
			text += fmt.Sprintf(" and %s", figures.Count(more, "other error", "other errors"))
		}
		lines = append(lines, console.Line{Text: text, Style: console.Bold})
	}
	if len(r.Losses) > 0 {
		var words []string
		for i := range r.Losses {
			words = append(words, figures.Group(r.Losses[i].All.N)+" "+r.Losses[i].Name)
		}
		lines = append(lines, console.Line{Text: "lost " + strings.Join(words, ", "), Style: console.Bold})
	}
	return lines
}

// body are the tables.
func (v *view) body(width, room int) (lines []console.Line) {
	sets := v.sets()
	names := sets[min(v.tables, len(sets)-1)]
	for i, name := range names {
		rows := map[tableName][]live.Row{kernelTable: v.report.Kernels, functionTable: v.report.Functions,
			lineTable: v.report.Lines}[name]
		lines = append(lines, v.table(name, rows, width, (room-len(lines))/(len(names)-i))...)
	}
	return lines
}

// figuresWidth is the width of the columns of a table without its first one.
const figuresWidth = 54

// table is a table of at most some lines.
func (v *view) table(name tableName, rows []live.Row, width, room int) []console.Line {
	if room < 3 {
		return nil
	}
	wide := max(width-figuresWidth, 10)
	title, shown := string(name)+"s", func(name string) string { return name }
	switch name {
	case kernelTable:
		shown = v.shortNames(rows).Of
	case lineTable:
		title, shown = "lines (of "+framedShare(v.report)+" of work)", lineText
	}
	rows = v.chosen(rows, shown)
	head := fmt.Sprintf("%s%9s%9s%9s%9s%9s%9s", fit(title, wide), "share", "a second", "mean", "all", "count", "mean")
	lines := []console.Line{{}, {Text: head, Style: console.Bold}}
	ofNow, ofAll := timeOf(rows, now), timeOf(rows, all)
	for i := range rows[:min(len(rows), room-2)] {
		r := &rows[i]
		lines = append(lines, console.Line{Text: fmt.Sprintf("%s%9s%9s%9s%9s%9s%9s", fit(shown(r.Name), wide),
			percent(r.Now.Time, ofNow), short(uint64(float64(r.Now.N)*1e9/float64(max(v.report.Length(), 1))+0.5)),
			brief(r.Now.Mean()),
			percent(r.All.Time, ofAll), short(r.All.N), brief(r.All.Mean()))})
	}
	return lines
}

// shortNames are the names of all kernels so far for people.
func (v *view) shortNames(rows []live.Row) *kernelnames.Names {
	if v.short == nil || v.shortOf != len(rows) {
		all := make([]timeline.KernelName, 0, len(rows))
		for i := range rows {
			all = append(all, timeline.KernelName{Short: rows[i].Name})
		}
		v.short, v.shortOf = kernelnames.New(all), len(rows)
	}
	return v.short
}

// chosen are the rows that the filter leaves, by their names or by what is shown of them, in the order that the person
// wants.
func (v *view) chosen(rows []live.Row, shown func(string) string) []live.Row {
	rows = slices.Clone(rows)
	if v.filter != "" {
		text := strings.ToLower(v.filter)
		rows = slices.DeleteFunc(rows, func(r live.Row) bool {
			return !strings.Contains(strings.ToLower(r.Name), text) && !strings.Contains(strings.ToLower(shown(r.Name)), text)
		})
	}
	first, second := now, all
	if v.total {
		first, second = all, now
	}
	compare := orders[v.order].compare
	slices.SortStableFunc(rows, func(a, b live.Row) int {
		return cmp.Or(compare(first(&a), first(&b)), compare(second(&a), second(&b)), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

// foot are the lines at the bottom.
func (v *view) foot(width int) []console.Line {
	keys := "Ctrl-C ends the program and this view; for keys, start with </dev/null"
	if v.keys {
		by := "last second"
		if v.total {
			by = "all"
		}
		keys = fmt.Sprintf("s sort: %s  a: %s  t tables  f filter  p pause  h help  q quit", orders[v.order].name, by)
	}
	if v.typing {
		keys = "filter: " + v.filter + "_  (Enter: done, ESC: all rows)"
	} else if v.filter != "" {
		keys = "filter: " + v.filter + "  (ESC: all rows)  " + keys
	}
	var lines []console.Line
	if v.state != "" {
		lines = append(lines, console.Line{Text: v.state, Style: console.Bold})
	}
	return append(lines, console.Line{Text: spread(width, keys, ""), Style: console.Reverse})
}

// bar draws a part of a whole.
func bar(part, whole uint64, width int) string {
	n := int(float64(part)/float64(max(whole, 1))*float64(width) + 0.5)
	n = max(min(n, width), 0)
	return strings.Repeat("█", n) + strings.Repeat("·", width-n)
}

// spread puts a text at each end of a line.
func spread(width int, left, right string) string {
	left = figures.Cut(console.Escape(left), max(width-utf8.RuneCountInString(right)-1, 1))
	return left + strings.Repeat(" ", max(width-utf8.RuneCountInString(left)-utf8.RuneCountInString(right), 0)) + right
}

// columns puts texts below each other in lines.
func columns(width int, texts ...string) string {
	var b strings.Builder
	for _, t := range texts {
		b.WriteString(fit(t, width))
	}
	return b.String()
}

// fit makes a text exactly as wide as a column; a space follows it.
func fit(text string, width int) string {
	text = figures.Cut(console.Escape(text), max(width-1, 1))
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}

// short is a number in at most 8 characters.
func short(n uint64) string {
	switch {
	case n >= 1e13:
		return fmt.Sprintf("%.0e", float64(n))
	case n >= 1e9:
		return fmt.Sprintf("%.1fG", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", float64(n)/1e6)
	}
	return figures.Group(n)
}

// brief is a time in at most 8 characters.
func brief(ns uint64) string {
	switch {
	case ns == 0:
		return "-"
	case ns < 1e6:
		return fmt.Sprintf("%.1f µs", float64(ns)/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.1f ms", float64(ns)/1e6)
	case ns < 1e12:
		return fmt.Sprintf("%.1f s", float64(ns)/1e9)
	}
	return fmt.Sprintf("%.0f s", float64(ns)/1e9)
}
