package joined

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// states adds the states of a thread.
func (s *Sink) states(e *timeline.States) {
	p, pid, tid := s.part(e.Thread.Process), s.options.HostPID(e.Thread.Process.PID), s.options.HostPID(e.Thread.TID)
	list := make([]State, 0, len(e.List))
	for i := range e.List {
		x := &e.List[i]
		r := State{Start: s.unix(x.Start), Dur: bounded(x.End - x.Start), PID: pid, TID: tid, Thread: e.Thread.Title(),
			State: x.ThreadState.String(), CPU: x.CPU, HolderTID: None, StackID: None}
		if why := x.Why; why != nil {
			r.Why, r.Call, r.WaitsOn, r.StackID = s.why(why), why.Call, why.On, p.stack(why.Python)
			if why.Holder != nil {
				r.HolderTID = s.options.HostPID(why.Holder.TID)
			}
		}
		list = append(list, r)
	}
	rows(p, list)
}

// why says why a thread was blocked, "" if that is not known.
func (s *Sink) why(of *timeline.Block) string {
	if of.Call == "" {
		return ""
	}
	text, known := s.blocks[of]
	if !known {
		text = of.Text()
		s.blocks[of] = text
	}
	return text
}

// stackSamples adds the samples of what a thread ran.
func (s *Sink) stackSamples(e *timeline.StackSamples) {
	p, pid, tid := s.part(e.Thread.Process), s.options.HostPID(e.Thread.Process.PID), s.options.HostPID(e.Thread.TID)
	list := make([]Sample, 0, len(e.List))
	for i := range e.List {
		x := &e.List[i]
		list = append(list, Sample{Start: s.unix(x.Time), Period: knownWide(e.Period), PID: pid, TID: tid,
			Thread: e.Thread.Title(),
			Place:  x.SampleMode.String(), NativeID: p.native(x.Native), StackID: p.stack(x.Python), Unread: x.Unread})
	}
	rows(p, list)
}
