package collective

// agree reports whether NCCL tells that two sequences are of one communicator, or of two. Those of one belong together only if they
// ran the same kernels from their first ones on: else the parts of a collective are not known.
func agree(a, b *Sequence) (same, known bool) {
	if a.Communicator == 0 || b.Communicator == 0 {
		return false, false
	}
	return a.Communicator == b.Communicator && aligned(a, b), true
}

// aligned reports whether two sequences ran the same kernels, as far as both have any.
func aligned(a, b *Sequence) bool {
	level := max(a.level, b.level)
	n := min(a.shared(), b.shared()) >> level
	if n == 0 {
		return false
	}
	x, ok := a.names(n-1, level)
	y, also := b.names(n-1, level)
	return ok && also && x == y
}
