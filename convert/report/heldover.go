package report

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Sizes of the chart of memory over time.
const (
	areaHeight = 200
	momentShow = 6 // lines of a moment, where the mouse is
)

// areas are the classes of the areas of lines; the last one is of all others.
var areas = []string{"compute", "comm", "copy", "both", "wait", "py", "set"}

// heldOver draws memory over time, an area for each of the lines that held most and one for the others. held.js shows
// who held what at a moment.
func (r *Report) heldOver() *Chart {
	h := r.Overview.Stats.HeldOver()
	if h == nil {
		return nil
	}
	first, last := h.Moments[0].At, h.Moments[len(h.Moments)-1].At
	lines, most := heldMost(h)
	if last == first || slices.Equal(lines, []string{stats.UnknownPlace}) {
		return nil
	}
	d, y := new(drawing), float64(topHeight)
	s := scale{from: first, to: last, x: labelWidth, width: chartWidth - labelWidth - valueWidth}
	height := func(bytes uint64) float64 { return y + areaHeight - float64(bytes)/float64(most)*(areaHeight-8) }
	d.text("", 0, y+areaHeight/2, "memory held")
	d.track(s.x, y, s.width, areaHeight)
	below := make([]uint64, len(h.Moments))
	var names []legend
	for i := range lines {
		names = append(names, legend{areas[i], lines[i]})
	}
	if slices.ContainsFunc(h.Moments, func(m stats.HeldMoment) bool { return bytesOf(&m, lines, "") > 0 }) {
		names = append(names, legend{areas[len(areas)-1], "other lines"})
		lines = append(lines, "")
	}
	for i, line := range lines {
		var up, down string
		for k := range h.Moments {
			bottom := below[k]
			below[k] += bytesOf(&h.Moments[k], lines, line)
			x, next := px(s.at(h.Moments[k].At)), px(s.x+s.width)
			if k+1 < len(h.Moments) {
				next = px(s.at(h.Moments[k+1].At))
			}
			up += fmt.Sprintf("L%s %sH%s", x, px(height(below[k])), next)
			down = fmt.Sprintf("L%s %sH%s", next, px(height(bottom)), x) + down
		}
		d.path(names[i].class, "M"+up[1:]+down+"Z")
	}
	d.moments(h, s, y, r.Overview.start)
	for _, m := range h.Moments {
		if m.Peak {
			at := s.at(m.At)
			d.line("zero", at, y-4, at, y+areaHeight)
			class := "t2 mid"
			if at > s.x+s.width-60 {
				class = "t2 end"
			}
			d.text(class, at, 11, "peak, at "+table.Words(r.Overview.since(m.At), table.Moment))
			d.text("strong", s.x+s.width+8, height(m.All)+4, table.Words(m.All, table.Bytes))
		}
	}
	d.axis(s, y, y+areaHeight, r.Overview.start)
	y += areaHeight + 30
	for i := 0; i < len(names); i += 2 {
		d.rowLegend(y, names[i:min(i+2, len(names))])
		y += 18
	}
	d.height = y
	return &Chart{Title: "Memory over time", drawing: d, Note: h.Title + ", by the line that asked for it, at " +
		figures.Count(len(h.Moments), "moment", "moments") + " and at the peak."}
}

// heldMost are the lines that have an area of their own, and the most bytes of a moment.
func heldMost(h *stats.HeldOver) (lines []string, most uint64) {
	by := make(map[string]uint64)
	for _, m := range h.Moments {
		most = max(most, m.All, 1)
		for _, l := range m.Held {
			if by[l.Line] == 0 {
				lines = append(lines, l.Line)
			}
			by[l.Line] = max(by[l.Line], l.Bytes)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return int(min(max(int64(by[b])-int64(by[a]), -1), 1)) })
	return lines[:min(len(lines), len(areas)-1)], most
}

// bytesOf is what a line held at a moment; with "", what those without an area did.
func bytesOf(m *stats.HeldMoment, lines []string, line string) (bytes uint64) {
	if line == "" {
		bytes = m.All
	}
	for _, l := range m.Held {
		switch {
		case l.Line == line:
			bytes += l.Bytes
		case line == "" && slices.Contains(lines, l.Line):
			bytes -= l.Bytes
		}
	}
	return bytes
}

// moments lays a place for the mouse over each moment, with who held memory then.
func (d *drawing) moments(h *stats.HeldOver, s scale, y float64, start uint64) {
	for k, m := range h.Moments {
		x, next := s.at(m.At), s.x+s.width
		if k+1 < len(h.Moments) {
			next = s.at(h.Moments[k+1].At)
		}
		text := fmt.Sprintf("%s: %s held", table.Words(m.At-min(m.At, start), table.Moment), table.Words(m.All, table.Bytes))
		for _, l := range m.Held[:min(len(m.Held), momentShow)] {
			text += fmt.Sprintf("; %s %s", table.Words(l.Bytes, table.Bytes), figures.Cut(l.Line, 60))
		}
		d.rect("moment", x, y, max(next-x, 1), areaHeight, text)
	}
}

// rowLegend writes what colours mean, side by side.
func (d *drawing) rowLegend(y float64, list []legend) {
	for i, l := range list {
		x := labelWidth + float64(i)*(chartWidth-labelWidth)/2
		d.rect(l.class, x, y-9, 10, 10, "")
		d.label("t2", x+15, y, (chartWidth-labelWidth)/2-24, l.text)
	}
}
