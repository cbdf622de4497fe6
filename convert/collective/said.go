package collective

// Say notes the communicator of one of the stream's kernels, by its hash, as NCCL itself names it; 0 where it does not.
func (s *Stream) Say(communicator uint64) {
	switch {
	case communicator == 0:
		s.said.silent++
	case s.said.times == 0 || s.said.communicator == communicator:
		s.said.communicator = communicator
		s.said.times++
	default:
		s.said.several = true
	}
}

// Said is the communicator of the stream as NCCL names it, 0 where that is not certain.
func (s *Stream) Said() uint64 { return s.said.known() }

// A said is what NCCL says about the kernels of a stream.
type said struct {
	communicator  uint64
	times, silent int // kernels that are of it, kernels of which nothing is said
	several       bool
}

// known is the communicator of the stream, 0 where that is not certain: at least half of the kernels that were asked for must tell.
func (s *said) known() uint64 {
	if s.several || s.times < s.silent {
		return 0
	}
	return s.communicator
}

// agree says whether NCCL tells that two streams are of one communicator, or of two. Those of one belong together only if they
// ran the same kernels from their first ones on: else the parts of a collective are not known.
func agree(a, b *Stream) (same, known bool) {
	x, y := a.said.known(), b.said.known()
	if x == 0 || y == 0 {
		return false, false
	}
	return x == y && aligned(a, b), true
}

// aligned says whether two streams ran the same kernels, as far as both have any.
func aligned(a, b *Stream) bool {
	level := max(a.level, b.level)
	n := min(a.count, b.count) >> level
	if n == 0 {
		return false
	}
	x, ok := a.part(n-1, level)
	y, also := b.part(n-1, level)
	return ok && also && x.name == y.name
}
