package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/figures"
)

// findings is the report of findings.
const findings = "findings"

// otherStragglers names the straggling ranks and hosts that runs of one side have, and none of the other. Each run must
// have several ranks: one alone waits for nobody.
func otherStragglers(base, new []*Run) (all []Problem) {
	if slices.ContainsFunc(slices.Concat(base, new), func(r *Run) bool {
		return r.reports["ranks"] == nil || len(r.reports["ranks"].rows) < 2
	}) {
		return nil
	}
	for _, key := range stragglersOf(slices.Concat(base, new)) {
		a, b := runsWith(base, key), runsWith(new, key)
		switch {
		case len(a) > 0 && len(b) == 0:
			all = append(all, Problem{
				straggling, "BASE has a straggler that NEW has not" + inRuns(a, base) + ": " +
					a[0].reports[findings].rows[key].label,
			})
		case len(b) > 0 && len(a) == 0:
			all = append(all, Problem{
				straggling, "NEW has a straggler that BASE has not" + inRuns(b, new) + ": " +
					b[0].reports[findings].rows[key].label,
			})
		}
	}
	return all
}

// stragglersOf are the keys of the rows about stragglers, sorted.
func stragglersOf(runs []*Run) (keys []string) {
	for _, r := range runs {
		if r.reports[findings] == nil {
			continue
		}
		for key := range r.reports[findings].rows {
			of := strings.HasPrefix(key, "straggling_") || strings.HasPrefix(key, "compute_imbalance")
			if of && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// runsWith are the runs that have a finding.
func runsWith(runs []*Run, key string) (with []*Run) {
	for _, r := range runs {
		if all := r.reports[findings]; all != nil && all.rows[key] != nil {
			with = append(with, r)
		}
	}
	return with
}

// inRuns says in how many of several runs.
func inRuns(with, of []*Run) string {
	if len(of) == 1 {
		return ""
	}
	return fmt.Sprintf(", in %d of %s", len(with), figures.Count(len(of), "run", "runs"))
}
