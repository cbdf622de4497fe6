package read

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// OpenCalls are the calls of a log that had not returned for a while and have no Call record yet: a log that is followed, or whose
// recorder was killed, has some.
type OpenCalls struct {
	byThread map[ThreadKey][]tracelog.OpenCall
	count    int
}

// maxOpenCalls bounds the calls that are kept. A thread has a few.
const maxOpenCalls = 1 << 16

// learn reads a row. It returns the time at which the call had not returned.
func (o *OpenCalls) learn(b *tracelog.Block, i int) (at uint64) {
	var c tracelog.OpenCall
	c.Read(b, i)
	if at = timeline.End(c.Enter, c.Dur); o.count >= maxOpenCalls {
		return at
	}
	if o.byThread == nil {
		o.byThread = map[ThreadKey][]tracelog.OpenCall{}
	}
	key := ThreadKey{c.PID, c.TID}
	o.byThread[key] = append(o.byThread[key], c)
	o.count++
	return at
}

// take removes the calls that have their record in a block of calls: it stands behind their own.
func (o *OpenCalls) take(b *tracelog.Block) {
	if o.count == 0 {
		return
	}
	pids, tids, functions, enters := b.Column("pid"), b.Column("tid"), b.Column("func"), b.Column("enter")
	pid, onePID := pids.Const()
	tid, oneTID := tids.Const()
	if onePID && oneTID && o.byThread[ThreadKey{uint32(pid), uint32(tid)}] == nil {
		return
	}
	for i := range b.N {
		key := ThreadKey{uint32(pids.At(i)), uint32(tids.At(i))}
		open := o.byThread[key]
		if open == nil {
			continue
		}
		function, enter := uint32(functions.At(i)), enters.At(i)
		left := slices.DeleteFunc(open, func(c tracelog.OpenCall) bool { return c.Func == function && c.Enter == enter })
		o.count -= len(open) - len(left)
		if len(left) == 0 {
			delete(o.byThread, key)
		} else {
			o.byThread[key] = left
		}
	}
}

// All lists the open calls, in the order in which they began.
func (o *OpenCalls) All() (list []tracelog.OpenCall) {
	for _, calls := range o.byThread {
		list = append(list, calls...)
	}
	slices.SortFunc(list, func(a, b tracelog.OpenCall) int {
		return cmp.Or(cmp.Compare(a.Enter, b.Enter), cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Func, b.Func))
	})
	return list
}

// Settle removes the calls whose records are in a part of the log that was not read. latest has the latest start of a call of each
// thread in the part that was read: an open call before that has returned, or is around others. Of the calls of a thread only the
// innermost stays. inTime may end it.
func (o *OpenCalls) Settle(open Opener, latest map[ThreadKey]uint64, inTime func() error) error {
	wanted := tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindCall}, From: timeline.Never}
	o.count = 0
	for key, calls := range o.byThread {
		last := slices.MaxFunc(calls, func(a, b tracelog.OpenCall) int { return cmp.Compare(a.Enter, b.Enter) })
		if latest[key] > last.Enter {
			delete(o.byThread, key)
			continue
		}
		o.byThread[key] = []tracelog.OpenCall{last}
		o.count++
		wanted.PIDs, wanted.TIDs, wanted.From = append(wanted.PIDs, key.PID), append(wanted.TIDs, key.TID), min(wanted.From, last.Enter)
	}
	if o.count == 0 {
		return nil
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Select(wanted); err != nil {
		return err
	}
	for r.Next() {
		if b := r.Block(); b.Kind == tracelog.KindCall {
			o.take(b)
		}
		if err := inTime(); err != nil {
			return err
		}
	}
	return nil
}

// AddOpen passes the calls that were open when a recorder was killed to the mergers of their threads.
func (l *Calls) AddOpen(thread func(pid, tid uint32) *Merger[Call]) {
	for _, o := range l.catalog.OpenCalls.All() {
		if !l.wanted.matchOpen(&o) {
			continue
		}
		f, m := l.catalog.Functions.ByID(o.Func), thread(o.PID, o.TID)
		c := Call{Start: o.Enter, End: o.Enter, Function: f, Arguments: l.NewArguments(slices.Clone(o.Args[:len(f.Params)])), Flags: tracelog.CallUnfinished, Rank: Pair}
		d := callDecoder{calls: l, process: m.process}
		d.locate(&c, o.Caller)
		d.finish(&c)
		l.counts.Pairs++
		m.loose.Add(c)
	}
}
