package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A Diff has what differs between the runs of BASE and those of NEW.
type Diff struct {
	Base, New []*Run
	Overall   []*Overall
	Sections  []*Section
	Problems  []Problem // why the two should not be compared
	rule      Rule
	order     *order  // nil if the sides were not recorded one after the other
	drift     float64 // from run to run, a part of each figure
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
	// those that differ first; of these what adds most to the total, then what saves most; then those that are large
	Rows    []*Row
	Differ  int    // rows that differ
	Large   int    // rows that do not differ as far as is known, but whose time changed much
	Reason  string // why the report is not compared, "" if it is
	section *section
}

// A Row is a row of a report in BASE and in NEW.
type Row struct {
	Name     string
	Was      string // its name in BASE where it differs
	Match    string // how the two were matched where more than the name differs
	Verdicts []string
	Figures  []*compared // for each figure of the section
	Count    *compared
	Main     int     // index of the time that was judged, -1 if there is none
	Large    bool    // that changed much, but too few runs tell whether it differs
	Added    float64 // what the row adds to the total
	pair     *pair

	short, shortWas string // Name and Was for people, of kernels
}

// Compare compares runs.
func Compare(base, new []*Run, rule Rule) *Diff {
	d := &Diff{Base: base, New: new, rule: rule, Problems: problems(base, new), order: orderOf(base, new)}
	var all, rows []*compared
	for i := range overalls {
		o := &overalls[i]
		c := d.ofOverall(o)
		if o.ofStep && d.sameSteps() {
			c.spare()
		}
		d.Overall = append(d.Overall, &Overall{Name: o.name, compared: c, overall: o})
		all = append(all, c)
	}
	for i := range sections {
		if report := sections[i].report; partly[report] && !d.has(report) {
			continue
		}
		s := d.section(&sections[i])
		d.Sections = append(d.Sections, s)
		for _, r := range s.Rows {
			rows = append(rows, r.Figures...)
		}
	}
	d.nameKernels()
	d.drift = driftOf(rows, d.order)
	all = append(all, rows...)
	straighten(all, d.order, d.drift)
	rule.settle(all)
	for _, o := range d.Overall {
		o.Verdict = verdict(o.compared, o.overall.up, o.overall.down)
	}
	for _, s := range d.Sections {
		s.judge(d)
	}
	return d
}

// OtherPrograms says that the sides have no kernel in common, whatever its name: their figures are not about one
// program. It is "" where they have one, or one of them has no kernels.
func (d *Diff) OtherPrograms() string {
	var inBase, inNew bool
	for _, r := range d.Sections[0].Rows {
		if !r.pair.baseless && !r.pair.newless {
			return ""
		}
		inBase, inNew = inBase || !r.pair.baseless, inNew || !r.pair.newless
	}
	if !inBase || !inNew {
		return ""
	}
	text := fmt.Sprintf("%s and %s are different programs: they have no kernel in common", d.Base[0].Name, d.New[0].Name)
	if a, b := d.Base[0].start(), d.New[0].start(); !a.IsZero() && !b.IsZero() {
		if apart := b.Sub(a).Abs(); apart >= 24*time.Hour {
			text += ", and were recorded " + figures.Count(int(apart.Hours()/24), "day", "days") + " apart"
		}
	}
	return text
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
	return !slices.ContainsFunc(d.runs(), func(r *Run) bool {
		return r.reports[report] == nil || len(r.reports[report].rows) == 0
	})
}

// nearlyAll is the share of the GPU time of each run from which on a report of a part of it is compared.
const nearlyAll = 0.98

// known returns the smallest share of a run's GPU time that is in a report.
func (d *Diff) known(report string) float64 {
	least := 1.0
	for _, r := range d.runs() {
		if all := r.total("kernels", "total_ns") + r.total("copies", "total_ns") + r.total("sets", "total_ns"); all > 0 {
			least = min(least, r.total(report, "total_ns")/all)
		}
	}
	return least
}

