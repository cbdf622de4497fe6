package join

// WorkIDs number the GPU work of a timeline. Work of the first program that has any gets
// its correlation ID, which stands beside its number in a trace and so takes hardly any
// room; where other work has that number already, and in all other programs, numbers are
// counted from countedIDs on.
type WorkIDs struct {
	owner   *program
	taken   [takenWords]uint64 // a bit for each of the latest correlation IDs
	newest  uint32             // word of these
	counted uint64             // numbers so far
}

const (
	// countedIDs is more than any correlation ID.
	countedIDs = 1 << 32

	// takenWords is for 4 million correlation IDs, far more than work comes out of order.
	// Of those before them it is not known whether they are taken.
	takenWords = 1 << 16
)

// next returns the number of a piece of work.
func (d *WorkIDs) next(p *program, correlation uint32) uint64 {
	if d.owner == nil && correlation != 0 {
		d.owner = p
	}
	if d.owner == p && correlation != 0 && d.take(correlation) {
		return uint64(correlation)
	}
	d.counted++
	return countedIDs + d.counted
}

// take reports whether a correlation ID was free.
func (d *WorkIDs) take(correlation uint32) bool {
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
