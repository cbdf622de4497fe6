package probe

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// singleLimits is the most functions of a library that are probed with perf events: the kernel
// removes the events one after the other, two for each function, in 30 ms or more each. All of
// the driver's functions for GPU work are within the limit.
var singleLimits = map[cudaapi.Library]int{cudaapi.Driver: 64, cudaapi.Runtime: 24}

// withinLimit leaves out functions beyond the library's limit, and notes how many.
func withinLimit(chosen []*cudaapi.Function, l *Library) []*cudaapi.Function {
	kept, leftOut := mostImportant(chosen, max(singleLimits[l.Side]-len(l.Functions), 0))
	if leftOut > 0 {
		l.Refused = append(l.Refused,
			fmt.Sprintf("%d more functions (this kernel takes long to remove probes; Linux 6.10 or newer does not)", leftOut))
	}
	return kept
}

// mostImportant keeps at most n functions, in table order, and says how many are left out.
func mostImportant(chosen []*cudaapi.Function, n int) (kept []*cudaapi.Function, leftOut int) {
	if len(chosen) <= n {
		return chosen, 0
	}
	kept = slices.Clone(chosen)
	slices.SortStableFunc(kept, func(a, b *cudaapi.Function) int { return rank(a) - rank(b) })
	kept = kept[:n]
	slices.SortFunc(kept, func(a, b *cudaapi.Function) int { return int(a.ID) - int(b.ID) })
	return kept, len(chosen) - n
}

// rank is lower for a function that matters more.
func rank(f *cudaapi.Function) int {
	switch {
	case f.Naming != cudaapi.NamesNothing, f.Range != cudaapi.NoRange:
		return 0
	case f.Name != f.Base(): // for per-thread default streams, which few programs use
		return 4
	case f.GPUWork:
		return 1
	case f.Sets&cudaapi.Default == 0:
		return 5
	case f.Category == "wait", f.Category == "memory":
		return 2
	}
	return 3
}
