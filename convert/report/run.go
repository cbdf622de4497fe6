package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Kinds of work that keep a GPU busy, from the bottom of a lane to its top.
var kinds = []struct {
	legend
	of func(*activity.Slice) uint64
}{
	{legend{"compute", "compute"}, func(s *activity.Slice) uint64 { return s.Compute - s.CommunicationOverlap }},
	{legend{"both", "compute and communication"}, func(s *activity.Slice) uint64 { return s.CommunicationOverlap }},
	{legend{"comm", "communication alone"}, (*activity.Slice).Exposed},
	{legend{"copy", "copies alone"}, func(s *activity.Slice) uint64 {
		return s.Busy - min(s.Busy, s.Compute+s.Communication-s.CommunicationOverlap)
	}},
}

// Heights of the rows of the run.
const (
	laneHeight  = 46
	curveHeight = 34
	stepHeight  = 12
	rowGap      = 10
	topHeight   = 22  // with the legend
	valueWidth  = 76  // of the numbers behind the rows
	startWidth  = 150 // of a start-up that would take more
)

// run draws the whole run: what GPUs did, memory, power and steps.
func (r *Report) run() *Chart {
	lanes, more := r.Overview.lanes(mostLanes)
	if len(lanes) == 0 {
		return nil
	}
	from, to := timeline.Never, uint64(0)
	for _, l := range lanes {
		from, to = min(from, l.bins[0].Start), max(to, l.bins[len(l.bins)-1].End)
	}
	d := new(drawing)
	s := scale{from: from, to: max(to, from+1), x: labelWidth, width: chartWidth - labelWidth - valueWidth}
	started := r.Overview.start + r.startup()
	s.bend(started, startWidth)
	y := float64(topHeight)
	var used []legend
	var totals [4]uint64
	for _, l := range lanes {
		d.drawLane(s, y, &l, started, &totals)
		y += laneHeight + rowGap
	}
	for i, k := range kinds {
		if totals[i] > 0 {
			used = append(used, k.legend)
		}
	}
	d.legend(11, used)
	y = d.drawCurves(s, y, "memory", r.Overview.memory(), table.Bytes)
	y = d.drawCurves(s, y, "power", r.Overview.power(), table.Watt)
	y = r.drawSteps(d, s, y)
	r.shade(d, s, y)
	d.axis(s, topHeight, y, r.Overview.start)
	d.height = y + 22
	c := &Chart{Title: "The whole run", drawing: d, Note: "How much of the time each GPU was busy, and with what; " +
		"a full lane is a GPU that is never idle. Times count from the start of the recording."}
	if s.before > 0 {
		c.Note += " The start-up is drawn shorter than it took, and not part of the shares at the right."
	}
	if r.Part != nil {
		c.Note += " The red frame is the part that is drawn by itself."
	}
	if more > 0 {
		c.Note += fmt.Sprintf(" %s not drawn.", figures.Count(more, "more process on a GPU is", "more processes on GPUs are"))
	}
	devices, _ := table.Find[stats.DeviceCells](r.Tables)
	memory, _ := table.Find[stats.MemoryCells](r.Tables)
	steps, _ := table.Find[stats.StepCells](r.Tables)
	c.Tables = []*table.Table{r.laneTable(lanes)}
	for _, t := range []*table.Table{devices, memory, steps} {
		c.Tables = append(c.Tables, shown(t))
	}
	return c
}

// drawLane draws the bins of a lane as areas on top of each other. The share at its right leaves out the start-up.
func (d *drawing) drawLane(s scale, y float64, l *lane, started uint64, totals *[4]uint64) {
	d.label("", 0, y+laneHeight/2, labelWidth-8, l.title)
	d.track(s.x, y, s.width, laneHeight)
	var areas [4]strings.Builder
	busy, all := uint64(0), uint64(0)
	for _, b := range l.bins {
		x, width, bottom := s.at(b.Start), s.at(b.End)-s.at(b.Start), y+laneHeight
		span := float64(max(b.End-b.Start, 1))
		if s.before == 0 || b.Start >= started {
			busy, all = busy+b.Busy, all+b.End-b.Start
		}
		for i, k := range kinds {
			ns := k.of(&b)
			totals[i] += ns
			if height := float64(ns) / span * laneHeight; height >= 0.05 {
				bottom -= height
				fmt.Fprintf(&areas[i], "M%s %sh%sv%sh-%sz", px(x), px(bottom), px(width), px(height), px(width))
			}
		}
	}
	for i, k := range kinds {
		if areas[i].Len() > 0 {
			d.path(k.class, areas[i].String())
		}
	}
	d.text("strong", s.x+s.width+8, y+laneHeight/2-2, table.Words(float64(busy)/float64(max(all, 1)), table.Share))
	d.text("t2", s.x+s.width+8, y+laneHeight/2+12, "busy")
}

