package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var page = template.Must(template.New("page").Parse(pageText))

// Numbers of what is shown.
const (
	maxLogs = 4

	maxFindings = 3 // findings that are shown at once
	maxMore     = 20
)

// A view is what the template shows.
type view struct {
	*Report
	Style    template.CSS
	Figures  []figure
	Findings []finding
	More     []finding
	Nothing  string // why there are no findings
	Sections []section
	Above    []section // that come before the findings
	Heading  string
	Names    []string // of the logs
}

type figure struct{ Value, Name string }

type finding struct {
	Title, Cost, Where, Evidence, Try, Show, Confidence string
	Width                                               string // of the bar of its share
}

type section struct {
	*Chart
	Drawing template.HTML
	Sheets  []sheet
	Lines   []string
}

// A sheet is a table as the page shows it.
type sheet struct {
	Title, Notes string
	Heads        []head
	Rows         [][]string
}

// A head is the head of a column.
type head struct {
	Title   string
	Numbers bool
}

// WriteHTML writes the page.
func (r *Report) WriteHTML(w io.Writer) error {
	v := &view{Report: r, Style: template.CSS(chartStyle + pageStyle), Figures: r.figures(), Heading: figures.Cut(r.Title, maxTableText), Names: r.Logs}
	if more := len(r.Logs) - maxLogs; more > 0 {
		v.Names = append(slices.Clone(r.Logs[:maxLogs]), figures.Count(more, "other log", "other logs"))
	}
	v.Findings = r.findings()
	if n := len(v.Findings); n > maxFindings {
		v.Findings, v.More = v.Findings[:maxFindings], v.Findings[maxFindings:min(n, maxFindings+maxMore)]
	}
	v.Nothing = r.table("findings").Reason
	room := maxSheets
	for _, c := range r.Charts() {
		svg, err := c.SVG()
		if err != nil {
			return err
		}
		s := section{Chart: c, Drawing: template.HTML(svg)} // every text in it went through escaped
		for _, t := range c.Tables {
			if len(t.Rows) > 0 {
				s.Sheets = append(s.Sheets, sheetOf(t, &room))
			}
		}
		if c.Name == "comparison" {
			for _, line := range r.Comparison.Lines {
				s.Lines = append(s.Lines, figures.Cut(line, maxProse))
			}
			v.Above = append(v.Above, s)
		} else {
			v.Sections = append(v.Sections, s)
		}
	}
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return err
	}
	var clean strings.Builder
	for line := range strings.Lines(b.String()) { // any text of the log may be in any of them
		clean.WriteString(figures.Clean(strings.TrimSuffix(line, "\n")) + "\n")
	}
	_, err := io.WriteString(w, clean.String())
	return err
}

// figures are the numbers to know first.
func (r *Report) figures() (list []figure) {
	add := func(value, name string) {
		if value != "" && value != "-" {
			list = append(list, figure{value, name})
		}
	}
	if t := r.table("profile"); len(t.Rows) > 0 {
		row := t.Rows[0]
		name := "GPU busy"
		if r.startup() > 0 {
			name += ", start-up included"
		}
		add(words(t, row, "busy_share"), name)
	}
	if t := r.table("step_kinds"); len(t.Rows) > 0 {
		row := t.Rows[0]
		add(words(t, row, "median_ns"), "a step, the median of "+words(t, row, "count"))
	}
	sum := func(name, column, one, many string) {
		n, t := uint64(0), r.table(name)
		for _, row := range t.Rows {
			n += whole(t, row, column)
		}
		if n > 0 {
			word := many
			if n == 1 {
				word = one
			}
			add(figures.Group(n), word)
		}
	}
	sum("processes", "kernels", "kernel", "kernels")
	sum("processes", "calls", "CUDA call", "CUDA calls")
	if t := r.table("profile"); len(t.Rows) > 0 {
		add(words(t, t.Rows[0], "peak_bytes"), "peak memory")
	}
	return list
}

// findings are what costs time.
func (r *Report) findings() (list []finding) {
	t := r.table("findings")
	prose := func(row table.Row, key string) string {
		return figures.Cut(table.Words(text(t, row, key), table.Text), maxProse)
	}
	for _, row := range t.Rows {
		f := finding{Title: prose(row, "title"), Evidence: prose(row, "evidence"), Try: prose(row, "try"), Show: prose(row, "query"), Confidence: prose(row, "confidence")}
		if cell(t, row, "cost_ns") != nil {
			f.Cost = words(t, row, "cost_ns")
		}
		if part := fraction(t, row, "share"); part > 0 {
			f.Cost += ", " + words(t, row, "share") + " of the steady state"
			f.Width = px(100 * min(part, 1))
		}
		f.Where = "process " + words(t, row, "pid")
		if cell(t, row, "rank") != nil {
			f.Where = "rank " + words(t, row, "rank")
		}
		list = append(list, f)
	}
	return list
}

// sheetOf writes the cells of a table, as far as there is room in bytes for all tables.
func sheetOf(t *table.Table, room *int) sheet {
	s := sheet{Title: strings.ReplaceAll(t.Name, "_", " ")}
	if t.Title != "" {
		s.Title += ": " + t.Title
	}
	for _, c := range t.Columns {
		s.Heads = append(s.Heads, head{c.Title, c.Unit != table.Text && c.Unit != table.Plain})
	}
	left := t.LeftOut
	for n, row := range t.Rows {
		if *room <= 0 {
			left += len(t.Rows) - n
			break
		}
		var cells []string
		for i, v := range row.Cells {
			cells = append(cells, figures.Cut(table.Words(v, t.Columns[i].Unit), maxTableText))
			*room -= len(template.HTMLEscapeString(cells[i])) + len("<td class=n></td>")
		}
		s.Rows = append(s.Rows, cells)
	}
	notes := t.Notes
	if left > 0 {
		notes = append(slices.Clip(notes), figures.Count(left, "more row is", "more rows are")+" not shown")
	}
	s.Notes = strings.Join(notes, "; ")
	return s
}
