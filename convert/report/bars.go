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
	"github.com/cudatrace/cudatrace/record/figures"
)

// A bar is a row of a bar chart.
type bar struct {
	class, name, value, detail string
	full                       string  // name in full, "" if name is
	length, light              float64 // light is drawn behind length, in a lighter colour
	find, at                   string  // what the timeline has of it: see sheetRow
}

// Sizes of a bar chart.
const (
	mostBars  = 12
	barHeight = 16
	barGap    = 8
	nameWidth = 410
	barsWidth = 340 // the rest has the values
)

// bars draws bars from the largest to the smallest.
func bars(list []bar, legends []legend) *drawing {
	d := new(drawing)
	y := 4.0
	if len(legends) > 0 {
		d.legend(11, legends)
		y = topHeight
	}
	d.height = d.bars(y, list)
	return d
}

// bars draws bars from a height on.
func (d *drawing) bars(y float64, list []bar) float64 {
	most := 0.0
	for _, b := range list {
		most = max(most, b.length, b.light)
	}
	names := labels(list, nameWidth/7)
	for i, b := range list {
		d.lead(b.find, b.at)
		d.hover("end", nameWidth-10, y+12, names[i], b.full)
		d.track(nameWidth, y, barsWidth, barHeight)
		if b.light > b.length {
			d.rect(b.class+" light", nameWidth, y, b.light/most*barsWidth, barHeight, "")
		}
		d.rect(b.class, nameWidth, y, max(b.length/most*barsWidth, 0.8), barHeight, cmp.Or(b.full, b.name)+": "+b.value)
		d.text("strong", nameWidth+barsWidth+10, y+12, b.value)
		d.text("t2 end", chartWidth, y+12, b.detail)
		d.b.WriteString("</g>\n")
		y += barHeight + barGap
	}
	return y
}

// labels are the names of bars, cut to a width, but not where they differ.
func labels(list []bar, width int) []string {
	names, texts := make([][]rune, len(list)), make([]string, len(list))
	for i := range list {
		names[i], texts[i] = []rune(list[i].name), figures.Cut(list[i].name, width)
	}
	for range list { // names that differ in one place may be cut at the next one
		by, apart := make(map[string][]int), true
		for i, text := range texts {
			by[text] = append(by[text], i)
		}
		for _, same := range by {
			from, differ := len(names[same[0]]), false // of the first difference
			for _, i := range same[1:] {
				from = min(from, common(names[same[0]], names[i]))
				differ = differ || list[i].name != list[same[0]].name
			}
			if !differ {
				continue
			}
			apart = false
			for _, i := range same {
				head, rest := width/4, max(from-width/6, 0)
				if rest <= head {
					head, rest = 0, max(from-width/3, 0)
				}
				texts[i] = figures.Cut(string(names[i][:head])+"…"+string(names[i][rest:]), width)
			}
		}
		if apart {
			break
		}
	}
	return texts
}

// common is the number of characters with which both begin.
func common(a, b []rune) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// kernels draws the kernels with most time.
func (r *Report) kernels() *Chart {
	t, rows := table.Find[stats.KernelCells](r.Tables)
	if len(rows) == 0 {
		return nil
	}
	var list []bar
	names := t.Texts(t.Column("name"))
	for i, x := range rows[:min(len(rows), mostBars)] {
		class := "compute"
		if activity.KernelClass(x.Name) == activity.Communication {
			class = "comm"
		}
		list = append(list, bar{class: class, name: names[i], full: x.Name, value: duration(x.Total),
			detail: share(x.Share) + ", " + figures.Group(x.Count) + " ×", length: float64(x.Total), find: x.Name})
	}
	return &Chart{Title: "Kernels", Note: "Time on the GPU by kernel, its share of all GPU work, and how often it ran.",
		drawing: bars(list, nil), Tables: []*table.Table{shown(t)}}
}

// shortNames are the names of the kernels of the report for people.
func (r *Report) shortNames() *kernelnames.Names {
	if r.short != nil {
		return r.short
	}
	_, rows := table.Find[stats.KernelCells](r.Tables)
	var all []timeline.KernelName
	for _, x := range rows {
		all = append(all, timeline.KernelName{Short: x.Name, Full: x.Signature})
	}
	r.short = kernelnames.New(all)
	return r.short
}

