package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed timeline.js
var timelineScript string

//go:embed flame.js
var flameScript string

//go:embed held.js
var heldScript string

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
	Script   template.HTML // "" for a page without
	NoRoom   bool          // for a timeline
	Policy   string        // of the browser: it runs this script, and applies this style, and no other
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
	At                                                  string // its worst case, for the timeline: see showAt
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
	Rows         []sheetRow
}

// A sheetRow is a row, and what the timeline has of it: slices of a name, or a time; "" for nothing.
type sheetRow struct {
	Cells    []cell
	Find, At string
}

// showAt is a time for the timeline: ns from the start of the recording, and the timeline's own number of a process, 0
// for all.
func showAt(from, to uint64, pid uint32) string { return fmt.Sprintf("%d,%d,%d", from, to, pid) }

// A cell has a text, and the whole of it where the text is short.
type cell struct{ Text, Full string }

// A head is the head of a column.
type head struct {
	Title   string
	Numbers bool
}

// source allows a script or a style in the page.
func source(kind, content string) string {
	sum := sha256.Sum256([]byte(content))
	return kind + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; "
}

// dataPlace is where the data of the timeline come to stand: how large they may be depends on the rest of the page.
const dataPlace = `<script id="timeline-data" type="application/json">`

// sheetPart is the part of a page's bytes that its tables may take.
const sheetPart = 3

