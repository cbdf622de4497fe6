package report

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A bar is a row of a bar chart.
type bar struct {
	class, name, value, detail string
	length, light              float64 // light is drawn behind length, in a lighter colour
}

// Sizes of a bar chart.
const (
	mostBars  = 12
	barHeight = 16
	barGap    = 8
	nameWidth = 410
	barsWidth = 420 // the rest has the values
)

// bars draws bars from the largest to the smallest.
func bars(list []bar, legends []legend) *drawing {
	d := new(drawing)
	y, most := 4.0, 0.0
	if len(legends) > 0 {
		d.legend(11, legends)
		y = topHeight
	}
	for _, b := range list {
		most = max(most, b.length, b.light)
	}
	for _, b := range list {
		d.text("end", nameWidth-10, y+12, figures.Cut(b.name, nameWidth/7))
		d.track(nameWidth, y, barsWidth, barHeight)
		if b.light > b.length {
			d.rect(b.class+" light", nameWidth, y, b.light/most*barsWidth, barHeight, "")
		}
		d.rect(b.class, nameWidth, y, max(b.length/most*barsWidth, 0.8), barHeight, b.name+": "+b.value)
		d.text("strong", nameWidth+barsWidth+10, y+12, b.value)
		d.text("t2 end", chartWidth, y+12, b.detail)
		y += barHeight + barGap
	}
	d.height = y
	return d
}

// kernels draws the kernels with most time.
func (r *Report) kernels() *Chart {
	t := r.table("kernels")
	if len(t.Rows) == 0 {
		return nil
	}
	var list []bar
	for _, row := range t.Rows[:min(len(t.Rows), mostBars)] {
		class := "compute"
		if activity.KernelClass(text(t, row, "name")) == activity.Communication {
			class = "comm"
		}
		list = append(list, bar{class: class, name: text(t, row, "name"), value: words(t, row, "total_ns"),
			detail: words(t, row, "share") + ", " + words(t, row, "count") + " ×", length: float64(whole(t, row, "total_ns"))})
	}
	return &Chart{Title: "Kernels", Note: "Time on the GPU by kernel, its share of all GPU work, and how often it ran.", drawing: bars(list, nil), Tables: []*table.Table{shown(t, maxTableRows)}}
}

// A pathKind is the colour of a kind of what is on a critical path.
type pathKind struct {
	kind string // "" for every other one
	legend
}

var pathKinds = []pathKind{
	{"kernel", legend{"compute", "kernels"}}, {"communication", legend{"comm", "communication"}}, {"copy", legend{"copy", "copies"}}, {"set", legend{"set", "memory sets"}},
	{"call", legend{"call", "calls"}}, {"code", legend{"py", "code outside of calls"}}, {"blocked", legend{"wait", "blocked"}}, {"", legend{"idle", "other time"}},
}

// path draws what the critical path of a step is made of, of the kind of step with most time.
func (r *Report) path() *Chart {
	t := r.table("critical_path")
	if len(t.Rows) == 0 {
		return nil
	}
	var list []bar
	shows := make([]bool, len(pathKinds))
	step := text(t, t.Rows[0], "step")
	for _, row := range t.Rows {
		if len(list) == mostBars {
			break
		}
		if text(t, row, "step") != step {
			continue
		}
		kind := slices.IndexFunc(pathKinds, func(k pathKind) bool { return k.kind == "" || k.kind == text(t, row, "kind") })
		shows[kind] = true
		name := text(t, row, "name")
		for _, key := range []string{"place", "on"} {
			if more := text(t, row, key); more != "" {
				name += ", " + more
			}
		}
		if cell(t, row, "rank") != nil {
			name += ", rank " + words(t, row, "rank")
		}
		detail := words(t, row, "share")
		if n, all := whole(t, row, "steps"), whole(t, row, "of_steps"); n < all {
			detail += ", in " + figures.Group(n) + " of " + figures.Group(all)
		}
		list = append(list, bar{class: pathKinds[kind].class, name: name, value: words(t, row, "mean_ns"), detail: detail, length: float64(whole(t, row, "total_ns"))})
	}
	var legends []legend
	for i, k := range pathKinds {
		if shows[i] {
			legends = append(legends, k.legend)
		}
	}
	note := "The chain of work and waits that made steps as long as they were: the mean time in a step, its share of all steps, and in how many it is if not in all."
	if n := whole(t, t.Rows[0], "starting"); n > 0 {
		note += fmt.Sprintf(" Not counted: %s of the start-up, %s.", figures.Count(n, "step", "steps"), words(t, t.Rows[0], "starting_ns"))
	}
	return &Chart{Title: "The critical path of a step", Note: note,
		drawing: bars(list, legends), Tables: []*table.Table{shown(t, maxTableRows)}}
}

// python draws the Python lines with most GPU time.
func (r *Report) python() *Chart {
	t := r.table("python")
	if len(t.Rows) == 0 {
		return nil
	}
	var list []bar
	for _, row := range t.Rows[:min(len(t.Rows), mostBars)] {
		list = append(list, bar{class: "py", name: text(t, row, "name"), value: words(t, row, "total_ns"), detail: words(t, row, "share"),
			length: float64(whole(t, row, "total_ns")), light: float64(whole(t, row, "inclusive_ns"))})
	}
	return &Chart{Title: "Python lines", Note: "GPU time of what each line launched; the light part is launched by the functions that the line calls.",
		drawing: bars(list, nil), Tables: []*table.Table{shown(t, maxTableRows)}}
}

// idle draws what GPUs waited for.
func (r *Report) idle() *Chart {
	t := r.table("idle")
	if len(t.Rows) == 0 {
		return nil
	}
	gpus := make(map[uint64]bool)
	for _, row := range t.Rows {
		gpus[whole(t, row, "gpu")] = true
	}
	var list []bar
	for _, row := range t.Rows[:min(len(t.Rows), mostBars)] {
		name := text(t, row, "what")
		if len(gpus) > 1 {
			name += fmt.Sprintf(", GPU %d", whole(t, row, "gpu"))
		}
		list = append(list, bar{class: "idle", name: name, value: words(t, row, "total_ns"), detail: words(t, row, "share") + ", " + text(t, row, "name"),
			length: float64(whole(t, row, "total_ns"))})
	}
	return &Chart{Title: "Idle GPUs", Note: "Time in which a GPU had nothing to do, by what its program did meanwhile.", drawing: bars(list, nil), Tables: []*table.Table{shown(t, maxTableRows)}}
}
