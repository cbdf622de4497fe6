package join

// WorkIDs number the GPU work of a timeline. Work of the first program with work gets its
// correlation ID as its number, since a trace with two equal numbers side by side compresses
// better. Where other work has that number already, and in all other programs, numbers are
// counted from countedIDs on.
type WorkIDs struct {
	owner   *program
	taken   [takenWords]uint64 // a bit for each of the latest correlation IDs
	newest  uint32             // number of the newest word of taken
	counted uint64             // number of counted IDs so far
}

const (
	// countedIDs is larger than any correlation ID.
	countedIDs = 1 << 32

	// takenWords is enough for 4 million correlation IDs, far more than the disorder of
	// work. IDs before these count as taken.
	takenWords = 1 << 16
)

// next returns the number of a piece of work.
func (d *WorkIDs) next(p *program, correlation uint32) uint64 {
	if d.owner == nil && correlation != 0 {
		d.owner = p
	}
	if d.owner == p && correlation != 0 && d.claim(correlation) {
		return uint64(correlation)
	}
	d.counted++
	return countedIDs + d.counted
}

// claim marks a correlation ID as used. It reports whether the ID was free.
func (d *WorkIDs) claim(correlation uint32) bool {
	word := correlation / 64
	if word > d.newest {
		for i := range min(word-d.newest, takenWords) {
			d.taken[(word-i)%takenWords] = 0
		}
		d.newest = word
	}
	if d.newest-word >= takenWords {
		return false
	}
	bits, bit := &d.taken[word%takenWords], uint64(1)<<(correlation%64)
	free := *bits&bit == 0
	*bits |= bit
	return free
}
