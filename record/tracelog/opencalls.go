package tracelog

import (
	"cmp"
	"math"
	"slices"
)

// OpenCalls are the calls of a log that had not returned for a while and have no Call record yet. A log that grows, or whose
// recorder was killed, has some.
type OpenCalls struct {
	byThread map[callingThread][]OpenCall
	count    int
}

type callingThread struct{ pid, tid uint32 }

// maxOpenCalls bounds the calls that are kept. A thread has a few.
const maxOpenCalls = 1 << 16

// Learn takes an OpenCall, which is row i of a block. It returns the time at which the call had not returned.
func (o *OpenCalls) Learn(b *Block, i int) (at uint64) {
	var c OpenCall
	c.Read(b, i)
	if o.count < maxOpenCalls {
		if o.byThread == nil {
			o.byThread = map[callingThread][]OpenCall{}
		}
		key := callingThread{c.PID, c.TID}
		o.byThread[key] = append(o.byThread[key], c)
		o.count++
	}
	if c.Dur > math.MaxInt64-min(c.Enter, math.MaxInt64) {
		return c.Enter
	}
	return c.Enter + c.Dur
}

// Take removes the calls that have their record in a block of calls. It stands behind their own.
func (o *OpenCalls) Take(b *Block) {
	if o.count == 0 {
		return
	}
	pids, tids, functions, enters := b.Column("pid"), b.Column("tid"), b.Column("func"), b.Column("enter")
	pid, onePID := pids.Const()
	tid, oneTID := tids.Const()
	if onePID && oneTID && o.byThread[callingThread{uint32(pid), uint32(tid)}] == nil {
		return
	}
	for i := range b.N {
		key := callingThread{uint32(pids.At(i)), uint32(tids.At(i))}
		open := o.byThread[key]
		if open == nil {
			continue
		}
		function, enter, before := uint32(functions.At(i)), enters.At(i), len(open)
		open = slices.DeleteFunc(open, func(c OpenCall) bool { return c.Func == function && c.Enter == enter })
		o.count -= before - len(open)
		if len(open) == 0 {
			delete(o.byThread, key)
		} else {
			o.byThread[key] = open
		}
	}
}

// Settle removes the calls whose records are in a part of the log that was not read. latest returns the latest start of a call of a
// thread in the part that was read: an open call before that has returned, or is around others. Of the calls of a thread only the
// innermost stays. inTime may end it.
func (o *OpenCalls) Settle(open func() (*Reader, error), latest func(pid, tid uint32) uint64, inTime func() error) error {
	wanted := Filter{Kinds: []Kind{KindCall}, From: math.MaxUint64}
	o.count = 0
	for key, calls := range o.byThread {
		last := slices.MaxFunc(calls, func(a, b OpenCall) int { return cmp.Compare(a.Enter, b.Enter) })
		if latest(key.pid, key.tid) > last.Enter {
			delete(o.byThread, key)
			continue
		}
		o.byThread[key] = []OpenCall{last}
		o.count++
		wanted.PIDs, wanted.TIDs, wanted.From = append(wanted.PIDs, key.pid), append(wanted.TIDs, key.tid), min(wanted.From, last.Enter)
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
		if b := r.Block(); b.Kind == KindCall {
			o.Take(b)
		}
		if err := inTime(); err != nil {
			return err
		}
	}
	return nil
}

// All lists the open calls, in the order in which they began.
func (o *OpenCalls) All() (list []OpenCall) {
	for _, calls := range o.byThread {
		list = append(list, calls...)
	}
	slices.SortFunc(list, func(a, b OpenCall) int {
		return cmp.Or(cmp.Compare(a.Enter, b.Enter), cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Func, b.Func))
	})
	return list
}
