package read

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// endOpenCalls makes the calls that were open when a recorder was killed calls that have not returned. In a log with an end each
// has a record, or is counted as lost.
func (c *Catalog) endOpenCalls() {
	if c.Outcome.End != nil {
		c.OpenCalls = tracelog.OpenCalls{}
	}
	for _, o := range c.OpenCalls.All() {
		c.Unfinished = true
		c.Processes.get(o.PID).kinds |= kindBit(tracelog.KindCall)
	}
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
