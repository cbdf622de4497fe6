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
	Refused   []Problem // why the result is not to be trusted: problems that are not allowed
	Top       int       // rows of a table for people, 0 for all
}

// WriteText writes the page for a terminal of a width in characters. Lines in front of the tables, and conditions, are
// whole, however long.
func (p *Page) WriteText(w io.Writer, width int) error {
	plain := func(name string) string { return table.Words(name, table.Text) }
	lines := p.lines(plain)
	for _, line := range p.largestLines(plain) {
		lines = append(lines, "  "+line)
	}
	for _, line := range append(lines, p.remarks(plain)...) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return table.WriteText(w, p.tables(), width)
}

const (
	// maxMarkdown is the size of the largest comment that GitHub takes, in bytes, less some for what
	// others write around it.
	maxMarkdown = 60 << 10
	// maxUnfolded is the number of rows of Markdown that are shown at once.
	maxUnfolded = 10
)

// WriteMarkdown writes the page for a pull request or a job summary: its lines and ten rows at most, of conditions
// first, and all else folded.
func (p *Page) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("## cudatrace diff\n\n")
	for _, line := range append(p.lines(table.MarkdownName), p.remarks(table.MarkdownName)...) {
		b.WriteString(line + "\n\n")
	}
	var first []*table.Table
	room := maxUnfolded
	if len(p.Outcomes) > 0 {
		t := p.conditions()
		t.Top(room)
		first, room = append(first, t), room-len(t.Rows)
	}
	if t := p.summary(); len(t.Rows) > 0 && room > 0 {
		t.Top(room)
		first = append(first, t)
	}
	if err := table.WriteMarkdown(&b, first); err != nil {
		return err
	}
	const open, close = "\n<details><summary>all figures and rows</summary>\n\n", "\n</details>\n"
	tables := slices.DeleteFunc(p.tables(), func(t *table.Table) bool {
		return len(t.Rows) == 0 || len(first) > 0 && t.Name == first[0].Name && first[0].LeftOut == 0
	})
	for n := len(tables); ; n-- {
		var body strings.Builder
		if err := table.WriteMarkdown(&body, tables[:n]); err != nil {
			return err
		}
		if b.Len()+body.Len()+len(open)+len(close) > maxMarkdown && n > 0 {
			continue
		}
		b.WriteString(open + body.String())
		if n < len(tables) {
			b.WriteString("\n" + figures.Count(len(tables)-n, "more table is", "more tables are") +
				" not shown: the page would be too long for a comment\n")
		}
		b.WriteString(close)
		break
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines are what a person should know first. quoted writes a name.
func (p *Page) lines(quoted func(string) string) []string {
	lines := []string{fmt.Sprintf("BASE: %s (%s). NEW: %s (%s).", runsWords(p.Diff.Base, quoted), quoted(p.Base),
		runsWords(p.Diff.New, quoted), quoted(p.New))}
	for _, x := range p.Refused {
		lines = append(lines, "warning: "+quoted(x.Refusal()))
	}
	return append(lines, p.headlines(quoted)...)
}

// remarks are what else a person should know.
func (p *Page) remarks(quoted func(string) string) (lines []string) {
	if p.rule.Untested {
		lines = append(lines, "differences are not tested: they may be chance")
	}
	lines = append(lines, p.renamed(quoted)...)
	for _, x := range p.Problems {
		if !slices.Contains(p.Refused, x) {
			lines = append(lines, "warning: "+quoted(x.Text))
		}
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

// stepLine says how the time of a step changed, "" if it did not.
func (p *Page) stepLine() string {
	i := slices.IndexFunc(p.Overall, func(o *Overall) bool { return o.Name == stepTime })
	if i < 0 {
		return ""
	}
	o := p.Overall[i]
	words := fmt.Sprintf("step time: %s (%s), ", pairWords(o.compared, o.overall.unit),
		table.Words(o.change(), table.Percent))
	switch {
	case o.Differs:
		return words + o.Verdict
	case p.tooFew() && math.Abs(o.change()) >= p.rule.MinChange:
		return words + "significance unknown"
	}
	return ""
}

// stepPart says which part of a step changed by most of the change of its time, "" if none did.
func (p *Page) stepPart() string {
	by := make(map[string]*compared)
	for _, o := range p.Overall {
		by[o.Name] = o.compared
	}
	change := func(name string) float64 {
		if by[name] == nil {
			return 0
		}
		return by[name].New - by[name].Base
	}
	all := change(stepTime)
	for _, part := range []struct{ name, words string }{{"step_idle_time", "idle"}, {"step_busy_time", "busy"}} {
		if c := by[part.name]; change(part.name)/all > 0.5 {
			return fmt.Sprintf("mostly %s GPU: %s a step", part.words, pairWords(c, table.Duration))
		}
	}
	return ""
}

// headlines say how much differs, and what to look at first.
func (p *Page) headlines(quoted func(string) string) (lines []string) {
	if step := p.stepLine(); step != "" {
		lines = append(lines, step)
		if part := p.stepPart(); part != "" {
			lines = append(lines, part)
		}
	}
	section, row := p.First()
	if section != nil {
		count := figures.Count(p.differences(), "difference", "differences")
		lines = append(lines, fmt.Sprintf("%s; first: %s %s: %s%s", count, rowWords[section.Report], quoted(row.shown()),
			strings.Join(row.Verdicts, ", "), how(section, row)))
	}
	switch {
	case p.tooFew() && len(p.largest()) > 0:
		return append(lines, p.tooFewWords()+"; largest differences:")
	case p.tooFew():
		what := "none"
		if len(lines) > 0 {
			what = "no other"
		}
		words := fmt.Sprintf("%s; %s changed by %s or more", p.tooFewWords(), what, share(p.rule.MinChange))
		if section == nil && len(lines) == 0 {
			words += ", and nothing else differs"
		}
		return append(lines, words)
	case section == nil && len(lines) > 0:
		return append(lines, "no row of a report differs")
	case section == nil:
		return []string{"nothing differs"}
	}
	return lines
}

// share writes a part of 1.
func share(part float64) string { return fmt.Sprintf("%.3g %%", 100*part) }

// tooFewWords says why times are not judged.
func (p *Page) tooFewWords() string {
	base, now := len(p.Diff.Base), len(p.Diff.New)
	switch {
	case base != now:
		return fmt.Sprintf("BASE has %s and NEW %s: significance of times unknown, record %d+ each",
			figures.Count(base, "run", "runs"), figures.Group(now), LeastRuns)
	case base == 1:
		return fmt.Sprintf("one run a side: significance of times unknown, record %d+", LeastRuns)
	}
	runs := figures.Count(base, "run", "runs")
	return fmt.Sprintf("%s a side: significance of times unknown, record %d+", runs, LeastRuns)
}

// maxLargest is the number of rows that are named first.
const maxLargest = 5

// largestLines name the rows whose times changed most, though too few runs tell whether they differ.
func (p *Page) largestLines(quoted func(string) string) (lines []string) {
	all := p.largest()
	for i, l := range all {
		if i == maxLargest {
			return append(lines, fmt.Sprintf("and %s more", figures.Group(len(all)-i)))
		}
		lines = append(lines, rowWords[l.Report]+" "+quoted(l.shown())+": "+l.words())
	}
	return lines
}

// words says how the time of a row changed, and how much it varies.
func (l *largest) words() string {
	c, column := l.Figures[l.Main], l.columns()[l.Main]
	return fmt.Sprintf("%s %s → %s (%s)", columnWords(column.Key), withSpread(table.Words(c.Base, column.Unit),
		c.Spread[0]), withSpread(table.Words(c.New, column.Unit), c.Spread[1]),
		table.Words(c.change(), table.Percent))
}

// withSpread writes a figure with how much it varies.
func withSpread(figure string, spread float64) string {
	if math.IsNaN(spread) {
		return figure
	}
	return figure + " " + spreadWords(spread)
}

func spreadWords(spread float64) string { return fmt.Sprintf("±%.1f %%", 100*spread) }

// spreadCell is the cell of how much a figure varies, on the side where it varies more.
func spreadCell(c *compared) any {
	spread := most(c.Spread[0], c.Spread[1])
	if c.Exact || math.IsNaN(spread) {
		return nil
	}
	return spreadWords(spread)
}

// rowWords is a row of a report.
var rowWords = map[string]string{
	"kernels": "kernel", "copies": "copy", "sets": "set", "calls": "call", "errors": "failed call", "nvtx": "NVTX range",
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
	switch key { // as in the report ranks
	case "waited_ns":
		return "waited for others"
	case "awaited_ns":
		return "others waited"
	}
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
		{Key: "name", Title: "figure"}, {Key: "base", Title: "BASE", Unit: table.Number},
		{Key: "new", Title: "NEW", Unit: table.Number},
		{Key: "change", Title: "change", Unit: table.Percent}, {Key: "spread", Title: "spread", Unit: table.Figures},
		{Key: "verdict", Title: "differs", Unit: table.Figures}}}
	for _, o := range p.Overall {
		if math.IsNaN(o.Base) && math.IsNaN(o.New) || o.Base == 0 && o.New == 0 || o.overall.ofStep && o.Spared {
			continue
		}
		t.Add(o.Name, table.Cell{Value: o.Base, Unit: o.overall.unit}, table.Cell{Value: o.New, Unit: o.overall.unit},
			o.change(), spreadCell(o.compared), orNothing(o.Verdict))
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

// section is the table of the rows that differ, and of those that are large. Its figures stand side by side.
func (p *Page) section(s *Section) *table.Table {
	t := &table.Table{
		Name: s.Report, Title: fmt.Sprintf("%s of %s", figures.Group(s.Differ), figures.Count(len(s.Rows), "row differs",
			"rows differ")), Reason: s.Reason,
	}
	if s.Large > 0 {
		t.Title += fmt.Sprintf("; of %s the time changed by %s or more", figures.Group(s.Large), share(p.rule.MinChange))
	}
	switch {
	case s.Reason != "":
		t.Reason = "not compared: " + s.Reason
	case len(s.Rows) == 0:
		t.Reason = "no rows on either side"
	case p.tooFew():
		t.Reason = fmt.Sprintf("no difference in the counts of %s, and no time changed by %s or more",
			figures.Count(len(s.Rows), "row", "rows"), share(p.rule.MinChange))
	default:
		t.Reason = "no difference in " + figures.Count(len(s.Rows), "row", "rows")
	}
	t.Columns = []table.Column{
		{Key: "name", Title: s.Title, Short: shortNames}, {Key: "verdict", Title: "differs", Unit: table.Figures, Rank: 1},
	}
	if s.addsTime() {
		t.Columns = append(t.Columns, table.Column{Key: "added_ns", Title: "adds", Unit: table.Difference, Rank: 2})
	}
	timed := slices.ContainsFunc(s.columns(), func(c table.Column) bool { return c.Unit == table.Duration })
	if timed {
		t.Columns = append(t.Columns, table.Column{Key: "spread", Title: "spread", Unit: table.Figures, Rank: 2})
	}
	for i, c := range s.columns() {
		t.Columns = append(t.Columns, table.Column{
			Key: c.Key, Title: columnWords(c.Key), Unit: table.Figures, Rank: rank(c.Key, i),
		})
	}
	for _, r := range p.shown(s) {
		row := []any{r.Name, r.verdict()}
		if s.addsTime() {
			row = append(row, r.Added)
		}
		if timed {
			row = append(row, r.spread())
		}
		for i, c := range s.columns() {
			row = append(row, pairWords(r.Figures[i], c.Unit))
		}
		addRow(t, r, row...)
	}
	t.LeftOut = s.Differ + s.Large - len(t.Rows)
	return t
}

// rank is the rank of the i-th figure of a row: how often and how long come before all else.
func rank(column string, i int) int {
	if column == counted.column || column == total.column {
		return 3
	}
	return 4 + i
}

// verdict is the cell of how a row differs.
func (r *Row) verdict() any { return orNothing(strings.Join(r.Verdicts, ", ")) }

// spread is the cell of how much the time of a row varies.
func (r *Row) spread() any {
	if r.Main < 0 {
		return nil
	}
	return spreadCell(r.Figures[r.Main])
}

// summary is the table of the first rows of all reports.
func (p *Page) summary() *table.Table {
	t := &table.Table{Name: "differences", Title: figures.Count(p.differences(), "row differs", "rows differ"),
		Columns: []table.Column{
			{Key: "report", Title: "", Unit: table.Plain}, {Key: "name", Title: "name", Short: shortNames},
			{Key: "verdict", Title: "differs", Unit: table.Figures}, {Key: "figure", Title: "figure", Unit: table.Figures},
			{Key: "spread", Title: "spread", Unit: table.Figures}}}
	t.Columns[0].Title = "report"
	for _, s := range p.Sections {
		for _, r := range s.Rows[:s.Differ] {
			addRow(t, r, s.Report, r.Name, r.verdict(), strings.Trim(how(s, r), " ()"), r.spread())
		}
	}
	for _, l := range p.largest() {
		c, column := l.Figures[l.Main], l.columns()[l.Main]
		change := table.Words(c.change(), table.Percent)
		figure := fmt.Sprintf("%s %s (%s)", columnWords(column.Key), pairWords(c, column.Unit), change)
		addRow(t, l.Row, l.Report, l.Name, l.verdict(), figure, l.spread())
	}
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
				was = quoted(r.shortWas)
			}
			lines = append(lines,
				fmt.Sprintf("%s in NEW is %s in BASE: only %s changed", quoted(r.shown()), was, changed[r.Match]))
		}
	}
	if n > maxRenamed {
		lines = append(lines, fmt.Sprintf("and %s", figures.Count(n-maxRenamed, "more kernel under another name",
			"more kernels under other names")))
	}
	return lines
}

