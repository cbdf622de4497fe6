package blockfile

import "slices"

// A sequence knows the numbers of the blocks read so far: all below next but the missing ones.
type sequence struct {
	next    uint32 // one above the highest number
	missing []gap
	late    bool // the first block may have any number
}

// A gap is a run of numbers, the last one excluded.
type gap struct{ from, to uint32 }

// maxGaps is the number of gaps that are remembered. Late blocks of further gaps look like
// repeated ones.
const maxGaps = 64

// advance notes a number at or above the next one.
func (s *sequence) advance(seq uint32) {
	if seq > s.next && !s.late && len(s.missing) < maxGaps {
		s.missing = append(s.missing, gap{s.next, seq})
	}
	s.next, s.late = seq+1, false
}

// fill takes a number out of its gap and reports whether there was one.
func (s *sequence) fill(seq uint32) bool {
	for i, g := range s.missing {
		if seq < g.from || seq >= g.to {
			continue
		}
		s.missing = slices.Delete(s.missing, i, i+1)
		for _, rest := range []gap{{g.from, seq}, {seq + 1, g.to}} {
			if rest.from < rest.to && len(s.missing) < maxGaps {
				s.missing = append(s.missing, rest)
			}
		}
		return true
	}
	return false
}
