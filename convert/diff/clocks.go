package diff

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// metrics is the report of sampled metrics.
const metrics = "metrics"

// otherClock is the least difference of mean SM clocks that is named.
const otherClock = 0.02

// clockNames are the names of rows with an SM clock: the clock of PM sampling is the better one.
var clockNames = []string{"gpc__cycles_elapsed.avg.per_second", "sm_clock"}

// otherClocks names GPUs whose SM clock differs between BASE and NEW, and what lowered it.
func otherClocks(base, new []*Run) (all []Problem) {
	for _, key := range clockKeys(base, new) {
		a, b := clockOf(base, key), clockOf(new, key)
		if math.Abs(a-b) <= otherClock*max(a, b) || math.IsNaN(a) || math.IsNaN(b) {
			continue
		}
		text := fmt.Sprintf("SM clock of GPU %s: %.0f MHz in BASE%s, %.0f MHz in NEW%s", key.gpu, a/1e6,
			lowered(base, key.gpu), b/1e6, lowered(new, key.gpu))
		all = append(all, Problem{OtherClocks, text})
	}
	return all
}

// A clockKey is a row with the SM clock of a GPU.
type clockKey struct{ row, gpu string }

// clockKeys are the clocks that runs have, one a GPU.
func clockKeys(base, new []*Run) (keys []clockKey) {
	for _, r := range slices.Concat(base, new) {
		if r.reports[metrics] == nil {
			continue
		}
		for row := range r.reports[metrics].rows {
			parts := strings.Split(row, "\x00")
			if len(parts) == 4 && slices.Contains(clockNames, parts[0]) && !slices.Contains(keys, clockKey{row, parts[3]}) {
				keys = append(keys, clockKey{row, parts[3]})
			}
		}
	}
	slices.SortFunc(keys, func(a, b clockKey) int { return strings.Compare(a.gpu+a.row, b.gpu+b.row) })
	return slices.CompactFunc(keys, func(a, b clockKey) bool { return a.gpu == b.gpu })
}

// clockOf is the mean clock of runs, NaN if one of them has none.
func clockOf(runs []*Run, key clockKey) (sum float64) {
	for _, r := range runs {
		if r.reports[metrics] == nil {
			return math.NaN()
		}
		sum += r.reports[metrics].value(key.row, "mean")
	}
	return sum / float64(len(runs))
}

// lowered says what lowered the clocks of a GPU in runs.
func lowered(runs []*Run, gpu string) string {
	const prefix = "clocks lowered: "
	var why []string
	for _, r := range runs {
		for row, of := range r.reports[metrics].rows {
			if strings.HasSuffix(row, "\x00"+gpu) && strings.HasPrefix(of.name, prefix) {
				why = append(why, strings.TrimPrefix(of.name, prefix))
			}
		}
	}
	if len(why) == 0 {
		return ""
	}
	slices.Sort(why)
	return " (lowered by " + strings.Join(slices.Compact(why), ", ") + ")"
}