// A pathKind is the colour of a kind of what is on a critical path.
type pathKind struct {
	kind string // "" for every other one
	legend
}

var pathKinds = []pathKind{
	{"kernel", legend{"compute", "kernels"}}, {"communication", legend{"comm", "communication"}},
	{"copy", legend{"copy", "copies"}}, {"set", legend{"set", "memory sets"}},
	{"call", legend{"call", "calls"}}, {"code", legend{"py", "code outside of calls"}},
	{"blocked", legend{"wait", "blocked"}}, {"", legend{"idle", "other time"}},
}

// path draws what the critical path of a step is made of, of the kind of step with most time.
func (r *Report) path() *Chart {
	t, rows := table.Find[stats.PathCells](r.Tables)
	if len(rows) == 0 {
		return nil
	}
	var list []bar
	shows := make([]bool, len(pathKinds))
	names := t.Texts(t.Column("name"))
	for i, x := range rows {
		if len(list) == mostBars {
			break
		}
		if x.Step != rows[0].Step {
			continue
		}
		kind := slices.IndexFunc(pathKinds, func(k pathKind) bool { return k.kind == "" || k.kind == x.Kind })
		shows[kind] = true
		name, full := names[i], x.Name
		for _, more := range []string{x.Place, x.On} {
			if more != "" {
				name, full = name+", "+more, full+", "+more
			}
		}
		if x.Rank != nil {
			rank := fmt.Sprintf(", rank %d", *x.Rank)
			name, full = name+rank, full+rank
		}
		detail := share(x.Share)
		if x.Steps < uint64(x.OfSteps) {
			detail += ", in " + figures.Group(x.Steps) + " of " + figures.Group(x.OfSteps)
		}
		list = append(list, bar{class: pathKinds[kind].class, name: name, full: full,
			value: table.Words(x.Mean, table.Duration), detail: detail, length: float64(x.Total)})
	}
	var legends []legend
	for i, k := range pathKinds {
		if shows[i] {
			legends = append(legends, k.legend)
		}
	}
	note := "The chain of work and waits that made steps as long as they were: " +
		"the mean time in a step, its share of all steps, and in how many it is if not in all."
	if x := rows[0]; x.Starting > 0 {
		steps := figures.Count(x.Starting, "step", "steps")
		note += fmt.Sprintf(" Not counted: %s of the start-up, %s.", steps, duration(x.StartingTime))
	}
	return &Chart{Title: "The critical path of a step", Note: note,
		drawing: bars(list, legends), Tables: []*table.Table{shown(t)}}
}

// python draws the Python lines with most GPU time.
func (r *Report) python() *Chart {
	t, rows := table.Find[stats.PythonCells](r.Tables)
	if len(rows) == 0 {
		return nil
	}
	var list []bar
	for _, x := range rows[:min(len(rows), mostBars)] {
		list = append(list, bar{class: "py", name: x.Name, value: duration(x.Total), detail: share(x.Share),
			length: float64(x.Total), light: float64(x.Inclusive), find: x.Name})
	}
	return &Chart{Title: "Python lines",
		Note:    "GPU time of what each line launched; the light part is launched by the functions that the line calls.",
		drawing: bars(list, nil), Tables: []*table.Table{shown(t)}}
}

// idle draws what GPUs waited for.
func (r *Report) idle() *Chart {
	t, rows := table.Find[stats.IdleCells](r.Tables)
	if len(rows) == 0 {
		return nil
	}
	several := slices.ContainsFunc(rows, func(x *stats.IdleCells) bool { return x.GPU != rows[0].GPU })
	var list []bar
	for _, x := range rows[:min(len(rows), mostBars)] {
		name := x.What
		if several {
			name += fmt.Sprintf(", GPU %d", x.GPU)
		}
		list = append(list, bar{class: "idle", name: name, value: x.TotalWords(), detail: x.ShareWords() + ", " + x.Name,
			length: float64(x.Total), at: r.idleAt(x)})
	}
	return &Chart{Title: "Idle GPUs", Note: "Time in which a GPU had nothing to do, by what its program did meanwhile.",
		drawing: bars(list, nil), Tables: []*table.Table{shown(t)}}
}
