package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/live"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// rate is a number of things a second.
func rate(n uint64, r *live.Report) string {
	return figures.Group(uint64(float64(n)*1e9/float64(max(r.Length(), 1))+0.5)) + "/s"
}

// throughput is a number of bytes a second.
func throughput(bytes uint64, r *live.Report) string {
	return fmt.Sprintf("%.2f GB/s", float64(bytes)/float64(max(r.Length(), 1)))
}

// percent is a part of a whole.
func percent(part, whole uint64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(whole, 1)))
}

// seconds is a time of the recording.
func seconds(ns uint64) string { return fmt.Sprintf("%.0f s", float64(ns)/1e9) }

// busiest is the row with the most time in the interval; nil without one.
func busiest(rows []live.Row) *live.Row {
	var best *live.Row
	for i := range rows {
		if r := &rows[i]; r.Now.N > 0 && (best == nil || r.Now.Time > best.Now.Time) {
			best = r
		}
	}
	return best
}

// lineText is a Python line without the folders of its file.
func lineText(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// framedShare is the share of the GPU work so far whose call has a Python frame.
func framedShare(r *live.Report) string {
	framed, work := uint64(0), uint64(0)
	for i := range r.Lines {
		l := &r.Lines[i]
		work += l.All.N
		if !strings.HasPrefix(l.Name, "(no Python frame") {
			framed += l.All.N
		}
	}
	return percent(framed, work)
}

// timeOf is the time of all rows, in the interval or so far.
func timeOf(rows []live.Row, count func(*live.Row) *live.Count) (ns uint64) {
	for i := range rows {
		ns += count(&rows[i]).Time
	}
	return ns
}

func now(r *live.Row) *live.Count { return &r.Now }
func all(r *live.Row) *live.Count { return &r.All }

// copyTexts are the throughputs of the directions with copies.
func copyTexts(r *live.Report, always bool) (texts []string) {
	rows := slices.Clone(r.Copies)
	slices.SortFunc(rows, func(a, b live.Row) int { return cmp.Compare(a.Name, b.Name) })
	for i := range rows {
		if always || rows[i].Now.N > 0 {
			texts = append(texts, rows[i].Name+" "+throughput(rows[i].Now.Bytes, r))
		}
	}
	return texts
}

// sensorTexts are the sampled metrics of a GPU.
func sensorTexts(g *live.GPU) (texts []string) {
	if g.Power != nil {
		texts = append(texts, fmt.Sprintf("%.0f W", *g.Power))
	}
	if g.SMClock != nil {
		texts = append(texts, fmt.Sprintf("SM clock %.0f MHz", *g.SMClock/1e6))
	}
	if g.SMActive != nil {
		texts = append(texts, fmt.Sprintf("SM active %.1f %%", *g.SMActive))
	}
	return texts
}

// idleText says what the thread that launches a GPU's work did while the GPU was idle, "" if that is not known or the
// GPU was hardly idle. Most is the number of parts that are named.
func idleText(g *live.GPU, r *live.Report, most int) string {
	idle := r.Length() - min(g.Busy, r.Length())
	if len(g.Idle) == 0 || float64(idle) < leastIdle*float64(r.Length()) {
		return ""
	}
	var parts []string
	for i, part := range g.Idle[:min(len(g.Idle), most)] {
		text := part.What
		if i == 0 && !strings.HasPrefix(text, "(") {
			text = "in " + text
		}
		if most > 1 {
			text += fmt.Sprintf(" %.0f %%", 100*part.Share)
		}
		parts = append(parts, text)
	}
	return fmt.Sprintf("idle %.0f %%: %s %s", 100*float64(idle)/float64(r.Length()), threadText(g.Thread),
		strings.Join(parts, "; "))
}

// leastIdle is the least part of an interval for which a GPU was idle of which the cause is shown.
const leastIdle = 0.05

func threadText(t *timeline.Thread) string {
	if t.Main {
		return "main thread"
	}
	return "thread " + cmp.Or(t.Name, fmt.Sprint(t.TID))
}

// plainText is a report in a line, with short names of kernels.
func plainText(r *live.Report, names *kernelnames.Names) string {
	parts := []string{rate(r.Now.Launches, r) + " launches", rate(r.Now.Calls, r) + " calls"}
	for _, g := range r.GPUs {
		text := fmt.Sprintf("GPU %d %s busy, queue %.1f", g.Index, percent(g.Busy, r.Length()), g.Queue)
		if g.Memory.Peak > 0 {
			text += ", " + figures.Bytes(g.Memory.Live)
		}
		if sensed := sensorTexts(&g); len(sensed) > 0 {
			text += ", " + strings.Join(sensed, ", ")
		}
		if idle := idleText(&g, r, 1); idle != "" {
			text += ", " + idle
		}
		parts = append(parts, text)
	}
	parts = append(parts, copyTexts(r, false)...)
	if k := busiest(r.Kernels); k != nil {
		parts = append(parts, fmt.Sprintf("kernel %s %s", names.Of(k.Name), percent(k.Now.Time, timeOf(r.Kernels, now))))
	}
	if l := busiest(r.Lines); l != nil {
		parts = append(parts, fmt.Sprintf("line %s %s", figures.Cut(lineText(l.Name), 40),
			percent(l.Now.Time, timeOf(r.Lines, now))))
	}
	if f := busiest(r.Functions); f != nil {
		parts = append(parts, fmt.Sprintf("call %s %s", f.Name, percent(f.Now.Time, r.Now.CallTime)))
	}
	if r.Now.Failed > 0 {
		parts = append(parts, figures.Count(r.Now.Failed, "call failed", "calls failed"))
	}
	if r.Now.Lost > 0 {
		parts = append(parts, figures.Count(r.Now.Lost, "record lost", "records lost"))
	}
	return seconds(r.To) + ": " + strings.Join(parts, "; ")
}

// totalText is what was counted in all.
func totalText(r *live.Report) string {
	text := fmt.Sprintf("%s, %s, %s, %s, %s", figures.Count(r.All.Launches, "launch", "launches"),
		figures.Count(r.All.Calls, "call", "calls"), figures.Count(r.All.Kernels, "kernel", "kernels"),
		figures.Count(r.All.Copies, "copy", "copies"), figures.Count(r.All.Memsets, "memset", "memsets"))
	if r.All.Failed > 0 {
		text += "; " + figures.Count(r.All.Failed, "call failed", "calls failed")
	}
	if r.All.Lost > 0 {
		text += "; " + figures.Count(r.All.Lost, "record lost", "records lost")
	}
	return text
}
