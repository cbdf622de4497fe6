package collective

// agree reports whether NCCL tells that two sequences are of one communicator, or of two. Those of one belong together
// only if they ran the same kernels from their first ones on, and at the same time: else the parts of a collective are
// not known.
func agree(a, b *Sequence) (same, known bool) {
	if a.Communicator == 0 || b.Communicator == 0 {
		return false, false
	}
	return a.Communicator == b.Communicator && aligned(a, b) && !contradicted(a, b), true
}

// contradicted reports whether most parts of two sequences whose clock is one cannot be of one collective each.
func contradicted(a, b *Sequence) bool {
	if a.Host != b.Host || !a.Midway && !b.Midway {
		return false
	}
	level := max(a.level, b.level)
	wrong, all := 0, 0
	n := min(a.shared(), b.shared()) >> level
	for i := uint64(0); i < n; i += n/mostCommon + 1 {
		x, _ := a.part(i, level)
		y, _ := b.part(i, level)
		if x.Waits && y.Waits {
			if all++; isApart(x, y) {
				wrong++
			}
		}
	}
	return 2*wrong > all
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
