package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Sizes of the heat map of steps and ranks.
const (
	mapHeight  = 420
	mostCells  = 16_000
	mostRanks  = 256
	mostHovers = 2_000 // cells with a text of their own
	waitWidth  = 150   // what ranks waited, behind their rows
)

// A heat is the time of steps on ranks.
type heat struct {
	ranks  []uint64
	titles []string    // of columns
	times  [][2]uint64 // of columns, from when to when: of the longest step that a column stands for
	cells  [][]uint64  // ns by column and rank, 0 where not known; the longest of the steps that a column stands for
}

// heat returns the times of the steps of one run, of several ranks; nil without them.
func (r *Report) heat() *heat {
	_, rows := table.Find[stats.StepCells](r.Tables)
	known := make(map[uint64]bool)
	for _, x := range rows {
		for _, n := range x.Ranks {
			known[n] = true
		}
	}
	if len(known) < 2 {
		return nil
	}
	h := &heat{ranks: slices.Sorted(maps.Keys(known))}
	h.ranks = h.ranks[:min(len(h.ranks), mostRanks)]
	place := make(map[uint64]int)
	for i, n := range h.ranks {
		place[n] = i
	}
	columns := max(min(mostCells/len(h.ranks), chartWidth-labelWidth-waitWidth), 1)
	each := (len(rows) + columns - 1) / columns
	for i, x := range rows {
		if i%each == 0 {
			h.titles = append(h.titles, x.Name)
			h.cells = append(h.cells, make([]uint64, len(h.ranks)))
			h.times = append(h.times, [2]uint64{})
		}
		if t := &h.times[len(h.times)-1]; x.Max > t[1]-t[0] {
			*t = [2]uint64{x.At, x.At + x.Max}
		}
		column := h.cells[len(h.cells)-1]
		for k, n := range x.Ranks {
			if at, drawn := place[n]; drawn && k < len(x.Durations) {
				column[at] = max(column[at], x.Durations[k])
			}
		}
	}
	return h
}

// bounds are the 5th and the 95th percentile of the times.
func (h *heat) bounds() (low, high uint64) {
	var all []uint64
	for _, column := range h.cells {
		for _, ns := range column {
			if ns > 0 {
				all = append(all, ns)
			}
		}
	}
	slices.Sort(all)
	return all[len(all)*5/100], all[max(len(all)*95/100, 1)-1]
}

// cell is the size of a cell.
func (h *heat) cell() (height, width float64) {
	return min(22, mapHeight/float64(len(h.ranks))), (chartWidth - labelWidth - waitWidth) / float64(len(h.cells))
}

// levels is the number of colours.
const levels = 5

// ranks draws how long each step took on each rank, and what the ranks waited for each other.
func (r *Report) ranks() *Chart {
	h := r.heat()
	if h == nil {
		return nil
	}
	d := new(drawing)
	low, high := h.bounds()
	height, width := h.cell()
	gap := 0.0
	if width > 4 && height > 4 {
		gap = 1
	}
	hovers := len(h.cells)*len(h.ranks) <= mostHovers
	var paths [levels]strings.Builder
	for i, column := range h.cells {
		for k, ns := range column {
			if ns == 0 {
				continue
			}
			level := 0
			if high > low {
				level = min(int(float64(max(ns, low)-low)/float64(high-low)*levels), levels-1)
			}
			x, y := labelWidth+float64(i)*width, topHeight+float64(k)*height
			if hovers {
				hover := fmt.Sprintf("%s on rank %d: %s", h.titles[i], h.ranks[k], duration(ns))
				d.rect(fmt.Sprintf("h%d", level), x, y, width-gap, height-gap, hover)
			} else {
				fmt.Fprintf(&paths[level], "M%s %sh%sv%sh-%sz", px(x), px(y), px(width-gap), px(height-gap), px(width-gap))
			}
		}
	}
	for level := range paths {
		if paths[level].Len() > 0 {
			d.path(fmt.Sprintf("h%d", level), paths[level].String())
		}
	}
	bottom := topHeight + height*float64(len(h.ranks))
	each := max(1, int(14/height+0.999))
	for k := 0; k < len(h.ranks); k += each {
		d.text("", 0, topHeight+float64(k)*height+min(height/2+4, 12), fmt.Sprintf("rank %d", h.ranks[k]))
	}
	t, rows := table.Find[stats.RankCells](r.Tables)
	d.drawWaits(rows, h.ranks, height, each)
	d.text("t2", labelWidth, bottom+15, h.titles[0])
	d.text("t2 end", chartWidth-waitWidth-2, bottom+15, h.titles[len(h.titles)-1])
	d.text("t2 end", chartWidth-waitWidth-levels*18-112, 11, duration(low)+" or less")
	for level := range levels {
		d.rect(fmt.Sprintf("h%d", level), float64(chartWidth-waitWidth-levels*18-104+level*18), 2, 18, 10, "")
	}
	d.text("t2", chartWidth-waitWidth-96, 11, duration(high)+" or more")
	d.text("t2", chartWidth-waitWidth+10, 11, "waited for others")
	d.height = bottom + 22
	return &Chart{Title: "Steps and ranks", Note: "How long each step took on each rank. " +
		"At the right: how long each rank waited for others in collectives; the rank that waits least makes the others wait.",
		drawing: d, Tables: []*table.Table{h.table(), shown(t)}}
}

// drawWaits draws how long ranks waited for others.
func (d *drawing) drawWaits(rows []*stats.RankCells, list []uint64, height float64, each int) {
	waited, most := make(map[uint64]uint64), uint64(0)
	for _, x := range rows {
		if x.Rank != nil && x.Waited != nil {
			n := uint64(*x.Rank)
			waited[n] += *x.Waited
			most = max(most, waited[n])
		}
	}
	if most == 0 {
		return
	}
	const left = chartWidth - waitWidth + 10
	const room = waitWidth - 74
	for k, n := range list {
		y := topHeight + float64(k)*height
		d.rect("wait", left, y+height*0.15, max(float64(waited[n])/float64(most)*room, 0.8), max(height*0.7-1, 0.5), "")
		if k%each == 0 {
			d.text("t2 end", chartWidth, y+min(height/2+4, 12), duration(waited[n]))
		}
	}
}

// mostHeatCells bounds the cells of the table of steps and ranks.
const mostHeatCells = 6_000

func (h *heat) table() *table.Table {
	t := &table.Table{Name: "ranks", Title: "time of steps by rank", Columns: []table.Column{{Key: "name", Title: "step"}}}
	for _, n := range h.ranks {
		c := table.Column{Key: fmt.Sprint("rank_", n), Title: fmt.Sprintf("rank %d", n), Unit: table.Duration}
		t.Columns = append(t.Columns, c)
	}
	most := max(mostHeatCells/len(h.ranks), 1)
	for i, column := range h.cells {
		if i == most {
			t.LeftOut = len(h.cells) - i
			break
		}
		row := []any{h.titles[i]}
		for _, ns := range column {
			var v any
			if ns > 0 {
				v = ns
			}
			row = append(row, v)
		}
		t.Add(row...)
	}
	if len(h.cells) > 0 && t.LeftOut > 0 {
		t.Notes = []string{"JSON of the report steps has all: " + figures.Count(len(h.cells), "column", "columns")}
	}
	return t
}
