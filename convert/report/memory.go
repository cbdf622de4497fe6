package report

import (
	"cmp"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

const memoryHeight = 64

// heldMemory draws the memory with the highest peak over time, and what held it at its peak, by Python line or library.
func (r *Report) heldMemory() *Chart {
	_, uses := table.Find[stats.MemoryCells](r.Tables)
	t, holders := table.Find[stats.HolderCells](r.Tables)
	if len(uses) == 0 || uses[0].Peak == 0 {
		return nil
	}
	use := uses[0]
	var list []bar
	for _, x := range holders {
		where := cmp.Or(x.Python, x.Library)
		if strings.HasPrefix(where, "(") { // it has no Python line
			where = cmp.Or(x.Library, where)
		}
		other := use.GPU != nil && x.GPU != nil && *x.GPU != *use.GPU
		of := x.PID != nil && *x.PID == use.PID && x.Name == use.Name && !other
		if !of || where == "" || x.AtPeak == nil || *x.AtPeak == 0 || len(list) == mostBars {
			continue
		}
		list = append(list, bar{class: "mem", name: where, full: where, value: table.WordsOf(x.AtPeak, table.Bytes),
			detail: share(x.Share), length: float64(*x.AtPeak), find: x.Python})
	}
	if len(list) == 0 {
		return nil
	}
	d, y := new(drawing), float64(topHeight)
	if curves := r.Overview.memory(); len(curves) > 0 && use.GPU != nil && len(curves[0].list) > 1 {
		all := curves[0].list
		s := scale{from: all[0].at, to: max(all[len(all)-1].at, all[0].at+1), x: labelWidth,
			width: chartWidth - labelWidth - valueWidth}
		d.drawCurve(s, y, memoryHeight, curves[0], curves[0].most)
		at := s.at(r.Overview.start + use.PeakAt)
		d.line("zero", at, y-4, at, y+memoryHeight)
		class := "t2 mid"
		if at > s.x+s.width-60 {
			class = "t2 end"
		}
		d.text(class, at, 11, "peak, at "+table.Words(use.PeakAt, table.Moment))
		d.label("", 0, y+memoryHeight/2, labelWidth-8, curves[0].title)
		d.text("strong", s.x+s.width+8, y+memoryHeight/2, table.Words(use.Peak, table.Bytes))
		d.axis(s, y, y+memoryHeight, r.Overview.start)
		y += memoryHeight + 34
	}
	d.height = d.bars(y, list)
	return &Chart{Title: "What holds memory", drawing: d, Tables: []*table.Table{shown(t)},
		Note: "Memory (" + use.Name + ") over time, and who had allocated what was held at its peak."}
}
