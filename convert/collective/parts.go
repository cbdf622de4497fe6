package collective

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A partSink gives each kernel of NCCL its [timeline.Part]: which collective it is part of, and how long its rank
// waited for the others. Kernels that send and receive have one of their own: nothing tells which belong together. All
// events are passed on.
type partSink struct {
	timeline.Sink
	table   *Arrivals
	streams map[*timeline.Stream][]*Member // those that a kernel of the stream may be of
	beyond  uint64                         // start of the first kernel beyond mostSends
}

// Sink returns a sink before another one.
func (t *Arrivals) Sink(next timeline.Sink) *partSink {
	return &partSink{Sink: next, table: t, streams: make(map[*timeline.Stream][]*Member)}
}

// Take tells of work and passes events on.
func (s *partSink) Take(events []timeline.Event) error {
	for _, e := range events {
		if l, ok := e.(*timeline.WorkList); ok {
			s.work(l)
		}
	}
	return s.Sink.Take(events)
}

func (s *partSink) work(l *timeline.WorkList) {
	members, known := s.streams[l.Stream]
	if !known {
		c := l.Stream.Context
		for _, m := range s.table.members[c.Process.PID] {
			if m.Communicator != 0 || m.Place == (Place{Context: c.ID, Stream: l.Stream.ID}) {
				members = append(members, m)
			}
		}
		s.streams[l.Stream] = members
	}
	for i := range l.List {
		w := &l.List[i]
		switch {
		case w.Kind != timeline.KernelWork || w.Untimed || w.Unfinished:
		case Sends(w.Shape.Kernel.Name):
			w.Part = s.send(w)
		default:
			w.Part = s.part(members, w)
		}
	}
}

// End notes what is not shown, and ends the timeline.
func (s *partSink) End(err error) error {
	if text := s.table.Note(); text != "" && err == nil {
		err = s.Sink.Take([]timeline.Event{&timeline.Note{Time: s.beyond, Text: text}})
	}
	return cmp.Or(s.Sink.End(err), err)
}

// mostSends bounds the kernels that send and receive of which is told: a sink may keep each.
const mostSends = 1 << 20

// Note says for people what is beyond a bound, "" for nothing.
func (s *Shown) Note() string {
	if s.Sends <= mostSends {
		return ""
	}
	return figures.Count(s.Sends-mostSends, "kernel that sends and receives is", "kernels that send and receive are") +
		" not shown as such: there were more than " + figures.Group(mostSends)
}

// send returns the Part for a send/receive kernel, nil beyond the bound.
func (s *partSink) send(w *timeline.Work) *timeline.Part {
	if s.table.Sends++; s.table.Sends > mostSends {
		s.beyond = cmp.Or(s.beyond, w.Start)
		return nil
	}
	call := ""
	if w.NCCL != nil {
		call = w.NCCL.Call
	}
	return &timeline.Part{Collective: timeline.Collective{Operation: OperationOf(w.Shape.Kernel.Name, call), Alone: true}}
}

// find returns the member that ran a kernel, with the index of the kernel's start; nil for none.
func find(members []*Member, w *timeline.Work) (*Member, int) {
	if len(members) == 0 || NameOf(w.Shape.Kernel.Name).Kind == Other {
		return nil, 0
	}
	said := uint64(0)
	if w.NCCL != nil {
		said = w.NCCL.Communicator
	}
	for _, m := range members {
		if said != 0 && m.Communicator != 0 && m.Communicator != said { // kernels of two may start at one time
			continue
		}
		if i, found := slices.BinarySearch(m.starts, w.Start); found {
			return m, i
		}
	}
	return nil, 0
}

// part returns the part that a kernel is, nil for a kernel that is none. members are those whose part it may be.
func (s *partSink) part(members []*Member, w *timeline.Work) *timeline.Part {
	m, i := find(members, w)
	if m == nil {
		return nil
	}
	c := m.of
	l := &c.lasts[i]
	operation, _ := timeline.NCCLKernel(w.Shape.Kernel.Name)
	p := &timeline.Part{Collective: timeline.Collective{ID: c.id + uint32(i), Communicator: c.number, Number: c.first +
		uint64(i), Ranks: int(l.ranks),
		Operation: operation}}
	if l.member < 0 || l.ranks < 2 {
		return p
	}
	last := c.members[l.member]
	p.Last, p.Entered, p.Doubt = last.Name, l.entered, l.doubt
	p.Waited, p.IsLast = l.entered-w.Start, last == m
	if p.Waited <= unsure {
		return p
	}
	s.table.Waits++
	apart, known := m.apart(last, l.entered)
	if p.Awaits = known && p.Waited > apart && timeline.End(w.Start, w.Dur) >= p.Entered; !p.Awaits {
		s.table.Doubtful++
	}
	return p
}