// drawCurves draws the largest curve as an area and the others as lines.
func (d *drawing) drawCurves(s scale, y float64, name string, list []curve, unit table.Unit) float64 {
	if len(list) == 0 {
		return y
	}
	most := list[0].most
	d.text("", 0, y+curveHeight/2, name)
	if len(list) > 1 {
		d.label("t2", 0, y+curveHeight/2+13, labelWidth-8, "most: "+list[0].title)
	} else {
		d.label("t2", 0, y+curveHeight/2+13, labelWidth-8, list[0].title)
	}
	d.track(s.x, y, s.width, curveHeight)
	for i := min(len(list), mostLanes) - 1; i >= 0; i-- {
		d.drawCurve(s, y, curveHeight, list[i], most)
	}
	var value any = most
	d.text("strong", s.x+s.width+8, y+curveHeight/2-2, table.Words(value, unit))
	d.text("t2", s.x+s.width+8, y+curveHeight/2+12, "at most")
	return y + curveHeight + rowGap
}

// drawCurve draws a curve: the highest one as an area, too.
func (d *drawing) drawCurve(s scale, y, tall float64, c curve, most float64) {
	var line strings.Builder
	height := func(v float64) float64 { return y + tall - 2 - v/most*(tall-6) }
	first := 0.0
	for k, p := range c.list {
		x := s.at(p.at)
		if k == 0 {
			first = x
			fmt.Fprintf(&line, "M%s %s", px(x), px(height(p.value)))
			continue
		}
		fmt.Fprintf(&line, "H%sV%s", px(x), px(height(p.value)))
	}
	fmt.Fprintf(&line, "H%s", px(s.x+s.width))
	if c.most == most {
		d.path("curvefill", line.String()+fmt.Sprintf("V%sH%sZ", px(y+tall), px(first)))
	}
	d.path("curve", line.String())
}

// drawSteps draws the steps, neighbours in turns, and marks the one that is drawn apart.
func (r *Report) drawSteps(d *drawing, s scale, y float64) float64 {
	_, rows := table.Find[stats.StepCells](r.Tables)
	if len(rows) == 0 {
		return y
	}
	d.text("", 0, y+stepHeight-2, "steps")
	d.track(s.x, y, s.width, stepHeight)
	last, n := s.x, 0
	for i, step := range rows {
		from := r.Overview.start + step.At
		x, end := s.at(from), s.at(from+step.Max)
		if n++; end < last+1 && i < len(rows)-1 {
			continue // too narrow to be seen: it is part of the next one
		}
		hover := step.Name + ": " + duration(step.Max)
		if n > 1 {
			hover = fmt.Sprintf("%d steps up to %s", n, hover)
		}
		x = max(min(x, last+0.5), last)
		if n == 1 {
			x = max(s.at(from), last)
		}
		class := "step"
		if i%2 == 1 {
			class = "step2"
		}
		d.rect(class, x, y, max(end-x, 0.8), stepHeight, hover)
		last, n = end, 0
	}
	d.text("strong", s.x+s.width+8, y+stepHeight-2, figures.Group(len(rows)))
	return y + stepHeight + rowGap
}

// startup returns when the start-up ends, ns from the start of the recording; 0 where it costs too little to be found.
func (r *Report) startup() (end uint64) {
	_, rows := table.Find[stats.FindingCells](r.Tables)
	for _, x := range rows {
		if x.Name == findings.Startup {
			end = max(end, x.Last)
		}
	}
	return end
}

// shade marks the start-up, and the part that is drawn apart.
func (r *Report) shade(d *drawing, s scale, bottom float64) {
	if end := r.startup(); end > 0 {
		to := s.at(r.Overview.start + end)
		fmt.Fprintf(&d.under, `<rect class="startup" x="%s" y="%d" width="%s" height="%s"/>`+"\n",
			px(s.x), topHeight, px(to-s.x), px(bottom-topHeight-rowGap))
		if to-s.x > 60 {
			d.text("t2", s.x, 11, "start-up, to "+table.Words(end, table.Moment))
		}
	}
	if r.Part == nil {
		return
	}
	from, to := s.at(r.Overview.start+r.Part.From), s.at(r.Overview.start+r.Part.To)
	d.rect("shown", from, topHeight-2, max(to-from, 1.5), bottom-topHeight-rowGap+4, r.Part.Title)
}

// laneTable has the numbers of the lanes. Neighbours stand together where there are too many.
func (r *Report) laneTable(lanes []lane) *table.Table {
	t := &table.Table{Name: "run", Title: "what GPUs did over time", Columns: []table.Column{
		{Key: "name", Title: "GPU"}, {Key: "at_ns", Title: "from", Unit: table.Moment},
		{Key: "to_ns", Title: "to", Unit: table.Moment}, {Key: "busy", Title: "busy", Unit: table.Share},
	}}
	for _, k := range kinds {
		t.Columns = append(t.Columns, table.Column{Key: k.class, Title: k.text, Unit: table.Share})
	}
	for _, l := range lanes {
		each := (len(l.bins) + mostOwnRows - 1) / mostOwnRows
		for some := range slices.Chunk(l.bins, each) {
			b := some[0]
			for _, more := range some[1:] {
				b.End, b.Sum = more.End, b.Plus(more.Sum)
			}
			span := float64(max(b.End-b.Start, 1))
			row := []any{l.title, r.Overview.since(b.Start), r.Overview.since(b.End), float64(b.Busy) / span}
			for _, k := range kinds {
				row = append(row, float64(k.of(&b))/span)
			}
			t.Add(row...)
		}
	}
	return t
}
