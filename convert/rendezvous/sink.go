package rendezvous

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Sink tells of each kernel of NCCL which part of a collective it is, and passes all events on.
type Sink struct {
	timeline.Sink
	table   *Table
	streams map[*timeline.Stream]*Member // nil for a stream of no communicator
}

// Sink returns a sink before another one.
func (t *Table) Sink(next timeline.Sink) *Sink {
	return &Sink{next, t, make(map[*timeline.Stream]*Member)}
}

// Take tells of work and passes events on.
func (s *Sink) Take(events []timeline.Event) error {
	for _, e := range events {
		if l, ok := e.(*timeline.WorkList); ok {
			s.work(l)
		}
	}
	return s.Sink.Take(events)
}

func (s *Sink) work(l *timeline.WorkList) {
	m, known := s.streams[l.Stream]
	if !known {
		c := l.Stream.Context
		m = s.table.members[Key{c.Process.PID, c.ID, l.Stream.ID}]
		s.streams[l.Stream] = m
	}
	for i := range l.List {
		w := &l.List[i]
		switch {
		case w.Kind != timeline.KernelWork || w.Untimed || w.Unfinished:
		case collective.Sends(w.Shape.Kernel.Name):
			w.Part = s.send(w)
		case m != nil:
			w.Part = s.part(m, w)
		}
	}
}

// mostSends bounds the kernels that send and receive of which is told: a sink may keep each.
const mostSends = 1 << 20

// send returns the part that a kernel is which sends and receives, nil for one beyond the bound.
func (s *Sink) send(w *timeline.Work) *timeline.Part {
	if s.table.Sends++; s.table.Sends > mostSends {
		return nil
	}
	call := ""
	if w.NCCL != nil {
		call = w.NCCL.Call
	}
	return &timeline.Part{Collective: timeline.Collective{Operation: collective.OperationOf(w.Shape.Kernel.Name, call), Alone: true}}
}

// unsure is the error of a GPU's times, in ns: a shorter wait is none.
const unsure = 2000

// part returns the part that a kernel is, nil for a kernel that is none.
func (s *Sink) part(m *Member, w *timeline.Work) *timeline.Part {
	i, found := slices.BinarySearch(m.starts, w.Start)
	if !found {
		return nil
	}
	c := m.of
	l := &c.lasts[i]
	p := &timeline.Part{Collective: timeline.Collective{ID: c.id + uint32(i), Communicator: c.number, Number: c.first + uint64(i), Ranks: int(l.ranks),
		Operation: collective.Operation(w.Shape.Kernel.Name)}}
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
	apart, known := m.apart(last)
	if p.Awaits = known && p.Waited > apart && timeline.End(w.Start, w.Dur) >= p.Entered; !p.Awaits {
		s.table.Doubtful++
	}
	return p
}
