package convert

// workIDs numbers the GPU work of a trace. Work of the first session that has any gets its
// correlation ID, which stands beside its number in the trace and so takes hardly any
// room; where other work has that number already, and in all other sessions, numbers are
// counted from furtherIDs on.
type workIDs struct {
	owner   *session
	taken   [takenWords]uint64 // a bit for each of the latest correlation IDs
	newest  uint32             // word of these
	further uint64             // how many numbers were counted
}

const (
	// furtherIDs is more than any correlation ID.
	furtherIDs = 1 << 32

	// takenWords is for 4 million correlation IDs, far more than work comes out of order.
	// Of those before them it is not known whether they are taken.
	takenWords = 1 << 16
)

// next returns the number of a piece of work.
func (d *workIDs) next(s *session, correlation uint32) uint64 {
	if d.owner == nil && correlation != 0 {
		d.owner = s
	}
	if d.owner == s && correlation != 0 && d.take(correlation) {
		return uint64(correlation)
	}
	d.further++
	return furtherIDs + d.further
}

// take reports whether a correlation ID was free.
func (d *workIDs) take(correlation uint32) bool {
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
