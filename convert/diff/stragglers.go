package diff

import (
	"fmt"
	"maps"
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
	was, is := stragglersOf(base), stragglersOf(new)
	only := func(with, without string, has, lacks map[string][]string, of []*Run) {
		for _, who := range slices.Sorted(maps.Keys(has)) {
			if lacks[who] == nil {
				all = append(all, Problem{straggling, with + " has a straggler that " + without + " has not" +
					inRuns(has[who], of) + ": " + has[who][0]})
			}
		}
	}
	only("BASE", "NEW", was, is, base)
	only("NEW", "BASE", is, was, new)
	return all
}

// stragglersOf are the findings about stragglers, one for each run that has the straggler: by rank, whatever shows
// it, or by host.
func stragglersOf(runs []*Run) map[string][]string {
	all := make(map[string][]string)
	for _, r := range runs {
		if r.reports[findings] == nil {
			continue
		}
		seen := make(map[string]bool)
		for _, key := range slices.Sorted(maps.Keys(r.reports[findings].rows)) {
			kind, who, _ := strings.Cut(key, "\x00")
			switch kind {
			case "compute_imbalance", "odd_kernel", "straggling_rank":
				who = who[strings.LastIndexByte(who, 0)+1:] // the rank, without the GPU
			case "straggling_host":
				who = key
			default:
				continue
			}
			if !seen[who] {
				seen[who], all[who] = true, append(all[who], r.reports[findings].rows[key].label)
			}
		}
	}
	return all
}

// inRuns says in how many of several runs.
func inRuns(with []string, of []*Run) string {
	if len(of) == 1 {
		return ""
	}
	return fmt.Sprintf(", in %d of %s", len(with), figures.Count(len(of), "run", "runs"))
}
