package convert

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxChain bounds how far a handle is followed to the one that has a name.
const maxChain = 8

// symbols knows the kernels behind a process's handles. A handle may come to
// stand for another kernel when a module was unloaded.
type symbols struct {
	byHandle map[uint64][]tracelog.Symbol // by time
	kernels  map[string]*Kernel
}

func newSymbols(list []tracelog.Symbol) *symbols {
	if len(list) == 0 {
		return nil
	}
	s := &symbols{make(map[uint64][]tracelog.Symbol), make(map[string]*Kernel)}
	slices.SortStableFunc(list, func(a, b tracelog.Symbol) int { return cmp.Compare(a.Time, b.Time) })
	for _, x := range list {
		s.byHandle[x.Handle] = append(s.byHandle[x.Handle], x)
	}
	return s
}

// kernel returns what a handle stood for at a time, nil when that is not known.
func (s *symbols) kernel(handle, at uint64) *Kernel {
	if s == nil {
		return nil
	}
	for range maxChain {
		list := s.byHandle[handle]
		if len(list) == 0 {
			return nil
		}
		// A handle that is used before it was made was made unseen, as the same.
		i, _ := slices.BinarySearchFunc(list, at, func(x tracelog.Symbol, at uint64) int {
			if x.Time <= at {
				return -1
			}
			return 1
		})
		x := &list[max(i-1, 0)]
		if x.Name != "" {
			return s.named(x.Name)
		}
		handle = x.Of
	}
	return nil
}

func (s *symbols) named(name string) *Kernel {
	k := s.kernels[name]
	if k == nil {
		k = &Kernel{name}
		s.kernels[name] = k
	}
	return k
}
