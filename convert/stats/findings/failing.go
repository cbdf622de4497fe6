package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/figures"
)

func (r *report) failing() {
	t := r.process.failures.tally((*timed).all)
	if len(t) == 0 {
		return
	}
	name := func(f failure) string { return f.function + f.error }
	keys := largest(t, name)
	slices.SortStableFunc(keys, func(a, b failure) int { return cmp.Compare(t[a].first, t[b].first) })
	var words []string
	for i, k := range keys {
		if i == MaxMoments {
			words = append(words, figures.Count(len(keys)-i, "other failure", "other failures"))
			break
		}
		words = append(words, fmt.Sprintf("%s returned %s (%s)", cmp.Or(k.function, "other functions"),
			cmp.Or(k.error, "errors"), figures.Count(t[k].count, "time", "times")))
	}
	e := total(t)
	var at []uint64
	for _, k := range keys[:min(len(keys), MaxMoments)] {
		at = append(at, t[k].first)
	}
	try := "look at the first one: later failures often follow from it; the report errors has the callers"
	noMemory := r.collector.NoMemory != nil && r.collector.NoMemory(r.process.Process)
	if noMemory {
		try += ", and out_of_memory who held the GPU's memory"
	}
	r.add("failing_calls", e, Finding{Title: figures.Count(e.count, "call fails", "calls fail"),
		Evidence: strings.Join(words, ", "), Try: try, NoMemory: noMemory})
	r.list[len(r.list)-1].At = at
}
