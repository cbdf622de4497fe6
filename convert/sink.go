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
	// Track opens a track under the latest Thread, or with thread false one of the
	// process: the BeginSpan, Instant and End that follow are its own.
	Track(t *Track, thread bool)
	BeginSpan(*Span)
	Instant(*Span)
	Counter(*Counter)
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
			for _, t := range th.Tracks {
				s.Track(t, true)
				t.send(s)
			}
		}
		for _, t := range p.Tracks {
			s.Track(t, false)
			t.send(s)
		}
		for _, c := range p.Counters {
			s.Counter(c)
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

// A stackOfEnds has the ends of the open slices, outermost first.
type stackOfEnds []uint64

// closeTo ends slices until no more than depth are open.
func (o *stackOfEnds) closeTo(depth int, s Sink) {
	for len(*o) > depth {
		s.End((*o)[len(*o)-1])
		*o = (*o)[:len(*o)-1]
	}
}

// send turns the pre-order forest into nested begins and ends.
func (th *Thread) send(s Sink) {
	var open stackOfEnds
	for i := range th.Slices {
		sl := &th.Slices[i]
		open.closeTo(int(sl.Depth), s)
		s.Begin(sl)
		open = append(open, sl.End)
	}
	open.closeTo(0, s)
}

func (t *Track) send(s Sink) {
	var open stackOfEnds
	for i := range t.Spans {
		sp := &t.Spans[i]
		open.closeTo(int(sp.Depth), s)
		if sp.Instant {
			s.Instant(sp)
			continue
		}
		s.BeginSpan(sp)
		open = append(open, sp.End)
	}
	open.closeTo(0, s)
}
