package read

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// endOpenCalls makes the calls that were open when a recorder was killed calls that have not returned. In a log with an
// end each has a record, or is counted as lost.
func (c *Catalog) endOpenCalls() {
	if c.Outcome.End != nil {
		c.OpenCalls = tracelog.OpenCalls{}
	}
	for _, o := range c.OpenCalls.All() {
		kind := tracelog.KindCall
		if o.Name != "" {
			kind = tracelog.KindAPI
		}
		c.Unfinished = true
		c.Processes.get(o.PID).kinds |= kindBit(kind)
	}
}

// OpenCall returns the thread and the function of an open call.
func (c *Catalog) OpenCall(o *tracelog.OpenCall) (hostTID uint32, f *Function) {
	if o.Name == "" {
		return o.TID, c.Functions.ByID(o.Func)
	}
	return c.Names.HostTID(o.PID, o.TID), c.Functions.OfDriver(o.Name)
}

// AddOpen passes the calls that were open when a recorder was killed to the mergers of their threads.
func (l *Calls) AddOpen(thread func(pid, tid uint32) *Merger[Call]) {
	for _, o := range l.catalog.OpenCalls.All() {
		if !l.wanted.matchOpen(&o) {
			continue
		}
		tid, f := l.catalog.OpenCall(&o)
		m := thread(o.PID, tid)
		c := Call{
			Start: o.Enter, End: o.Enter, Function: f, Arguments: noArguments, Flags: tracelog.CallUnfinished, Rank: DriverAPI,
		}
		counted := &l.counts.APIs
		if o.Name == "" {
			c.Arguments, c.Rank, counted = l.NewArguments(slices.Clone(o.Args[:len(f.Params)])), Pair, &l.counts.Pairs
		}
		d := callDecoder{calls: l, process: m.process}
		d.locate(&c, o.Caller)
		d.finish(&c)
		*counted++
		m.loose.Add(c)
	}
}
