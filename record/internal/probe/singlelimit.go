package probe

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
)

// singleLimits is the most functions of a library that are probed with perf events. The kernel
// removes these events one after the other, two per function, in 30 ms or more each. All
// functions of the driver for GPU work, and those that allocate, are within the limit.
var singleLimits = map[cudaapi.Library]int{cudaapi.Driver: 80, cudaapi.Runtime: 24}

// withinLimit leaves out the functions beyond the library's limit, and notes their number.
func withinLimit(chosen []*cudaapi.Function, l *Library) []*cudaapi.Function {
	kept, leftOut := mostImportant(chosen, max(singleLimits[l.Side]-len(l.Functions), 0))
	if leftOut > 0 {
		l.Refused = append(l.Refused,
			figures.Count(leftOut, "more function", "more functions")+
				" (this kernel takes long to remove probes; Linux 6.10 or newer does not)")
	}
	return kept
}

// mostImportant keeps at most n functions, in table order, and returns the number that it
// leaves out.
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

// rank is lower for a more important function.
func rank(f *cudaapi.Function) int {
	switch {
	case f.Naming != cudaapi.NamesNothing, f.Range != cudaapi.NoRange:
		return 0
	case f.Name != f.Base(): // for per-thread default streams, which few programs use
		return 5
	case f.GPUWork:
		return 1
	case f.Allocating(): // with one of them missing, what is allocated is not known
		return 2
	case f.Sets&cudaapi.Default == 0:
		return 6
	case f.Category == "wait", f.Category == "memory":
		return 3
	}
	return 4
}
