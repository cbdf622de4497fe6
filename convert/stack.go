package convert

import (
	"cmp"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// stackStats counts what joining one thread's observations found.
type stackStats struct {
	pairs   uint64 // uprobe pairs
	apis    uint64 // CUPTI API records
	joined  uint64 // API records with the uprobe pair of their call
	unseen  uint64 // API records of calls that succeeded and no uprobe saw
	calls   uint64 // outermost slices: what the program called
	failed  uint64 // outermost calls that returned an error
	open    uint64 // calls that had not returned
	clipped uint64 // slices that crossed the end of the one around them
	alone   uint64 // calls that create GPU work, succeeded, and have no API record

	launches uint64 // calls that launched a kernel, the outermost of each
	errors   map[failure]uint64
}

// A failure is a function with the error that it returned.
type failure struct {
	name, category string
	ret            int32
}

func (s *stackStats) add(o stackStats) {
	s.pairs += o.pairs
	s.apis += o.apis
	s.joined += o.joined
	s.unseen += o.unseen
	s.calls += o.calls
	s.failed += o.failed
	s.open += o.open
	s.clipped += o.clipped
	s.alone += o.alone
	s.launches += o.launches
	for f, n := range o.errors {
		if s.errors == nil {
			s.errors = make(map[failure]uint64)
		}
		s.errors[f] += n
	}
}

// item is a uprobe pair or an API record, in the order in which intervals nest.
type item struct {
	start, end uint64
	index      uint32
	rank       rank
}

// rank orders intervals that are equal: a runtime call makes the driver call
// that the pair saw, and a pair holds the driver's record of the same call.
type rank uint8

const (
	rankRuntimeAPI rank = iota
	rankPair
	rankDriverAPI
)

// stacker rebuilds one thread's call stacks.
type stacker struct {
	raw    *rawThread
	out    []Slice
	open   []int32 // indices into out, outermost first
	source []uint8 // what each slice is made of: fromPair, fromAPI
	stats  stackStats
}

const (
	fromPair = 1 << iota
	fromAPI
	hasPartner // a runtime record that holds its driver call's pair
	isPartner  // that pair
)

// stack joins a thread's uprobe pairs and API records into nested slices.
// Calls that never returned end at horizon.
func stack(raw *rawThread, horizon uint64) ([]Slice, stackStats) {
	s := &stacker{raw: raw, out: make([]Slice, 0, len(raw.calls)+len(raw.apis))}
	for _, it := range raw.items(horizon) {
		s.place(it)
	}
	s.stats.pairs, s.stats.apis = uint64(len(raw.calls)), uint64(len(raw.apis))
	launch := int32(math.MaxInt32) // depth of the launching call that is open
	for i := range s.out {
		sl := &s.out[i]
		s.count(sl)
		if sl.Depth <= launch {
			launch = math.MaxInt32
			if sl.launches {
				launch = sl.Depth
				s.launched(sl)
			}
		}
		// A call that fails may do so before it reaches the probed function.
		if s.source[i] == fromAPI && sl.Ret == 0 {
			s.stats.unseen++
		}
		if s.source[i] == fromPair && sl.work && sl.Ret == 0 && sl.Flags == 0 {
			s.stats.alone++
		}
	}
	if len(s.out) < cap(s.out)/4*3 { // many were two views of one call
		s.out = slices.Clone(s.out)
	}
	return s.out, s.stats
}

func (t *rawThread) items(horizon uint64) []item {
	items := make([]item, 0, len(t.calls)+len(t.apis))
	for i := range t.calls {
		c := &t.calls[i]
		if c.flags&tracelog.CallUnfinished != 0 {
			c.exit = max(horizon, c.enter)
		}
		items = append(items, item{c.enter, c.exit, uint32(i), rankPair})
	}
	for i := range t.apis {
		a := &t.apis[i]
		r := rankDriverAPI
		if a.fn.Category == categoryRuntime {
			r = rankRuntimeAPI
		}
		items = append(items, item{a.start, a.end, uint32(i), r})
	}
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.rank, b.rank))
	})
	return items
}

// place puts one interval on the stack: into the slice of the same call when the
// other observer already made it, else as a slice of its own.
func (s *stacker) place(it item) {
	for len(s.open) > 0 && s.out[s.open[len(s.open)-1]].End <= it.start {
		s.open = s.open[:len(s.open)-1]
	}
	sl, from := s.slice(it)
	if len(s.open) > 0 {
		top := s.open[len(s.open)-1]
		if s.merge(top, &sl, from) {
			return
		}
		if outer := &s.out[top]; sl.End > outer.End {
			sl.End = outer.End
			s.stats.clipped++
		}
		from |= s.partner(&sl, from)
	}
	sl.Depth = int32(len(s.open))
	s.open = append(s.open, int32(len(s.out)))
	s.out = append(s.out, sl)
	s.source = append(s.source, from)
}

func (s *stacker) launched(sl *Slice) {
	if sl.Ret == 0 {
		s.stats.launches++
	}
}

func (s *stacker) slice(it item) (Slice, uint8) {
	if it.rank == rankPair {
		c := &s.raw.calls[it.index]
		return Slice{
			Function: c.fn, Start: it.start, End: it.end, Ret: c.ret, Flags: uint32(c.flags),
			Args: s.raw.args[c.args : c.args+uint32(c.nargs)],
		}, fromPair
	}
	a := &s.raw.apis[it.index]
	return Slice{
		Function: a.fn, Start: it.start, End: it.end,
		Correlation: a.correlation, Ret: int32(a.ret),
	}, fromAPI
}

// merge folds a second view of one call into the slice that already holds it.
func (s *stacker) merge(top int32, sl *Slice, from uint8) bool {
	outer := &s.out[top]
	if s.source[top]&from != 0 || sl.End > outer.End || !outer.same(sl.Function) {
		return false
	}
	if from == fromAPI {
		outer.Correlation = sl.Correlation
	} else {
		outer.Function, outer.Ret, outer.Flags, outer.Args = sl.Function, sl.Ret, sl.Flags, sl.Args
	}
	s.source[top] |= from
	s.stats.joined++
	return true
}

// partner notes that a driver call's pair lies in the runtime record around it. It
// returns isPartner when there is such a record.
func (s *stacker) partner(sl *Slice, from uint8) (mark uint8) {
	if from != fromPair || sl.Category != categoryDriver {
		return 0
	}
	for _, o := range s.open {
		if s.source[o]&fromAPI == 0 || s.out[o].Category != categoryRuntime {
			continue
		}
		mark = isPartner
		// With its own pair the record was counted when the two were merged.
		if s.source[o]&(fromPair|hasPartner) == 0 {
			s.source[o] |= hasPartner
			s.stats.joined++
		}
	}
	return mark
}

func (s *stacker) count(sl *Slice) {
	if sl.Flags&tracelog.CallUnfinished != 0 {
		s.stats.open++
	}
	if sl.Depth > 0 {
		return
	}
	s.stats.calls++
	if sl.Ret == 0 || sl.Ret == notReady || sl.Ret == deinitialized || sl.Flags&(tracelog.CallUnfinished|tracelog.CallNoReturn) != 0 {
		return
	}
	s.stats.failed++
	if s.stats.errors == nil {
		s.stats.errors = make(map[failure]uint64)
	}
	s.stats.errors[failure{sl.Name, sl.Category, sl.Ret}]++
}
