package stats

// Unrelated reports whether processes of the timeline have nothing to do with each other: none is a rank, and they fall
// into groups that have no kernel in common.
func (s *Sink) Unrelated() bool {
	if s.ranks.Ranks() > 0 {
		return false
	}
	group := make(map[int]int) // of a process, by index: a process of its group, at last itself
	root := func(i int) int {
		for group[i] != i {
			i = group[i]
		}
		return i
	}
	groups := 0
	for _, k := range kernelsReport.rowsOf(s.view().whole).List {
		first := -1
		for i := range k.on.Indices() {
			if _, known := group[i]; !known {
				group[i] = i
				groups++
			}
			if first < 0 {
				first = root(i)
			} else if r := root(i); r != first {
				group[r] = first
				groups--
			}
		}
	}
	return groups > 1
}