// changed is what differs in the names of a kernel.
var changed = map[string]string{
	"parameters": "its parameters", "hash": "a hash in its name", "template": "its template arguments",
	"python": "the Python function that launches it",
}

// shown are the rows that differ or are large, as many as people want to see: those that add, or save, most.
func (p *Page) shown(s *Section) []*Row {
	rows := s.Rows[:s.Differ+s.Large]
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

// Lines are what a person should know first, and the remarks, a line each.
func (p *Page) Lines() []string {
	plain := func(name string) string { return table.Words(name, table.Text) }
	return append(append(p.lines(plain), p.largestLines(plain)...), p.remarks(plain)...)
}

// Tables are the tables for people, those with rows.
func (p *Page) Tables() []*table.Table {
	return slices.DeleteFunc(p.tables(), func(t *table.Table) bool { return len(t.Rows) == 0 })
}

// A Change is how a figure of a run changed.
type Change struct {
	Name, Base, New string
	Part            float64 // of the figure of BASE
	Spread          float64 // of the side that varies more, as a part of the figure; NaN if it is not known
	Verdict         string  // "slower", "less"; "" where no difference is proved
	Worse           bool    // the figure is larger, or less of the time is used
}

// Changes are the figures of a run that changed. Figures of a step are left out where the whole says the same.
func (p *Page) Changes() (list []Change) {
	for _, o := range p.Overall {
		part := o.change()
		if math.IsNaN(part) || math.IsInf(part, 0) || part == 0 || o.overall.ofStep && o.Spared {
			continue
		}
		c := Change{
			o.Name, table.Words(o.Base, o.overall.unit), table.Words(o.New, o.overall.unit), part,
			most(o.Spread[0], o.Spread[1]), o.Verdict, part > 0,
		}
		if o.Exact {
			c.Spread = math.NaN()
		}
		if o.overall.unit == table.Share {
			c.Worse = !c.Worse
		}
		list = append(list, c)
	}
	return list
}
