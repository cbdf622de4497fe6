package main

import (
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// calledFrom selects the records of calls with certain callers or Python frames, and of the GPU work that these
// calls caused.
type calledFrom struct {
	callers map[uint64]bool // IDs
	// Python frames are chosen: those of a call are known from its correlation ID alone
	python       bool
	correlations map[uint32]map[uint32]uint64 // a bit for each correlation ID, 64 to a word, by PID
}

// newCalledFrom selects the calls of a log whose callers match a glob, and whose Python frames match another one; "" is
// no glob.
func newCalledFrom(log convert.Log, caller, python string) (*calledFrom, error) {
	f := &calledFrom{
		callers: make(map[uint64]bool), python: python != "", correlations: make(map[uint32]map[uint32]uint64),
	}
	if caller != "" {
		if err := f.readCallers(log, caller); err != nil || len(f.callers) == 0 {
			return f, err
		}
	}
	// Only a conversion knows the API record and the work of a probed call.
	_, err := convert.Timeline([]convert.Log{log},
		convert.Options{Filter: convert.Filter{Caller: caller, Python: python}}, f)
	return f, err
}

func (f *calledFrom) readCallers(log convert.Log, glob string) error {
	r, err := log.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Select(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindCaller}}); err != nil {
		return err
	}
	matches := make(map[timeline.Caller]bool) // many IDs have equal places
	for r.Next() {
		b := r.Block()
		for i := 0; i < b.N && b.Kind == tracelog.KindCaller; i++ {
			var c tracelog.Caller
			c.Read(b, i)
			place := timeline.Caller{Module: c.Module, Address: c.Address, Symbol: c.Symbol, SymbolOffset: c.SymbolOffset}
			match, known := matches[place]
			if !known {
				match = c.Module != "" && selection.MatchCaller(glob, &place)
				matches[place] = match
			}
			if match {
				f.callers[uint64(c.ID)] = true
			}
		}
	}
	if err := r.Err(); !tracelog.IsDamage(err) {
		return err
	}
	return nil
}

// Take notes the correlation IDs of the calls that the conversion selected.
func (f *calledFrom) Take(events []timeline.Event) error {
	for _, e := range events {
		calls, ok := e.(*timeline.Slices)
		if !ok {
			continue
		}
		pid := calls.Thread.Process.PID
		if f.correlations[pid] == nil {
			f.correlations[pid] = make(map[uint32]uint64)
		}
		for i := range calls.List {
			id := calls.List[i].Correlation
			f.correlations[pid][id/64] |= 1 << (id % 64)
		}
	}
	return nil
}

// End ends the conversion.
func (f *calledFrom) End(error) error { return nil }

// Wants reports whether to print a record: one of the selected calls or of their work, or a record of
// a kind that is neither call nor work.
func (f *calledFrom) Wants(b *tracelog.Block, i int) bool {
	switch {
	case !hasCaller(b.Kind):
		return true
	case b.Kind == tracelog.KindCall:
		return !f.python && f.calls(b, i)
	case b.Kind == tracelog.KindAPI:
		return !f.python && f.calls(b, i) || f.correlated(b, i)
	}
	return f.correlated(b, i)
}

// hasCaller reports whether records of a kind are calls, or work that a call caused.
func hasCaller(k tracelog.Kind) bool {
	return k == tracelog.KindCall || k == tracelog.KindAPI || k.IsWork()
}

func (f *calledFrom) calls(b *tracelog.Block, i int) bool {
	caller := b.Column("caller")
	return f.callers[caller.At(i)]
}

func (f *calledFrom) correlated(b *tracelog.Block, i int) bool {
	pid, correlation := b.Column("pid"), b.Column("correlation")
	id := uint32(correlation.At(i))
	return id != 0 && f.correlations[uint32(pid.At(i))][id/64]>>(id%64)&1 != 0
}
