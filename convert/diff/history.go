package diff

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A History has the overall figures of a program by its commit, in the order of time, and where they changed.
type History struct {
	revisions []*revision
	changes   []*shift
	runs      int
}

// A revision has the runs of a commit.
type revision struct {
	name string
	runs []*Run
}

func (r *revision) start() time.Time { return slices.MinFunc(r.runs, byStart).start() }

// A shift is the first change of a figure that is more than chance.
type shift struct {
	*overall
	*compared
	at int // index of the revision
}

// ByRevision puts runs in the order of their commits: of the first runs of these. It finds the first commit from which on a figure differs.
func ByRevision(runs []*Run, rule Rule) (*History, error) {
	h := &History{runs: len(runs)}
	for _, r := range runs {
		name := r.revision()
		switch {
		case name == "":
			return nil, fmt.Errorf("%s does not say of which commit it is: the program was not recorded in a folder of Git, or without metadata", r.Name)
		case r.start().IsZero():
			return nil, fmt.Errorf("%s does not say when it was recorded", r.Name)
		}
		i := slices.IndexFunc(h.revisions, func(v *revision) bool { return v.name == name })
		if i < 0 {
			i, h.revisions = len(h.revisions), append(h.revisions, &revision{name: name})
		}
		h.revisions[i].runs = append(h.revisions[i].runs, r)
	}
	slices.SortStableFunc(h.revisions, func(a, b *revision) int { return a.start().Compare(b.start()) })
	threads := slices.ContainsFunc(runs, func(r *Run) bool { return r.threads })
	for i := range overalls {
		if s := h.first(&overalls[i], &rule, threads); s != nil {
			h.changes = append(h.changes, s)
		}
	}
	slices.SortStableFunc(h.changes, func(a, b *shift) int { return cmp.Compare(a.at, b.at) })
	return h, nil
}

// first returns the first change of a figure, nil if there is none. Each commit may be the one, and each figure, so probabilities are multiplied with both numbers.
func (h *History) first(o *overall, rule *Rule, threads bool) (found *shift) {
	for until := len(h.revisions); ; until = found.at {
		var best *shift
		for at := 1; at < until; at++ {
			v := runValues{exact: o.isExact() && !threads, times: o.isTime()}
			v.base, v.new = h.values(o, 0, at), h.values(o, at, until)
			c := compare(v, nil)
			if c.Exact && min(len(c.values[0]), len(c.values[1])) >= LeastRuns && c.Differs {
				c.P = 0
			}
			if c.P *= float64((len(h.revisions) - 1) * len(overalls)); !math.IsNaN(c.P) && (best == nil || c.P < best.P) {
				best = &shift{o, c, at}
			}
		}
		if best == nil || best.P > rule.Rate || !best.Exact && math.Abs(best.change()) < rule.MinChange {
			return found
		}
		found = best
	}
}

// values returns a figure of the runs of some revisions.
func (h *History) values(o *overall, from, until int) (list []float64) {
	for _, r := range h.revisions[from:until] {
		list = append(list, each(r.runs, o.of)...)
	}
	return list
}

// shownByRevision are the figures that people see of each commit.
var shownByRevision = []string{stepTime, "cuda_time", "kernel_time", "kernel_count", "gpu_busy", "wait_time", "peak_memory"}

// tables are the table of the changes, and that of the commits, with all figures or those that people see. name writes the name of a commit.
func (h *History) tables(name func(string) string) []*table.Table {
	commits := &table.Table{Name: "revisions", Title: "means of the runs of each commit", Columns: []table.Column{
		{Key: "name", Title: "commit"}, {Key: "start", Title: "first run", Unit: table.Plain}, {Key: "runs", Title: "runs", Unit: table.Number, Rank: 1}}}
	for i := range overalls {
		o := &overalls[i]
		c := table.Column{Key: o.name, Unit: o.unit}
		if at := slices.Index(shownByRevision, o.name); at >= 0 {
			c.Title, c.Rank = o.name, 2+at
		}
		commits.Columns = append(commits.Columns, c)
	}
	for i, r := range h.revisions {
		row := []any{name(r.name), r.start().Format("2006-01-02 15:04"), uint64(len(r.runs))}
		for k := range overalls {
			row = append(row, meanOf(known(h.values(&overalls[k], i, i+1))))
		}
		commits.Rows = append(commits.Rows, row)
	}
	changes := &table.Table{Name: "changes", Title: "the first commit from which on a figure differs", Reason: "no figure differs by more than chance explains", Columns: []table.Column{
		{Key: "name", Title: "figure"}, {Key: "revision", Title: "from commit"}, {Key: "before", Title: "before", Unit: table.Rate}, {Key: "after", Title: "since", Unit: table.Rate},
		{Key: "change", Title: "change", Unit: table.Percent}}}
	if h.runs < 2*LeastRuns {
		changes.Reason = fmt.Sprintf("%s too few: it takes %d before a commit and %d since", figures.Count(h.runs, "run is", "runs are"), LeastRuns, LeastRuns)
	}
	for _, s := range h.changes {
		changes.Rows = append(changes.Rows, []any{s.name, name(h.revisions[s.at].name), table.Cell{Value: s.Base, Unit: s.unit}, table.Cell{Value: s.New, Unit: s.unit}, s.change()})
	}
	return []*table.Table{changes, commits}
}

// short is the name of a commit for people.
func short(revision string) string { return revision[:min(len(revision), shortRevision)] }

// headline says which commit to look at.
func (h *History) headline() string {
	words := fmt.Sprintf("%s of %s", figures.Count(h.runs, "run", "runs"), figures.Count(len(h.revisions), "commit", "commits"))
	if len(h.changes) == 0 {
		return words + ": nothing changed as far as these tell"
	}
	s := h.changes[0]
	return fmt.Sprintf("%s; the first that is beyond noise: %s (%s %s)", words, short(h.revisions[s.at].name), s.name, pairWords(s.compared, s.unit))
}

// WriteText writes the history for a terminal of a width in characters.
func (h *History) WriteText(w io.Writer, width int) error {
	if _, err := fmt.Fprintf(w, "%s\n\n", h.headline()); err != nil {
		return err
	}
	return table.WriteText(w, h.tables(short), width)
}

// WriteMarkdown writes the history for an issue or a job summary.
func (h *History) WriteMarkdown(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "## cudatrace diff\n\n%s\n\n", h.headline()); err != nil {
		return err
	}
	return table.WriteMarkdown(w, h.tables(short))
}

// WriteJSON writes the history as a JSON object, which docs/diff.md documents.
func (h *History) WriteJSON(w io.Writer) error {
	return table.WriteJSON(w, []table.Member{{Name: "version", Value: pageVersion}}, h.tables(func(name string) string { return name }))
}
