package diff

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A Page is what is shown of a comparison.
type Page struct {
	*Diff
	Base, New string // what was compared, as a person named it
	Outcomes  []*Outcome
	Top       int // rows of a table for people, 0 for all
}

// WriteText writes the page for a terminal of a width in characters.
func (p *Page) WriteText(w io.Writer, width int) error {
	plain := func(name string) string { return table.Words(name, table.Text) }
	for _, line := range p.lines(plain) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return table.WriteText(w, p.tables(), width)
}

// maxMarkdown is the size of the largest comment that GitHub takes, in bytes, less some for what
// others write around it.
const maxMarkdown = 60 << 10

// WriteMarkdown writes the page for a pull request or a job summary.
func (p *Page) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("## cudatrace diff\n\n")
	for _, line := range p.lines(table.MarkdownName) {
		b.WriteString(line + "\n\n")
	}
	tables := slices.DeleteFunc(p.tables(), func(t *table.Table) bool { return len(t.Rows) == 0 })
	for n := len(tables); ; n-- {
		var body strings.Builder
		if err := table.WriteMarkdown(&body, tables[:n]); err != nil {
			return err
		}
		if b.Len()+body.Len() > maxMarkdown && n > 0 {
			continue
		}
		b.WriteString(body.String())
		if n < len(tables) {
			b.WriteString("\n" + figures.Count(len(tables)-n, "more table is", "more tables are") + " not shown: the page would be too long for a comment\n")
		}
		break
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines are what a person should know first. quoted writes a name.
func (p *Page) lines(quoted func(string) string) []string {
	lines := []string{fmt.Sprintf("BASE: %s (%s). NEW: %s (%s).", runsWords(p.Diff.Base, quoted), quoted(p.Base), runsWords(p.Diff.New, quoted), quoted(p.New)), p.headline(quoted)}
	if why := p.rule.tooFew(len(p.Diff.Base), len(p.Diff.New)); why != "" {
		lines = append(lines, why)
	}
	if p.rule.Untested {
		lines = append(lines, "differences are not tested: they may be chance")
	}
	lines = append(lines, p.renamed(quoted)...)
	for _, x := range p.Problems {
		lines = append(lines, "warning: "+quoted(x.Text))
	}
	return lines
}

// shortRevision is the number of characters that name a commit to people.
const shortRevision = 10

// runsWords says how many runs a side has, and of which commit.
func runsWords(list []*Run, quoted func(string) string) string {
	words, files := figures.Count(len(list), "run", "runs"), 0
	for _, r := range list {
		files += max(len(r.Files), 1)
	}
	if files > len(list) {
		words += " in " + figures.Group(files) + " logs"
	}
	revision := list[0].revision()
	for _, r := range list {
		if r.revision() != revision {
			return words
		}
	}
	if revision != "" {
		words += " of " + quoted(revision[:min(len(revision), shortRevision)])
	}
	return words
}

// headline says how much differs, and what to look at first.
func (p *Page) headline(quoted func(string) string) string {
	section, row := p.First()
	if section == nil {
		return "nothing differs"
	}
	return fmt.Sprintf("%s; first: %s %s: %s%s", figures.Count(p.differences(), "difference", "differences"), rowWords[section.Report], quoted(row.Name),
		strings.Join(row.Verdicts, ", "), how(section, row))
}

// rowWords is a row of a report.
var rowWords = map[string]string{
	"kernels": "kernel", "copies": "copy", "sets": "set", "graphs": "graph", "calls": "call", "errors": "failed call", "nvtx": "NVTX range",
	"memory": "memory", "ranks": "rank", "devices": "device",
}

// how says how much a row differs: the first figure that does.
func how(s *Section, r *Row) string {
	for i, c := range r.Figures {
		if column := s.columns()[i]; c.Differs {
			return fmt.Sprintf(" (%s %s)", columnWords(column.Key), pairWords(c, column.Unit))
		}
	}
	return ""
}

// columnWords is the name of a column for people.
func columnWords(key string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(key, "_ns"), "_bytes"), "_", " ")
}

// tables are the tables for people.
func (p *Page) tables() (all []*table.Table) {
	if len(p.Outcomes) > 0 {
		all = append(all, p.conditions())
	}
	all = append(all, p.overall())
	for _, s := range p.Sections {
		all = append(all, p.section(s))
	}
	return all
}

