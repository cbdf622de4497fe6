package convert

import "math"

// A callIndex finds a process's calls by correlation ID. CUPTI counts these from
// 1, so that nearly always an array serves.
type callIndex struct {
	first  uint32
	dense  []*Slice
	sparse map[uint32]*Slice
}

func newCallIndex(p *Process) *callIndex {
	count, first, last := 0, uint32(math.MaxUint32), uint32(0)
	each(p, func(sl *Slice) {
		count++
		first, last = min(first, sl.Correlation), max(last, sl.Correlation)
	})
	x := &callIndex{first: first}
	if count > 0 && uint64(last-first) < 4*uint64(count)+1024 {
		x.dense = make([]*Slice, last-first+1)
		each(p, func(sl *Slice) { x.dense[sl.Correlation-first] = sl })
		return x
	}
	x.sparse = make(map[uint32]*Slice, count)
	each(p, func(sl *Slice) { x.sparse[sl.Correlation] = sl })
	return x
}

// each calls f with every call that has a correlation ID.
func each(p *Process, f func(*Slice)) {
	for _, th := range p.Threads {
		for i := range th.Slices {
			if th.Slices[i].Correlation != 0 {
				f(&th.Slices[i])
			}
		}
	}
}

// find returns the call with a correlation ID, nil where there is none.
func (x *callIndex) find(correlation uint32) *Slice {
	if x.sparse != nil {
		return x.sparse[correlation]
	}
	if i := correlation - x.first; uint64(i) < uint64(len(x.dense)) {
		return x.dense[i]
	}
	return nil
}
