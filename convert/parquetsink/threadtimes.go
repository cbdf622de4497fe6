package parquetsink

import "github.com/cudatrace/cudatrace/convert/timeline"

// states adds the states of a thread.
func (s *Sink) states(e *timeline.States) {
	p := s.part(e.Thread.Process)
	b := p.buffer(stateTable)
	for i := range e.List {
		x := &e.List[i]
		b.int(s.unix(x.Start))
		b.uint(x.End - x.Start)
		s.thread(b, e.Thread)
		b.text(x.ThreadState.String())
		b.small(x.CPU)
		why, holder := x.Why, uint32(null)
		if why == nil {
			why = &timeline.Block{}
		}
		if why.Holder != nil {
			holder = s.options.HostPID(why.Holder.TID)
		}
		b.text(s.why(why))
		b.text(why.Call)
		b.text(why.On)
		b.small(holder)
		b.small(p.stack(why.Python))
		s.end(b)
	}
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
	p := s.part(e.Thread.Process)
	b := p.buffer(threadSampleTable)
	for i := range e.List {
		x := &e.List[i]
		b.int(s.unix(x.Time))
		b.knownWide(e.Period)
		s.thread(b, e.Thread)
		b.text(x.SampleMode.String())
		b.small(p.native(x.Native))
		b.small(p.stack(x.Python))
		b.flag(x.Unread)
		s.end(b)
	}
}

func (s *Sink) thread(b *buffer, t *timeline.Thread) {
	b.small(s.options.HostPID(t.Process.PID))
	b.small(s.options.HostPID(t.TID))
	b.text(t.Title())
}
