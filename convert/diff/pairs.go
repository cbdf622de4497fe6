package diff

import (
	"maps"
	"slices"
	"strings"
)

// A pair is a row of BASE and the row of NEW that it became.
type pair struct {
	report   string
	name     string // in NEW, or in BASE where NEW has none
	label    string // of the same side: the name, with what else tells rows apart
	was      string // the name in BASE where it differs
	wasLabel string // the label in BASE where it differs
	match    string // how the two were matched where their keys differ
	inBase   string // key in BASE, "" if no run has the row
	inNew    string
	base     []*Run
	new      []*Run
	baseless bool // BASE has no such row
	newless  bool // NEW has no such row
}

// values returns the values of a column in each run.
func (p *pair) values(column string) (base, new []float64) {
	of := func(runs []*Run, key string) (values []float64) {
		for _, r := range runs {
			values = append(values, r.reports[p.report].value(key, column))
		}
		return values
	}
	return of(p.base, p.inBase), of(p.new, p.inNew)
}

// pairsOf pairs the rows of a report, which all runs have.
func pairsOf(report string, base, new []*Run) []*pair {
	before, after := rowsOf(report, base), rowsOf(report, new)
	all := maps.Clone(before)
	maps.Copy(all, after)
	var pairs []*pair
	for _, key := range slices.Sorted(maps.Keys(all)) {
		p := &pair{report: report, name: all[key].name, label: all[key].label, inBase: key, inNew: key, base: base, new: new}
		p.baseless, p.newless = before[key] == nil, after[key] == nil
		pairs = append(pairs, p)
	}
	if report == "kernels" || report == kernelPython {
		pairs = renamed(pairs)
	}
	return pairs
}

// rowsOf returns a row of a report for each key that a run has.
func rowsOf(report string, runs []*Run) map[string]*row {
	rows := make(map[string]*row)
	for _, r := range runs {
		maps.Copy(rows, r.reports[report].rows)
	}
	return rows
}

// renamed joins kernels that only BASE has with kernels that only NEW has, where their names are
// the same but for what changes from build to build, and no other kernel has that name.
func renamed(pairs []*pair) []*pair {
	for _, p := range plainers {
		var old, now = map[string][]*pair{}, map[string][]*pair{}
		for _, row := range pairs {
			name, was := p.of(row.inNew), p.of(row.inBase)
			if name == "" || was == "" {
				continue
			}
			if !row.baseless {
				old[was] = append(old[was], row)
			}
			if !row.newless {
				now[name] = append(now[name], row)
			}
		}
		for name, was := range old {
			if is := now[name]; len(was) == 1 && len(is) == 1 && was[0].newless && is[0].baseless &&
				(p.match != byTemplate || sameCount(was[0], is[0])) {
				is[0].join(was[0], p.match)
			}
		}
		pairs = slices.DeleteFunc(pairs, func(row *pair) bool { return row.inNew == "" })
	}
	return pairs
}

// join makes one pair of a row that BASE alone has and one that NEW alone has.
func (p *pair) join(was *pair, match string) {
	p.inBase, p.baseless, p.match = was.inBase, false, match
	if was.name != p.name {
		p.was = was.name
	}
	if was.label != p.label {
		p.wasLabel = was.label
	}
	was.inNew = ""
}

// of returns what a plainer leaves of the key of a kernel, "" if it cannot tell.
func (p *plainer) of(key string) string {
	parts := strings.Split(key, "\x00") // name, signature, and the file and the Python function where they are known
	if p.match == byPython {
		return parts[0] + "\x00" + parts[1]
	}
	if parts[0] = p.plain(parts[0]); parts[0] == "" {
		return ""
	}
	return strings.Join(slices.Delete(parts, 1, 2), "\x00")
}

// sameCount reports whether two kernels were launched equally often in each run.
func sameCount(was, is *pair) bool {
	before, _ := was.values("count")
	_, after := is.values("count")
	return constant(before) && constant(after) && before[0] == after[0]
}
