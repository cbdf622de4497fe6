package report

import (
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// A Report is what the page shows.
type Report struct {
	Title    string      // the program's command line
	Facts    []string    // where and when it ran, and how it ended, a few words each
	Complete bool        // no record is missing
	Missing  []string    // what is missing, and why
	About    [][2]string // facts of the recording: a name and a value
	Recorder string      // the version that made the page
	Logs     []string    // their names
	Stats    string      // the command that prints all tables
	Open     string      // the command that shows each call

	Overview   *Overview
	Tables     []*table.Table // all reports of the overview
	Part       *Part          // nil if the timeline has no GPU work
	Timeline   *Timeline      // nil for a page without scripts
	Stacks     *table.Folded  // GPU time by Python stack
	Operators  *table.Folded  // GPU time by module, operator of PyTorch and kernel
	Comparison *Comparison    // nil if there is none
	Base       *Report        // of an earlier run, whose typical step stands beside that of this one; nil without one

	short *kernelnames.Names // see shortNames
}

// A Chart is a drawing and its numbers.
type Chart struct {
	Name   string // for a command line
	Title  string
	Note   string         // how to read it
	Tables []*table.Table // its numbers

	drawing *drawing
}

// WriteSVG writes the chart as a file of its own.
func (c *Chart) WriteSVG(w io.Writer) error { return c.drawing.write(w, c.Title, true) }

// SVG is the chart as a part of a page.
func (c *Chart) SVG() (string, error) {
	var b strings.Builder
	err := c.drawing.write(&b, c.Title, false)
	return b.String(), err
}

// charts draw a report, in the order of the page. One returns nil where the recording has nothing of it.
var charts = []struct {
	name string
	draw func(*Report) *Chart
}{
	{"comparison", func(r *Report) *Chart { return r.comparison() }},
	{"run", func(r *Report) *Chart { return r.run() }},
	{"ranks", func(r *Report) *Chart { return r.ranks() }},
	{"path", func(r *Report) *Chart { return r.path() }},
	{"kernels", func(r *Report) *Chart { return r.kernels() }},
	{"python", func(r *Report) *Chart { return r.python() }},
	{"flame", func(r *Report) *Chart { return r.flame() }},
	{"operators", func(r *Report) *Chart { return r.operators() }},
	{"memory", func(r *Report) *Chart { return r.heldMemory() }},
	{"held", func(r *Report) *Chart { return r.heldOver() }},
	{"idle", func(r *Report) *Chart { return r.idle() }},
}

// Names are the names of all charts.
func Names() (list []string) {
	for _, c := range charts {
		list = append(list, c.name)
	}
	return list
}

// Charts are the charts of the report.
func (r *Report) Charts() (list []*Chart) {
	for _, of := range charts {
		if c := of.draw(r); c != nil {
			c.Name = of.name
			list = append(list, c)
		}
	}
	return list
}

func duration(ns uint64) string { return table.Words(ns, table.Duration) }

func share(v *float64) string { return table.WordsOf(v, table.Share) }

// Bounds of the tables of the page.
const (
	maxTableRows = 60        // of a report
	mostOwnRows  = 200       // of a lane
	maxTableText = 300       // characters of a cell
	maxProse     = 1000      // characters of a text of a finding
	maxSheets    = 600 << 10 // bytes of all tables
)

// figuresOf are the units of figures, of which a table with nothing but zeros says nothing.
var figuresOf = []table.Unit{table.Number, table.Duration, table.Bytes, table.Share, table.Rate}

// zero reports whether a table has figures, all of which are 0 or not known.
func zero(t *table.Table) bool {
	has := false
	for i, c := range t.Columns {
		if c.Title == "" || !slices.Contains(figuresOf, c.Unit) {
			continue
		}
		has = true
		for _, row := range t.Rows {
			if v := row.Cells[i]; v != nil && !reflect.ValueOf(v).IsZero() {
				return false
			}
		}
	}
	return has
}

// shown is a table as the page has it: the columns that people see, and its first rows.
func shown(t *table.Table) *table.Table {
	short := &table.Table{Name: t.Name, Title: t.Title, Notes: t.Notes, LeftOut: t.LeftOut, Reason: t.Reason}
	if zero(t) {
		return short
	}
	var kept []int
	for i, c := range t.Columns {
		if c.Title != "" {
			kept = append(kept, i)
			c.Words = nil // it reads a whole row
			if of := c.Short; of != nil {
				c.Short = func(row table.Row) string { return of(row.Of.(table.Row)) }
			}
			short.Columns = append(short.Columns, c)
		}
	}
	for n, row := range t.Rows {
		if n == maxTableRows {
			short.LeftOut += len(t.Rows) - n
			break
		}
		var cells []any
		for _, i := range kept {
			cell := row.Cells[i]
			if t.Columns[i].Words != nil {
				cell = t.Words(row, i)
			}
			cells = append(cells, cell)
		}
		short.Rows = append(short.Rows, table.Row{Cells: cells, Of: row})
	}
	return short
}
