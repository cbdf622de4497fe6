package selection

import "math/bits"

// Lengths counts slices by their duration: those up to 16 µs exactly, longer ones within 0.01 %.
type Lengths struct {
	Count  uint64
	groups []uint64
}

// lengthBits are the bits of a duration that tell its group.
const lengthBits = 14

// group returns the number of the group of a duration.
func group(d uint64) int {
	if d < 1<<lengthBits {
		return int(d)
	}
	shift := bits.Len64(d) - lengthBits
	return shift<<(lengthBits-1) + int(d>>shift)
}

// groupStart is the shortest duration of a group.
func groupStart(i int) uint64 {
	if i < 1<<lengthBits {
		return uint64(i)
	}
	shift := i>>(lengthBits-1) - 1
	return uint64(i-shift<<(lengthBits-1)) << shift
}

// Add counts a slice.
func (l *Lengths) Add(d uint64) {
	if l.groups == nil {
		l.groups = make([]uint64, group(^uint64(0))+1)
	}
	l.groups[group(d)]++
	l.Count++
}

// Longest returns the border of the longest slices of all, a number of them.
func (l *Lengths) Longest(n uint64) Border {
	if n >= l.Count {
		return Border{}
	}
	for i := len(l.groups) - 1; ; i-- {
		if of := l.groups[i]; n < of {
			b := Border{From: groupStart(i), To: ^uint64(0), Some: n, Of: of}
			if i+1 < len(l.groups) {
				b.To = groupStart(i + 1)
			}
			return b
		} else {
			n -= of
		}
	}
}

// A Border selects a number of the longest slices: those that last at least To, and some that last at least From, the
// first ones.
type Border struct {
	From, To uint64 // ns; 0 for no border
	Some, Of uint64
}

// takes reports whether a slice that is long enough for From is shown. It is asked once for each.
func (b *Border) takes(d uint64) bool {
	switch {
	case d >= b.To:
		return true
	case d < b.From || b.Some == 0:
		return false
	}
	b.Some--
	return true
}
