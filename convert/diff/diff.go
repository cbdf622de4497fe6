package diff

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// A Diff has what differs between the runs of BASE and those of NEW.
type Diff struct {
	Base, New []*Run
	Overall   []*Overall
	Sections  []*Section
	Problems  []Problem // why the two should not be compared
	rule      Rule
}

// An Overall is an overall figure.
type Overall struct {
	Name string
	*compared
	Verdict string // "" if it does not differ
	overall *overall
}

// A Section compares the rows of a report.
type Section struct {
	Report, Title string
	Rows          []*Row // those that differ first; of these what adds most to the total, then what saves most
	Differ        int    // rows that differ
	Reason        string // why the report is not compared, "" if it is
	section       *section
}

// A Row is a row of a report in BASE and in NEW.
type Row struct {
	Name     string
	Was      string // its name in BASE where it differs
	Match    string // how the two were matched where more than the name differs
	Verdicts []string
	Figures  []*compared // for each figure of the section
	Count    *compared
	Added    float64 // what the row adds to the total
	pair     *pair
}

// Compare compares runs.
func Compare(base, new []*Run, rule Rule) *Diff {
	d := &Diff{Base: base, New: new, rule: rule, Problems: problems(base, new)}
	var all []*compared
	for i := range overalls {
		o := &overalls[i]
		c := compare(each(base, o.of), each(new, o.of), d.exact(o.name, o.isExact()), o.isTime())
		d.Overall = append(d.Overall, &Overall{Name: o.name, compared: c, overall: o})
		all = append(all, c)
	}
	for i := range sections {
		s := d.section(&sections[i])
		d.Sections = append(d.Sections, s)
		for _, r := range s.Rows {
			all = append(all, r.Figures...)
		}
	}
	rule.settle(all)
	for _, o := range d.Overall {
		o.Verdict = verdict(o.compared, o.overall.up, o.overall.down)
	}
	for _, s := range d.Sections {
		s.judge()
	}
	return d
}

func each(runs []*Run, of func(*Run) float64) (values []float64) {
	for _, r := range runs {
		values = append(values, of(r))
	}
	return values
}

// runs are those of both sides.
func (d *Diff) runs() []*Run { return slices.Concat(d.Base, d.New) }

// lacks says why a report cannot be compared, "" if it can.
func (d *Diff) lacks(report string) string {
	for _, r := range d.runs() {
		if why := r.lacks(report); why != "" {
			return why
		}
	}
	return ""
}

// has reports whether each run has rows of a report.
func (d *Diff) has(report string) bool {
	return !slices.ContainsFunc(d.runs(), func(r *Run) bool { return r.reports[report] == nil || len(r.reports[report].rows) == 0 })
}

// section compares the rows of a report.
func (d *Diff) section(s *section) *Section {
	out := &Section{Report: s.report, Title: s.title, section: s, Reason: d.lacks(s.report)}
	if out.Reason != "" {
		return out
	}
	report := s.report
	if more := finer[report]; more != "" && d.has(more) {
		report = more
	}
	for _, p := range pairsOf(report, d.Base, d.New) {
		r := &Row{Name: p.label, Was: p.wasLabel, Match: p.match, pair: p}
		for _, f := range s.figures {
			base, new := p.values(f.column)
			r.Figures = append(r.Figures, compare(base, new, d.exact(f.column, f.exact), isTime(f.column)))
		}
		r.Count = r.figure(s, s.countOf())
		added := r.figure(s, s.adds)
		r.Added = added.New - added.Base
		r.spare(s)
		out.Rows = append(out.Rows, r)
	}
	return out
}

// figure is a figure of a row, which the section need not judge.
func (r *Row) figure(s *section, column string) *compared {
	for i, f := range s.figures {
		if f.column == column {
			return r.Figures[i]
		}
	}
	base, new := r.pair.values(column)
	return compare(base, new, true, false)
}

// spare tests one time of a row: the total, or the median where the total differs with the count.
func (r *Row) spare(s *section) {
	other := median.column
	if r.Count.Base != r.Count.New {
		other = total.column
	}
	for i, f := range s.figures {
		if c := r.Figures[i]; f.column == other {
			r.Figures[i] = &compared{Base: c.Base, New: c.New, P: math.NaN(), Q: math.NaN(), Spared: true}
		}
	}
}

// judge gives the rows their verdicts and their order.
func (s *Section) judge() {
	for _, r := range s.Rows {
		r.judge(s.section)
		if len(r.Verdicts) > 0 {
			s.Differ++
		}
	}
	slices.SortStableFunc(s.Rows, func(a, b *Row) int {
		return cmp.Or(-cmp.Compare(min(len(a.Verdicts), 1), min(len(b.Verdicts), 1)), -cmp.Compare(a.adds(), b.adds()),
			-cmp.Compare(math.Abs(a.Added), math.Abs(b.Added)), cmp.Compare(a.Name, b.Name))
	})
}

// adds is what a row adds to the total, 0 if it saves.
func (r *Row) adds() float64 { return max(r.Added, 0) }

func (r *Row) judge(s *section) {
	if r.Count.Differs && (r.Count.Base == 0 || r.Count.New == 0) {
		word := "new"
		if r.Count.New == 0 {
			word = "gone"
		}
		r.Verdicts = []string{word}
		return
	}
	for i, f := range s.figures {
		if word := verdict(r.Figures[i], f.up, f.down); word != "" && !slices.Contains(r.Verdicts, word) {
			r.Verdicts = append(r.Verdicts, word)
		}
	}
}

// verdict names a difference, "" where there is none.
func verdict(c *compared, up, down string) string {
	switch {
	case !c.Differs:
		return ""
	case c.New > c.Base:
		return up
	}
	return down
}

// differences is the number of rows that differ.
func (d *Diff) differences() (n int) {
	for _, s := range d.Sections {
		n += s.Differ
	}
	return n
}

// First is the row that a person should look at first, with its section; nil without a difference.
func (d *Diff) First() (*Section, *Row) {
	for _, s := range d.Sections {
		if s.Differ > 0 {
			return s, s.Rows[0]
		}
	}
	return nil, nil
}

// columns are the columns of the figures of a section's rows.
func (s *Section) columns() (columns []table.Column) {
	for _, f := range s.section.figures {
		unit := table.Number
		switch {
		case isTime(f.column):
			unit = table.Duration
		case strings.HasSuffix(f.column, "bytes"):
			unit = table.Bytes
		}
		columns = append(columns, table.Column{Key: f.column, Unit: unit})
	}
	return columns
}

// addsTime reports whether what a row adds is a time.
func (s *Section) addsTime() bool { return isTime(s.section.adds) }