// section compares the rows of a report.
func (d *Diff) section(s *section) *Section {
	out := &Section{Report: s.report, Title: s.title, section: s, Reason: d.lacks(s.report)}
	if out.Reason != "" {
		return out
	}
	if share := d.known(s.report); partly[s.report] && share < nearlyAll {
		out.Reason = fmt.Sprintf("they are known of %s of the GPU time (record --pytorch on)",
			table.Words(share, table.Share))
		return out
	}
	report := s.report
	if more := finer[report]; more != "" && d.has(more) {
		report = more
	}
	for _, p := range pairsOf(report, d.Base, d.New) {
		r := &Row{Name: p.label, Was: p.wasLabel, Match: p.match, pair: p}
		for _, f := range s.figures {
			r.Figures = append(r.Figures, d.ofRow(p, f.column, f.exact))
		}
		r.Count = r.figure(s, s.countOf())
		added := r.figure(s, s.adds)
		r.Added = added.New - added.Base
		r.spare(s)
		out.Rows = append(out.Rows, r)
	}
	return out
}

// ofRow compares a figure of a row.
func (d *Diff) ofRow(p *pair, column string, exact bool) *compared {
	v := runValues{exact: d.exact(column, exact), times: isTime(column)}
	v.base, v.new = p.values(column)
	return compare(v)
}

// ofOverall compares an overall figure.
func (d *Diff) ofOverall(o *overall) *compared {
	return compare(runValues{
		base: each(d.Base, o.of), new: each(d.New, o.of), exact: d.exact(o.name, o.isExact()), times: o.isTime(),
	})
}

// figure is a figure of a row, which the section need not judge.
func (r *Row) figure(s *section, column string) *compared {
	for i, f := range s.figures {
		if f.column == column {
			return r.Figures[i]
		}
	}
	base, new := r.pair.values(column)
	return compare(runValues{base: base, new: new, exact: true})
}

// spare tests one time of a row: the total, or the median where the total differs with the count.
func (r *Row) spare(s *section) {
	other := median.column
	if r.Count.Base != r.Count.New {
		other = total.column
	}
	for i, f := range s.figures {
		if c := r.Figures[i]; f.column == other {
			c.spare()
		}
	}
}

// spare leaves a figure untested.
func (c *compared) spare() { c.P, c.Few, c.Spared, c.Differs = math.NaN(), false, true, false }

// judge gives the rows their verdicts and their order.
func (s *Section) judge(d *Diff) {
	for _, r := range s.Rows {
		r.judge(s.section)
		r.Main = slices.IndexFunc(r.Figures, func(c *compared) bool { return !c.Spared && !c.Exact && c.known() })
		if i := r.Main; len(r.Verdicts) == 0 && i >= 0 {
			c := r.Figures[i]
			r.Large = d.tooFew() && c.Base != c.New && math.Abs(c.change()) >= d.rule.MinChange
		}
		switch {
		case len(r.Verdicts) > 0:
			s.Differ++
		case r.Large:
			s.Large++
		}
	}
	slices.SortStableFunc(s.Rows, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(a.class(), b.class()), -cmp.Compare(a.adds(), b.adds()),
			-cmp.Compare(math.Abs(a.Added), math.Abs(b.Added)), cmp.Compare(a.Name, b.Name))
	})
}

// class orders rows: those that differ, those that are large, all others.
func (r *Row) class() int {
	switch {
	case len(r.Verdicts) > 0:
		return 0
	case r.Large:
		return 1
	}
	return 2
}

// tooFew reports whether there are too few runs to judge times.
func (d *Diff) tooFew() bool { return !d.rule.Untested && min(len(d.Base), len(d.New)) < LeastRuns }

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

// A largest is a row whose time changed much.
type largest struct {
	*Section
	*Row
}

// largest are the rows whose times changed most.
func (d *Diff) largest() (all []largest) {
	for _, s := range d.Sections {
		for _, r := range s.Rows {
			if r.Large {
				all = append(all, largest{s, r})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b largest) int {
		x, y := a.Figures[a.Main], b.Figures[b.Main]
		return -cmp.Compare(math.Abs(x.New-x.Base), math.Abs(y.New-y.Base))
	})
	return all
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
