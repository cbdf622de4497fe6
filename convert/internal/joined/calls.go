package joined

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

func (s *Sink) slices(l *timeline.Slices) {
	p := s.part(l.Thread.Process)
	pid, tid := s.options.HostPID(l.Thread.Process.PID), s.options.HostPID(l.Thread.TID)
	s.calls = slices.Grow(s.calls[:0], len(l.List))[:len(l.List)]
	arrows := s.arrows[:0]
	for i := range l.List {
		sl := &l.List[i]
		p.calls++
		p.call(&s.calls[i], l.Thread, sl)
		for _, id := range sl.Work() {
			arrows = append(arrows, Arrow{
				Kind: "launch", Start: s.unix(sl.Start), CallID: p.calls, WorkID: bounded(id), PID: pid, TID: tid,
			})
		}
		for _, w := range sl.Waits() {
			arrows = append(arrows, Arrow{
				Kind: "wait", Start: s.unix(w.End), CallID: p.calls, WorkID: bounded(w.Work), PID: pid, TID: tid,
			})
		}
	}
	rows(p, s.calls)
	rows(p, arrows)
	s.arrows = arrows
}

// call makes the row of a call, the last one of its partition.
func (p *part) call(c *Call, t *timeline.Thread, sl *timeline.Slice) {
	s, python := p.sink, sl.Python
	if sl.HasWork() {
		python = t.Launching(python)
	}
	*c = Call{
		Start: s.unix(sl.Start), Dur: NoNumber, CallID: p.calls, Name: sl.Name, Library: sl.Library,
		PID: s.options.HostPID(t.Process.PID), TID: s.options.HostPID(t.TID), Depth: uint32(max(sl.Depth, 0)),
		Correlation: known(sl.Correlation),
		Stream:      None, Result: int64(sl.Ret), Failed: sl.Failed(),
		Caller: p.caller(sl.Caller), NVTX: p.ranges(sl.Ranges), StackID: p.stack(python),
	}
	c.Operator, c.OperatorStack = p.operator(sl.Operator)
	if sl.Flags&timeline.Unfinished == 0 {
		c.Dur = bounded(sl.End - min(sl.Start, sl.End))
	}
	if sl.Stream != nil {
		c.Stream = sl.Stream.ID
	}
	switch {
	case sl.Flags&(timeline.Unfinished|timeline.NoReturn) != 0:
		c.Result = NoNumber
	case sl.Ret != 0:
		c.Error = sl.ErrorName()
	}
}
