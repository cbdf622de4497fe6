package join

import "slices"

// byProgram has a value for some programs of a process, in the order of the programs: a process
// may have run thousands, and a thread of it belongs to one.
type byProgram[T any] struct {
	programs []uint16
	values   []T
}

// get returns the value of a program; it makes one if there is none.
func (l *byProgram[T]) get(program uint16, make func() T) T {
	if len(l.programs) == 1 && l.programs[0] == program {
		return l.values[0]
	}
	i, found := slices.BinarySearch(l.programs, program)
	if !found {
		l.programs = slices.Insert(l.programs, i, program)
		l.values = slices.Insert(l.values, i, make())
	}
	return l.values[i]
}
