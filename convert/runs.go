package convert

import (
	"cmp"
	"slices"
)

// RunsOf puts the logs of the ranks of one run together: it returns the indexes of the logs of each run, in the order
// of the first log of each.
//
// Logs of several ranks are of one run if they name the same run, and the same number of ranks, and no rank is twice
// among them. Where a rank is in several logs of a name, as one job may run a program several times, or where no run is
// named, only logs that were recorded at the same time are of one run.
func RunsOf(logs []Identity) (runs [][]int) {
	order := make([]int, len(logs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logs[a].Begin, logs[b].Begin) })
	for _, i := range order {
		l := &logs[i]
		at := -1
		if l.ofSeveral() {
			timed := l.Run == "" || repeats(logs, l)
			at = slices.IndexFunc(runs, func(run []int) bool { return takes(logs, run, l, timed) })
		}
		if at < 0 {
			runs = append(runs, []int{i})
		} else {
			runs[at] = append(runs[at], i)
		}
	}
	for _, run := range runs {
		slices.Sort(run)
	}
	slices.SortFunc(runs, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return runs
}

// ofSeveral reports whether a log has some of several ranks.
func (l *Identity) ofSeveral() bool { return len(l.Ranks) > 0 && l.World != 1 }

// repeats reports whether several logs of the run that a log names have the same rank.
func repeats(logs []Identity, of *Identity) bool {
	seen := make(map[uint32]bool)
	for i := range logs {
		l := &logs[i]
		if !l.ofSeveral() || l.Run != of.Run || l.World != of.World {
			continue
		}
		for _, r := range l.Ranks {
			if seen[r] {
				return true
			}
			seen[r] = true
		}
	}
	return false
}

// takes reports whether a log is of a run. With timed set it was recorded at the same time as the first log of it.
func takes(logs []Identity, run []int, l *Identity, timed bool) bool {
	first := &logs[run[0]]
	if !first.ofSeveral() || first.Run != l.Run || first.World != l.World {
		return false
	}
	if timed && (!first.Aligned || !l.Aligned || l.Begin > first.End || first.Begin > l.End) {
		return false
	}
	for _, i := range run {
		for _, r := range logs[i].Ranks {
			if slices.Contains(l.Ranks, r) {
				return false
			}
		}
	}
	return true
}