// WriteHTML writes the page. Its timeline has as much as fits into so many bytes. A page whose charts and tables alone
// take more is larger, and has no timeline.
func (r *Report) WriteHTML(w io.Writer, most int) error {
	v := &view{
		Report: r, Style: template.CSS(chartStyle + pageStyle), Figures: r.figures(),
		Heading: figures.Cut(r.Title, maxTableText), Names: r.Logs, Policy: source("style-src", chartStyle+pageStyle),
	}
	if r.Timeline != nil {
		script := timelineScript + flameScript + heldScript
		v.Policy += source("script-src", script)
		v.Script = template.HTML(dataPlace + "</script>\n<script>" + script + "</script>\n")
	}
	if more := len(r.Logs) - maxLogs; more > 0 {
		v.Names = append(slices.Clone(r.Logs[:maxLogs]), figures.Count(more, "other log", "other logs"))
	}
	v.Findings, v.Nothing = r.findings()
	if n := len(v.Findings); n > maxFindings {
		v.Findings, v.More = v.Findings[:maxFindings], v.Findings[maxFindings:min(n, maxFindings+maxMore)]
	}
	room := min(maxSheets, most/sheetPart)
	for _, c := range r.Charts() {
		svg, err := c.SVG()
		if err != nil {
			return err
		}
		s := section{Chart: c, Drawing: template.HTML(svg)} // every text in it went through escaped
		for _, t := range c.Tables {
			if len(t.Rows) > 0 {
				s.Sheets = append(s.Sheets, r.sheetOf(t, &room))
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
	text, err := v.text()
	if err != nil {
		return err
	}
	if before, after, has := strings.Cut(text, dataPlace); has {
		data, err := r.timelineData(most - len(text))
		if err != nil {
			return err
		}
		if text = before + dataPlace + string(data) + after; data == nil {
			v.Script, v.NoRoom, v.Policy = "", true, source("style-src", string(v.Style))
			if text, err = v.text(); err != nil {
				return err
			}
		}
	}
	_, err = io.WriteString(w, text)
	return err
}

// text is the page, without the data of its timeline.
func (v *view) text() (string, error) {
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return "", err
	}
	var clean strings.Builder
	for line := range strings.Lines(b.String()) { // any text of the log may be in any of them
		clean.WriteString(figures.Clean(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return clean.String(), nil
}

// figures are the numbers to know first.
func (r *Report) figures() (list []figure) {
	add := func(value, name string) {
		if value != "" && value != "-" {
			list = append(list, figure{value, name})
		}
	}
	_, profile := table.Find[stats.ProfileCells](r.Tables)
	if len(profile) > 0 {
		name := "GPU busy"
		if left := profile[0].Startup; left != nil && *left > 0 {
			name += " after the start-up"
		}
		add(share(profile[0].BusyShare), name)
	}
	if _, kinds := table.Find[stats.StepKindCells](r.Tables); len(kinds) > 0 {
		add(duration(kinds[0].Median), "a step, the median of "+figures.Group(kinds[0].Count))
	}
	var kernels, calls uint64
	_, processes := table.Find[stats.ProcessCells](r.Tables)
	for _, x := range processes {
		kernels, calls = kernels+x.Kernels, calls+x.Calls
	}
	count := func(n uint64, one, many string) {
		if n == 1 {
			many = one
		}
		if n > 0 {
			add(figures.Group(n), many)
		}
	}
	count(kernels, "kernel", "kernels")
	count(calls, "CUDA call", "CUDA calls")
	if len(profile) > 0 {
		add(table.WordsOf(profile[0].Peak, table.Bytes), "peak memory")
	}
	return list
}

// findings are what costs time, and why there is nothing.
func (r *Report) findings() (list []finding, nothing string) {
	t, rows := table.Find[stats.FindingCells](r.Tables)
	prose := func(text string) string { return figures.Cut(figures.Clean(text), maxProse) }
	for _, x := range rows {
		f := finding{
			Title: prose(x.Title), Evidence: prose(x.Evidence), Try: prose(x.Try), Show: figures.Clean(x.Query),
			Where: fmt.Sprintf("process %d", x.PID),
		}
		if x.Confidence == stats.Confidence(false) {
			f.Confidence = "likely cause"
		}
		if x.Rank != nil {
			f.Where = fmt.Sprintf("rank %d", *x.Rank)
		}
		if m, ok := findingMoment(x); ok {
			f.At = showAt(m.from, m.to, m.pid)
		}
		if x.Cost != nil {
			f.Cost = strings.ToUpper(x.Costs()[:1]) + x.Costs()[1:] + " " + figures.Duration(*x.Cost)
		}
		if x.Share != nil {
			f.Cost += ", " + share(x.Share) + " of the time after start-up"
			f.Width = px(100 * min(*x.Share, 1))
		}
		list = append(list, f)
	}
	return list, t.Reason
}

// sheetOf writes the cells of a table, as far as there is room in bytes for all tables.
func (r *Report) sheetOf(t *table.Table, room *int) sheet {
	s := sheet{Title: strings.ReplaceAll(t.Name, "_", " ")}
	if t.Title != "" {
		s.Title += ": " + t.Title
	}
	for _, c := range t.Columns {
		s.Heads = append(s.Heads, head{c.Title, c.Unit != table.Text && c.Unit != table.Plain})
	}
	texts := make([][]string, len(t.Columns))
	for i := range t.Columns {
		texts[i] = t.Texts(i)
	}
	left := t.LeftOut
	for n, row := range t.Rows {
		if *room <= 0 {
			left += len(t.Rows) - n
			break
		}
		var cells []cell
		of := r.showOf(row)
		for i := range row.Cells {
			c := cell{Text: figures.Cut(texts[i][n], maxTableText)}
			if full := t.Words(row, i); full != texts[i][n] {
				c.Full = figures.Cut(full, figures.LongText)
			}
			cells = append(cells, c)
			*room -= len(template.HTMLEscapeString(c.Text+c.Full)) + len("<td class=n></td>")
		}
		of.Cells = cells
		*room -= len(template.HTMLEscapeString(of.Find)) + len(of.At)
		s.Rows = append(s.Rows, of)
	}
	notes := t.Notes
	if left > 0 {
		notes = append(slices.Clip(notes), figures.Count(left, "more row is", "more rows are")+" not shown")
	}
	s.Notes = strings.Join(notes, "; ")
	return s
}

// showOf is what the timeline has of a row of a report.
func (r *Report) showOf(row table.Row) (of sheetRow) {
	if whole, ok := row.Of.(table.Row); ok {
		row = whole
	}
	switch x := row.Of.(type) {
	case *stats.KernelCells:
		of.Find = figures.Clean(x.Name)
	case *stats.PythonCells:
		of.Find = figures.Clean(x.Name)
	case *stats.IdleCells:
		of.At = r.idleAt(x)
	case *stats.StepCells:
		of.At = showAt(x.At, x.At+x.Max, 0)
	}
	if len(of.Find) > figures.LongText {
		of.Find = ""
	}
	return of
}

// idleAt is the longest time of a row of idle; "" where it is not known.
func (r *Report) idleAt(x *stats.IdleCells) string {
	if x.Max == nil || x.MaxAt == nil {
		return ""
	}
	return showAt(*x.MaxAt, *x.MaxAt+*x.Max, r.Overview.processOn(x.GPU))
}
