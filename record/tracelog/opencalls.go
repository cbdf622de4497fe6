package tracelog

import (
	"cmp"
	"math"
	"slices"
)

// OpenCalls are the calls of a log that had not returned for a while and have no record of a call yet. A log that
// grows, or whose recorder was killed, has some.
type OpenCalls struct {
	byThread map[callingThread][]OpenCall
	count    int
}

type callingThread struct{ pid, tid uint32 }

// These bound the calls that are kept, of all threads and of one, which has a few: of these the newest.
const (
	maxOpenCalls    = 1 << 16
	maxOpenOfThread = 16
)

// Learn takes an OpenCall, which is row i of a block. It returns the time at which the call had not returned.
func (o *OpenCalls) Learn(b *Block, i int) (at uint64) {
	var c OpenCall
	c.Read(b, i)
	if o.count < maxOpenCalls {
		if o.byThread == nil {
			o.byThread = map[callingThread][]OpenCall{}
		}
		key := callingThread{c.PID, c.TID}
		calls := o.byThread[key]
		if len(calls) == maxOpenOfThread {
			calls, o.count = slices.Delete(calls, 0, 1), o.count-1
		}
		o.byThread[key] = append(calls, c)
		o.count++
	}
	if c.Dur > math.MaxInt64-min(c.Enter, math.MaxInt64) {
		return c.Enter
	}
	return c.Enter + c.Dur
}

// isOver reports whether a Call of a function, or an API record of a domain, with that start says that a call is open
// no longer. A thread that has a later API record has gone on.
func (c *OpenCall) isOver(k Kind, of, start uint64) bool {
	if k == KindAPI {
		return c.Name != "" && of == DomainDriver && start >= c.Enter
	}
	return c.Name == "" && of == uint64(c.Func) && start == c.Enter
}

// Take removes the calls that are over, by a block of Call or API records. It stands behind theirs.
func (o *OpenCalls) Take(b *Block) {
	if o.count == 0 {
		return
	}
	of, start := "func", "enter"
	if b.Kind == KindAPI {
		of, start = "domain", "start"
	}
	pids, tids, ofs, starts := b.Column("pid"), b.Column("tid"), b.Column(of), b.Column(start)
	key := callingThread{uint32(pids.At(0)), uint32(tids.At(0))}
	for i := 0; i < b.N && o.byThread[key] != nil; i++ {
		calls, of, start := o.byThread[key], ofs.At(i), starts.At(i)
		open := slices.DeleteFunc(calls, func(c OpenCall) bool { return c.isOver(b.Kind, of, start) })
		o.count -= len(calls) - len(open)
		if o.byThread[key] = open; len(open) == 0 {
			delete(o.byThread, key)
		}
	}
}

// Settle removes the calls whose records are in a part of the log that was not read. latest returns the latest start of
// a call of an open call's thread in the part that was read: an open call before that has returned, or is around
// others. Of the calls of a thread the innermost stays, with those that were seen in the same look: they are around it.
// inTime may end it.
func (o *OpenCalls) Settle(open func() (*Reader, error), latest func(OpenCall) uint64, inTime func() error) error {
	wanted := Filter{Kinds: []Kind{KindCall, KindAPI}, From: math.MaxUint64}
	o.count = 0
	for key, calls := range o.byThread {
		last := slices.MaxFunc(calls, func(a, b OpenCall) int { return cmp.Compare(a.Enter, b.Enter) })
		if latest(last) > last.Enter {
			delete(o.byThread, key)
			continue
		}
		o.byThread[key] = slices.DeleteFunc(calls, func(c OpenCall) bool { return c.Enter+c.Dur != last.Enter+last.Dur })
		o.count += len(o.byThread[key])
		wanted.PIDs, wanted.TIDs = append(wanted.PIDs, key.pid), append(wanted.TIDs, key.tid)
		for _, c := range o.byThread[key] {
			wanted.From = min(wanted.From, c.Enter)
		}
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
		if b := r.Block(); b.Kind == KindCall || b.Kind == KindAPI {
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
		return cmp.Or(cmp.Compare(a.Enter, b.Enter), cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID),
			cmp.Compare(a.Func, b.Func), cmp.Compare(a.Name, b.Name))
	})
	return list
}