// pairWords writes a figure of BASE and of NEW: one number where they are the same.
func pairWords(c *compared, unit table.Unit) string {
	base, new := table.Words(c.Base, unit), table.Words(c.New, unit)
	if base == new {
		return base
	}
	return base + " → " + new
}

func (p *Page) overall() *table.Table {
	t := &table.Table{Name: "overall", Title: "figures of a run", Reason: "no figure is known", Columns: []table.Column{
		{Key: "name", Title: "figure"}, {Key: "base", Title: "BASE", Unit: table.Number}, {Key: "new", Title: "NEW", Unit: table.Number},
		{Key: "change", Title: "change", Unit: table.Percent}, {Key: "verdict", Title: "differs", Unit: table.Figures}}}
	for _, o := range p.Overall {
		if math.IsNaN(o.Base) && math.IsNaN(o.New) || o.Base == 0 && o.New == 0 {
			continue
		}
		t.Rows = append(t.Rows, []any{o.Name, table.Cell{Value: o.Base, Unit: o.overall.unit}, table.Cell{Value: o.New, Unit: o.overall.unit},
			o.change(), orNothing(o.Verdict)})
	}
	return t
}

// orNothing is a cell of a text that may be empty.
func orNothing(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// section is the table of the rows that differ. Its figures stand side by side.
func (p *Page) section(s *Section) *table.Table {
	t := &table.Table{Name: s.Report, Title: fmt.Sprintf("%s of %s", figures.Group(s.Differ), figures.Count(len(s.Rows), "row differs", "rows differ")), Reason: s.Reason}
	switch {
	case s.Reason != "":
		t.Reason = "not compared: " + s.Reason
	case len(s.Rows) == 0:
		t.Reason = "no rows on either side"
	default:
		t.Reason = "no difference in " + figures.Count(len(s.Rows), "row", "rows")
	}
	t.Columns = []table.Column{{Key: "name", Title: s.Title}, {Key: "verdict", Title: "differs", Unit: table.Figures, Rank: 1}}
	if s.addsTime() {
		t.Columns = append(t.Columns, table.Column{Key: "added_ns", Title: "adds", Unit: table.Difference, Rank: 2})
	}
	for i, c := range s.columns() {
		t.Columns = append(t.Columns, table.Column{Key: c.Key, Title: columnWords(c.Key), Unit: table.Figures, Rank: 3 + i})
	}
	for _, r := range p.shown(s) {
		row := []any{r.Name, strings.Join(r.Verdicts, ", ")}
		if s.addsTime() {
			row = append(row, r.Added)
		}
		for i, c := range s.columns() {
			row = append(row, pairWords(r.Figures[i], c.Unit))
		}
		t.Rows = append(t.Rows, row)
	}
	t.LeftOut = s.Differ - len(t.Rows)
	return t
}

// maxRenamed is the number of kernels under another name that are named.
const maxRenamed = 5

// renamed says which kernels were found under another name.
func (p *Page) renamed(quoted func(string) string) (lines []string) {
	n := 0
	for _, s := range p.Sections {
		for _, r := range s.Rows {
			if r.Match == "" {
				continue
			}
			if n++; n > maxRenamed {
				continue
			}
			was := "the kernel of the same name"
			if r.Was != "" {
				was = quoted(r.Was)
			}
			lines = append(lines, fmt.Sprintf("%s in NEW is %s in BASE: only %s changed", quoted(r.Name), was, changed[r.Match]))
		}
	}
	if n > maxRenamed {
		lines = append(lines, fmt.Sprintf("and %s", figures.Count(n-maxRenamed, "more kernel under another name", "more kernels under other names")))
	}
	return lines
}

// changed is what differs in the names of a kernel.
var changed = map[string]string{"parameters": "its parameters", "hash": "a hash in its name", "template": "its template arguments", "python": "the Python function that launches it"}

// shown are the rows that differ, as many as people want to see: those that add, or save, most.
func (p *Page) shown(s *Section) []*Row {
	rows := s.Rows[:s.Differ]
	for p.Top > 0 && len(rows) > p.Top {
		least := 0
		for i, r := range rows {
			if math.Abs(r.Added) <= math.Abs(rows[least].Added) || math.IsNaN(r.Added) {
				least = i
			}
		}
		rows = append(append([]*Row(nil), rows[:least]...), rows[least+1:]...)
	}
	return rows
}
