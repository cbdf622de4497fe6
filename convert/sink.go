package convert

// A Sink takes a timeline, one track after the other. Implementations write
// traces; tests write text.
type Sink interface {
	GPUs([]GPU)
	Process(*Process)
	// Thread opens a thread's track: the Begin and End that follow are its own,
	// properly nested and in time order.
	Thread(*Thread)
	Begin(*Slice)
	End(ts uint64)
	// Queue opens a stream's track: the Work that follows is its own, by start.
	Queue(*Queue)
	Work(*Work)
	Mark(*Mark)
}

// Send gives the timeline to a sink.
func (t *Timeline) Send(s Sink) {
	s.GPUs(t.GPUs)
	for _, p := range t.Processes {
		s.Process(p)
	}
	for _, p := range t.Processes {
		for _, th := range p.Threads {
			s.Thread(th)
			th.send(s)
		}
		for _, q := range p.Queues {
			s.Queue(q)
			for i := range q.Work {
				s.Work(&q.Work[i])
			}
		}
	}
	for i := range t.Marks {
		s.Mark(&t.Marks[i])
	}
}

// send turns the pre-order forest into nested begins and ends.
func (th *Thread) send(s Sink) {
	var open []uint64 // ends of the open slices, outermost first
	for i := range th.Slices {
		sl := &th.Slices[i]
		for len(open) > int(sl.Depth) {
			s.End(open[len(open)-1])
			open = open[:len(open)-1]
		}
		s.Begin(sl)
		open = append(open, sl.End)
	}
	for len(open) > 0 {
		s.End(open[len(open)-1])
		open = open[:len(open)-1]
	}
}
